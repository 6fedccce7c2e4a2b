"""Small runs of every command, to be killed, stopped and starved: what goes in, what comes out, how to go on."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tests.oracles import clustered

SAMPLE = Path(__file__).parents[2] / "sample_data"
OLD = b"what was there before"
Content = Mapping[str, bytes | str]


@dataclass(frozen=True)
class Work:
    """A command on small inputs.  ``again`` are the arguments of a rerun after a kill, where they differ."""

    arguments: str
    output: str  # the file or folder that is the result
    make: Callable[[Path], None]
    again: str | None = None
    heavy: bool = False
    patches: Mapping[str, Any] = field(default_factory=dict)
    passing: tuple[str, ...] = ()  # files that change along the way, by the end of their names
    idle: int = 5  # exit code of a rerun with nothing left to do: the output exists
    codes: Mapping[int, int] = field(default_factory=lambda: {2: 130, 15: 143})  # by signal

    @property
    def forced(self) -> bool:
        """Whether an older output is to be replaced."""
        return "--force" in self.arguments

    def command(self, again: bool = False) -> list[str]:
        """Return the arguments."""
        return shlex.split(self.again if again and self.again is not None else self.arguments)

    def prepare(self, folder: Path) -> Path:
        """Make a folder to run in, with the inputs and, where one is to be replaced, an older output."""
        folder.mkdir(parents=True)
        self.make(folder)
        if self.forced and "." in self.output:
            (folder / self.output).write_bytes(OLD)
        return folder


def features(folder: Path, name: str = "f.h5", rows: int = 600, seed: int = 0) -> None:
    """A feature file of three classes and 16 features."""
    h = np.concatenate([clustered(rows // 3, 16, 3, seed=seed + c) for c in range(3)]).astype("f4")
    y = np.repeat([0, 1, 2], rows // 3)
    order = np.random.default_rng(seed).permutation(len(y))
    with h5py.File(folder / name, "w") as file:
        file["features"], file["labels"] = h[order], y[order]
        file["split"] = (np.arange(len(y)) % 5 == 4).astype("u1")


def images(folder: Path) -> None:
    """A hundred of the sample's images, and its checkpoint."""
    with h5py.File(SAMPLE / "digits-images.h5") as file, h5py.File(folder / "i.h5", "w") as out:
        out["images"], out["labels"] = file["images"][:100], file["labels"][:100]
    (folder / "c.pt").symlink_to(SAMPLE / "digits-resnet18.pt")


def shards(folder: Path) -> None:
    """Two shards of one extraction, made by hand."""
    from pdac_cli.files.feature_writer import FeatureWriter
    from pdac_cli.files.results.shards import ShardPlace

    rng = np.random.default_rng(0)
    for index in range(2):
        place = ShardPlace(index, 2, 300 * index, 300 * index + 300)
        attributes = {"extraction": "e" * 64, "skipped": 0, **place.attributes()}
        with FeatureWriter(folder / f"part-{index}.h5", 16, n_logits=3, attrs=attributes) as writer:
            writer.append(rng.normal(size=(300, 16)), np.arange(300) % 3, rng.normal(size=(300, 3)))


MODELLED = "--density class --model m.h5"
SMALL = "--dim 3 --components 2 -q"  # of what fits densities
EVERY_BATCH = {"pdac_cli.commands.extract.command._PART_SECONDS": 0.0}
EVERY_EPOCH = {"pdac_cli.learning.loop._SAVE_SECONDS": 0.0}
EXTRACT = "extract --checkpoint c.pt --data i.h5 -o out.h5 --batch-size 10 --jobs 1 -q"
STREAM = f"stream f.h5 --budget 40 -o out.json --state s.h5 --state-every 96 --trace t.csv {SMALL} {MODELLED}"
TRAIN = "train-cl f.h5 --tasks 3 --seeds 1 --budget 30 -o run --jobs 1 -q"
OFFLINE = f"{TRAIN} --epochs 2 --method pdac --method uniform"
ONLINE = f"{TRAIN} --setting online --method spdac --method er"
GOES_ON = {2: 6, 15: 6}

WORKS: dict[str, Work] = {
    "fit": Work(f"fit f.h5 -o out.h5 --jobs 1 {SMALL}", "out.h5", features),
    "fit, replacing": Work(f"fit f.h5 -o out.h5 --jobs 1 --force {SMALL}", "out.h5", features),
    "select": Work("select f.h5 -o out.json --budget 40 --jobs 1 -q", "out.json", features),
    "select, replacing": Work("select f.h5 -o out.h5 --budget 40 --jobs 1 --force -q", "out.h5", features),
    "convert": Work("convert f.h5 -o out.h5 --dtype float16 -q", "out.h5", features),
    "convert, replacing": Work("convert f.h5 -o out.parquet --force -q", "out.parquet", features),
    "convert, shards": Work("convert f.h5 -o out.h5 --shard-rows 100 -q", "out-00005.h5", features, idle=0,
                            codes=GOES_ON),
    "compare": Work(f"compare f.h5 -o out.csv --methods uniform,herding --budget 20 --jobs 1 {SMALL}", "out.csv",
                    features),
    "report": Work("report f.h5 -o out.html --jobs 1 --dim 3 --components 2 -q", "out.html", features),
    "merge": Work("merge part-0.h5 part-1.h5 -o out.h5 -q", "out.h5", shards),
    "merge, linked": Work("merge part-0.h5 part-1.h5 -o out.h5 --link --force -q", "out.h5", shards),
    "stream": Work(STREAM, "out.json", features, passing=("s.h5", "t.csv"), idle=0, codes=GOES_ON),
    "stream, replacing": Work("stream f.h5 --budget 40 -o out.json --force -q", "out.json", features),
    "extract": Work(EXTRACT, "out.h5", images, heavy=True, patches=EVERY_BATCH, codes=GOES_ON),
    "extract, replacing": Work(f"{EXTRACT} --force", "out.h5", images, heavy=True, patches=EVERY_BATCH,
                               codes=GOES_ON),
    "train-cl": Work(OFFLINE, "run", features, f"{OFFLINE} --resume", heavy=True, patches=EVERY_EPOCH, idle=0,
                     passing=("checkpoint.pt",), codes=GOES_ON),
    "train-cl, online": Work(ONLINE, "run", features, f"{ONLINE} --resume", heavy=True, patches=EVERY_EPOCH,
                             idle=0, passing=("checkpoint.pt",), codes=GOES_ON),
}  # fmt: skip


def steady(found: Content) -> dict[str, bytes | str]:
    """The contents of a folder without the seconds that things took."""
    return {name: _without_seconds(name, data) for name, data in found.items()}


def _without_seconds(name: str, data: bytes | str) -> bytes | str:
    if isinstance(data, str):
        return data
    text = data.decode("utf-8", "replace")
    if name.endswith(("result.json", "results.json")):
        return json.dumps(_stripped(json.loads(text)))
    lines = [line.split(",") for line in text.splitlines()]
    if name == "t.csv":  # rows, seconds, rows a second, …
        return "\n".join(",".join([line[0], *line[3:]]) for line in lines)
    if name.endswith("results.csv"):
        kept = [k for k, title in enumerate(lines[0]) if "seconds" not in title]
        return "\n".join(",".join(line[k] for k in kept) for line in lines)
    if name == "out.csv":
        return "\n".join(",".join([*line[:4], *line[5:]]) for line in lines)
    return data


def _stripped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stripped(each) for key, each in value.items() if key not in ("seconds", "output")}
    return [_stripped(each) for each in value] if isinstance(value, list) else value

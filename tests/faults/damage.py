"""Every file that pdac writes and reads again, where it goes in, and ways to damage it."""

from __future__ import annotations

import functools
import random
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tests.faults.processes import Server
from tests.faults.works import EVERY_BATCH, EVERY_EPOCH, OFFLINE, SAMPLE, SMALL, features, images, shards

SELECT = "select f.h5 --budget 20 --jobs 1 --memory 64M -q"
STREAM = "stream f.h5 g.h5 --budget 40 -o out.json --state s.h5 --trace t.csv -q"
EXTRACT = "extract --checkpoint c.pt --data i.h5 -o out.h5 --batch-size 20 --jobs 1 -q"


@dataclass(frozen=True)
class Kind:
    """A kind of file: how one comes about, and the command that reads it."""

    path: str
    arguments: str
    make: Callable[[Path], None]
    before: tuple[str, ...] = ()  # commands that make it; the last one may be stopped on its way
    stopped: int | None = None  # at which change to its folder that one is killed
    heavy: bool = False
    patches: Mapping[str, Any] = field(default_factory=dict)

    def command(self) -> list[str]:
        """Return the arguments."""
        return shlex.split(self.arguments)


def packed(folder: Path) -> None:
    """Features compressed, with names for labels."""
    rng = np.random.default_rng(0)
    with h5py.File(folder / "f.h5", "w") as file:
        file.create_dataset("features", data=rng.normal(size=(60, 4)), chunks=(10, 4), compression="gzip", shuffle=True)
        file["labels"] = (np.arange(60) % 3).astype("S3")


def few(folder: Path, name: str = "f.h5", seed: int = 0) -> None:
    """Sixty rows."""
    features(folder, name, 60, seed)


def archive(folder: Path) -> None:
    """Features as .npz."""
    few(folder, "g.h5")
    with h5py.File(folder / "g.h5") as file:
        np.savez_compressed(folder / "f.npz", features=file["features"][:], labels=file["labels"][:])


def two_files(folder: Path) -> None:
    """Two files of one stream."""
    few(folder)
    few(folder, "g.h5", 1)


def few_images(folder: Path) -> None:
    """Forty of the sample's images."""
    images(folder)
    with h5py.File(folder / "i.h5", "r+") as file:
        for name in ("images", "labels"):
            values = file[name][:40]
            del file[name]
            file[name] = values
    with h5py.File(folder / "i.h5") as file:
        np.savez_compressed(folder / "i.npz", images=file["images"][:], labels=file["labels"][:])


def own_checkpoint(folder: Path) -> None:
    """The checkpoint as a file that may be damaged, and as safetensors."""
    import torch
    from safetensors.torch import save_file

    few_images(folder)
    (folder / "c.pt").unlink()
    shutil.copy(SAMPLE / "digits-resnet18.pt", folder / "c.pt")
    state = torch.load(folder / "c.pt", weights_only=True)["state_dict"]
    save_file({name: value.contiguous() for name, value in state.items()}, folder / "c.safetensors")


MEAN = "--mean 0.3 --std 0.35"
KINDS: dict[str, Kind] = {
    "features": Kind("f.h5", SELECT, few),
    "packed features": Kind("f.h5", SELECT, packed),
    "features.npz": Kind("f.npz", SELECT.replace("f.h5", "f.npz"), archive),
    "streamed features": Kind("f.h5", "stream f.h5 --budget 20 -o out.json -q", few),
    "model": Kind("m.h5", f"{SELECT} --model m.h5", few, (f"fit f.h5 -o m.h5 {SMALL}",)),
    "buffer.h5": Kind("b.h5", f"{SELECT} --buffer b.h5", two_files, (SELECT.replace("f.h5", "g.h5") + " -o b.h5",)),
    "buffer.json": Kind("b.json", f"{SELECT} --buffer b.json", two_files,
                        (SELECT.replace("f.h5", "g.h5") + " -o b.json",)),
    "state": Kind("s.h5", STREAM, two_files, (STREAM.replace("g.h5 ", ""),)),
    "inspected": Kind("f.h5", "inspect f.h5 --memory 64M", packed),
    "inspected state": Kind("s.h5", "inspect s.h5", two_files, (STREAM,)),
    "inspected trace": Kind("t.csv", "inspect t.csv", two_files, (STREAM,)),
    "verified": Kind("b.json", "verify b.json --again --memory 64M", two_files, (f"{SELECT} -o b.json",)),
    "trace": Kind("t.csv", STREAM, two_files, (STREAM.replace("g.h5 ", ""),)),
    "shard": Kind("part-1.h5", "merge part-0.h5 part-1.h5 -o out.h5 -q", shards),
    # Not the file of merge --link: it keeps its sources in a global heap, and the HDF5 library loops for ever on some
    # damaged ones, as it does with strings of variable length, of which we write none.
    "images": Kind("i.h5", EXTRACT, few_images, heavy=True),
    "images.npz": Kind("i.npz", EXTRACT.replace("i.h5", "i.npz"), few_images, heavy=True),
    "checkpoint": Kind("c.pt", EXTRACT, own_checkpoint, heavy=True),
    "safetensors": Kind("c.safetensors", EXTRACT.replace("c.pt", "c.safetensors") + f" {MEAN}", own_checkpoint,
                        heavy=True),
    "manifest": Kind("out.h5.parts/manifest.json", EXTRACT, few_images, (EXTRACT,), 17, True, EVERY_BATCH),
    "part": Kind("out.h5.parts/rows-000000000000-000000000020.npz", EXTRACT, few_images, (EXTRACT,), 17, True,
                 EVERY_BATCH),
    "run: config": Kind("run/config.json", f"{OFFLINE} --resume", few, (OFFLINE,), 60, True, EVERY_EPOCH),
    "run: result": Kind("run/pdac/seed-0/result.json", f"{OFFLINE} --resume", few, (OFFLINE,), 60, True, EVERY_EPOCH),
    "run: checkpoint": Kind("run/uniform/seed-0/checkpoint.pt", f"{OFFLINE} --resume", few, (OFFLINE,), 90, True,
                            EVERY_EPOCH),
    "run: buffer": Kind("run/uniform/seed-0/buffer-1.json", f"{OFFLINE} --resume", few, (OFFLINE,), 90, True,
                        EVERY_EPOCH),
    "run: results": Kind("run/results.json", "train-cl --compare run --json", few, (OFFLINE,), None, True),
}  # fmt: skip


@functools.cache
def template(name: str, server: Server) -> Path:
    """A folder with everything that the kind's command reads, undamaged; made once."""
    kind, folder = KINDS[name], Path(tempfile.mkdtemp(prefix="pdac-damage-")) / "here"
    folder.mkdir()
    kind.make(folder)
    for k, line in enumerate(kind.before, 1):
        last = k == len(kind.before)
        ended = server.run(shlex.split(line), folder, patches=kind.patches, die_at=kind.stopped if last else None)
        assert ended.code == (-9 if last and kind.stopped else 0), ended.err
    assert (folder / kind.path).exists(), [str(path.relative_to(folder)) for path in folder.rglob("*")]
    return folder


def damage(data: bytes, seed: int) -> bytes:
    """The data cut off somewhere, with some of its bytes changed, or with a run of zeros."""
    rng = random.Random(seed)
    way = rng.random()
    if way < 0.2:
        return data[: rng.randrange(len(data))]
    changed = bytearray(data)
    if way < 0.3:
        start = rng.randrange(len(data))
        changed[start : start + 64] = bytes(len(changed[start : start + 64]))
        return bytes(changed)
    # The first bytes of most formats say how the rest is to be read.
    reach = len(data) if rng.random() < 0.7 else min(len(data), 2048)
    for _ in range(rng.randint(1, 6)):
        changed[rng.randrange(reach)] ^= rng.choice([0x01, 0x80, rng.randint(1, 255)])
    return bytes(changed)

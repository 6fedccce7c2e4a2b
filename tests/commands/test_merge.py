"""``pdac merge``: shards join to the file that one run gives, and nothing else joins."""

from __future__ import annotations

import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from pdac_cli.commands.extract import command as extract
from pdac_cli.files.features import open_features
from pdac_cli.options.extract import ExtractOptions, StoredType
from pdac_cli.options.shared import InputOptions
from tests.commands.extract.extracted import (
    CHECKPOINT,
    FEATURES,
    IMAGES,
    attributes,
    folder_of_digits,
    left_beside,
    read,
)

torch.set_num_threads(1)
COUNT = 4


def run(out: Path, **changes) -> None:
    extract.run(ExtractOptions(**{"data": str(IMAGES), "output": out, "checkpoint": CHECKPOINT, **changes}))


@pytest.fixture(scope="module")
def extracted(tmp_path_factory) -> Path:
    """A folder with ``whole.h5`` and the four shards of the same extraction."""
    folder = tmp_path_factory.mktemp("shards")
    run(folder / "whole.h5")
    for i in range(COUNT):
        run(folder / f"part-{i}.h5", shard=(i, COUNT))
    return folder


@pytest.fixture
def shards(extracted, tmp_path) -> list[Path]:
    return [Path(shutil.copy(extracted / f"part-{i}.h5", tmp_path)) for i in range(COUNT)]


def test_shards_join_to_the_bytes_of_one_run(pdac, extracted, shards, tmp_path):
    out = tmp_path / "feats.h5"
    result = pdac("merge", *reversed(shards), "-o", out, "--json")
    assert (result.code, result.json["rows"], result.json["shards"]) == (0, 1797, COUNT)
    assert out.read_bytes() == (extracted / "whole.h5").read_bytes()
    assert left_beside(out) == []


def test_shards_are_even(shards):
    rows = [len(read(path)["features"]) for path in shards]
    assert rows == [449, 449, 449, 450]
    assert [attributes(path)["shard_start"] for path in shards] == [0, 449, 898, 1347]


def test_a_linked_file_refers_to_its_shards(pdac, extracted, shards, tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    out = tmp_path / "sub" / "feats.h5"
    assert pdac("merge", *shards, "-o", out, "--link").code == 0
    assert out.stat().st_size < 20_000
    linked, whole = read(out), read(extracted / "whole.h5")
    assert list(linked) == list(whole)
    for name in whole:
        assert np.array_equal(linked[name], whole[name])
    assert attributes(out) == attributes(extracted / "whole.h5")
    with open_features(InputOptions(paths=(str(out),), allow_external=True)) as source:
        assert source.fingerprint == attributes(out)["fingerprint"]
    monkeypatch.chdir("/")
    moved = tmp_path.with_name(f"{tmp_path.name}-moved")
    tmp_path.rename(moved)  # all together
    assert np.array_equal(read(moved / "sub" / "feats.h5")["features"], whole["features"])
    (moved / "part-2.h5").unlink()
    result = pdac("fit", moved / "sub" / "feats.h5", "-o", moved / "model.h5", "--allow-external")
    assert result.code == 3
    assert "'../part-2.h5' is missing" in result.err


def test_skipped_images_are_counted_over_all_shards(pdac, tmp_path):
    root = folder_of_digits(tmp_path / "tree")
    for name in ("digit-0/0.png", "digit-9/9.png"):
        (root / name).write_text("no image")
    arguments = {"data": str(root), "batch_size": 4, "skip_bad": True}
    run(tmp_path / "whole.h5", **arguments)
    for i in range(3):
        run(tmp_path / f"part-{i}.h5", shard=(i, 3), **arguments)
    result = pdac("merge", *(tmp_path / f"part-{i}.h5" for i in range(3)), "-o", tmp_path / "feats.h5")
    assert result.code == 0
    assert (tmp_path / "feats.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()
    assert attributes(tmp_path / "feats.h5")["skipped"] == 2
    assert "skipped                 2" in result.err


def refused(pdac, paths, out: Path, code: int, *words: str) -> None:
    for link in ([], ["--link"]):
        result = pdac("merge", *paths, "-o", out, *link)
        assert result.code == code
        assert len(result.err.splitlines()) == 1
        for word in words:
            assert word in result.err
        assert not out.exists()
        assert left_beside(out) == []


def test_missing_and_doubled_shards(pdac, shards, tmp_path):
    out = tmp_path / "feats.h5"
    refused(
        pdac, [shards[0], shards[3]], out, 3, "2 of 4 shards missing: 1, 2; expected every shard once", "--shard 1/4"
    )
    refused(pdac, [*shards, shards[1]], out, 3, "part-1.h5: is shard 1, as ", "expected every shard once")
    copy = Path(shutil.copy(shards[1], tmp_path / "copy.h5"))
    refused(pdac, [*shards, copy], out, 3, "is shard 1, as ")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shard": (1, 3)}, "shard_count is 3, that of"),
        ({"dtype": StoredType.FLOAT16}, "the type of 'features' is float16, that of"),
        ({"batch_size": 64}, "is 64, that of"),
        ({"split": "test", "batch_size": 32}, "extract them with the same options"),
    ],
)
def test_shards_of_other_extractions(pdac, shards, tmp_path, changes, words):
    from pdac_cli.options.extract import Split

    if "split" in changes:
        changes = {**changes, "split": Split(changes["split"])}
    shards[1].unlink()
    run(shards[1], **{"shard": (1, COUNT), **changes})
    refused(pdac, shards, tmp_path / "feats.h5", 3, "part-1.h5", words)


def test_shards_of_another_checkpoint_with_other_features(pdac, shards, tmp_path):
    from pdac_cli.learning.networks.backbones import resnet18

    torch.manual_seed(0)
    meta = torch.load(CHECKPOINT, weights_only=True)["meta"]
    for width, words in ((8, "_sha256 is"), (4, "the shape of 'features' is (32,), that of")):
        state = resnet18(10, width=width, in_channels=1).state_dict()
        torch.save({"state_dict": state, "meta": meta}, tmp_path / "other.pt")
        shards[1].unlink()
        run(shards[1], checkpoint=tmp_path / "other.pt", shard=(1, COUNT))
        refused(pdac, shards, tmp_path / "feats.h5", 3, words)


def cut_rows(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["features"].resize(100, axis=0)


def drop_labels(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["labels"]


def drop_mark(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file.attrs["extraction"]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut_rows, "'features' has shape (100, 64); expected 449 rows, as its attributes say"),
        (drop_labels, "has no 'labels'"),
        (drop_mark, "is no shard (no attribute 'extraction')"),
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), "truncated: expected"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_text("a poem"), "is not an HDF5 file"),
        (lambda path: path.unlink(), "not found"),
        (lambda path: (path.unlink(), path.mkdir()), "is a folder"),
    ],
)
def test_damaged_shards(pdac, shards, tmp_path, damage, words):
    damage(shards[1])
    refused(pdac, shards, tmp_path / "feats.h5", 3, "part-1.h5", words)


def test_files_that_are_no_shards(pdac, extracted, tmp_path):
    refused(pdac, [extracted / "whole.h5"], tmp_path / "feats.h5", 3, "is no shard (no attribute 'shard_index')")
    refused(pdac, [FEATURES], tmp_path / "feats.h5", 3, "expected files of pdac extract --shard i/n")


def test_outputs_that_are_in_the_way(pdac, shards, tmp_path):
    before = shards[2].read_bytes()
    result = pdac("merge", *shards, "-o", shards[2], "--force")
    assert (result.code, shards[2].read_bytes() == before) == (2, True)
    out = tmp_path / "feats.h5"
    out.write_text("precious")
    assert pdac("merge", *shards, "-o", out).code == 5
    assert out.read_text() == "precious"
    assert pdac("merge", *shards, "-o", out, "--force", "--link").code == 0
    assert pdac("merge", "-o", tmp_path / "x.h5").code == 2

"""Small files that would become large: the memory stays within bounds, whatever they declare."""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.faults.processes import Server

MEMORY = 160 << 20  # beyond what the command takes on a sound file
ROWS = 60


def features(file: h5py.File, **columns: object) -> None:
    columns = {"features": np.random.default_rng(0).normal(size=(ROWS, 4)), "labels": np.arange(ROWS) % 3} | columns
    for name, values in columns.items():
        file[name] = values


def packed(file: h5py.File, chunk: tuple[int, ...], raw: bytes, **filters: object) -> None:
    """Features in one chunk whose stored bytes are ``raw``."""
    features(file)
    del file["features"]
    data = file.create_dataset("features", (ROWS, 4), "f8", chunks=chunk, maxshape=(None, None), **filters)
    data.id.write_direct_chunk((0, 0), raw)


def twice_deflated(file: h5py.File) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((ROWS, 4))
    plist.set_deflate(9)
    plist.set_deflate(9)
    features(file)
    del file["features"]
    space = h5py.h5s.create_simple((ROWS, 4))
    data = h5py.h5d.create(file.id, b"features", h5py.h5t.IEEE_F64LE, space, plist)
    data.write_direct_chunk((0, 0), zlib.compress(deflated(400 << 20), 9))


def deflated(size: int) -> bytes:
    stream = zlib.compressobj(9)
    block = bytes(1 << 20)
    return b"".join([*(stream.compress(block) for _ in range(size >> 20)), stream.flush()])


def one_string_for_all(file: h5py.File, **how: object) -> None:
    """Labels that all point at one string of 8 MB, of which HDF5 would make a copy each."""
    features(file)
    del file["labels"]
    labels = file.create_dataset("labels", (ROWS,), h5py.string_dtype(), **how)
    labels[0] = "x" * (8 << 20)
    file.flush()
    if "compression" in how:
        reference = zlib.decompress(labels.id.read_direct_chunk((0,))[1])[:16]
        labels.id.write_direct_chunk((0,), zlib.compress(reference * ROWS))
        return
    at, path = labels.id.get_offset(), Path(file.filename)
    file.close()
    with path.open("r+b") as stream:
        stream.seek(at)
        reference = stream.read(16)
        stream.seek(at)
        stream.write(reference * ROWS)


def wide(file: h5py.File, name: str, shape: tuple[int, ...], dtype: str) -> None:
    features(file)
    file.pop(name, None)
    file.create_dataset(name, shape, dtype, chunks=(1, *shape[1:]))


def nbit(file: h5py.File) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((ROWS, 4))
    plist.set_filter(h5py.h5z.FILTER_NBIT, 0)
    features(file)
    del file["features"]
    h5py.h5d.create(file.id, b"features", h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((ROWS, 4)), plist)
    path = Path(file.filename)
    file.close()
    elements, data = struct.pack("<3I", ROWS * 4, 1, 8), path.read_bytes()
    assert data.count(elements) == 1
    path.write_bytes(data.replace(elements, struct.pack("<3I", 10**9, 1, 8)))


def many_names(file: h5py.File) -> None:
    """Distinct names of 4 kB, packed a thousandfold."""
    features(file)
    del file["labels"], file["features"]
    rows = 40_000
    file.create_dataset("features", (rows, 4), "f4", chunks=(1000, 4))
    labels = file.create_dataset("labels", (rows,), "S4096", chunks=(100,), compression="gzip")
    for first in range(0, rows, 1000):
        labels[first : first + 1000] = [b"%04096d" % row for row in range(first, first + 1000)]


BOMBS: dict[str, tuple[Callable[[h5py.File], object], str]] = {
    "two compressions": (twice_deflated, "by the filters 1, 1 one after the other"),
    "a chunk stored in more than it declares": (
        lambda f: packed(f, (ROWS, 4), deflated(400 << 20), compression="gzip"), "is stored in .* and declares 1,920"),
    "a chunk that unpacks to more than it declares": (
        lambda f: packed(f, (20_000, 4), deflated(400 << 20), compression="gzip"), "unpacks to more than the 640,000"),
    "the same, shuffled and summed up": (
        lambda f: packed(f, (20_000, 4), deflated(400 << 20), compression="gzip", shuffle=True, fletcher32=True),
        "unpacks to more than"),
    "a chunk of nearly 1 GiB": (
        lambda f: packed(f, ((1 << 27) // 5, 5), zlib.compress(b""), compression="gzip"), "in chunks of 1.07 GB"),
    "a filter that makes more": (nbit, "a filter that makes"),
    "one string for all labels": (one_string_for_all, "strings of 8,388,608 bytes"),
    "the same, compressed": (lambda f: one_string_for_all(f, chunks=(ROWS,), compression="gzip"),
                             "strings of 8,388,608"),
    "names of a gigabyte": (lambda f: wide(f, "label_names", (3,), "S1000000000"), ".label_names. has 1,000,000,000"),
    "names without number": (lambda f: wide(f, "label_names", (6 * 10**7,), "S10"), "two classes alike"),
    "wide labels": (lambda f: wide(f, "labels", (ROWS,), "S30000"), "strings of 30,000 bytes"),
    "many wide names": (many_names, "expected names of classes"),
    "rows of terabytes": (lambda f: wide(f, "features", (ROWS, 2**36), "f8"), "one row of 'features' has"),
    "a wide id": (lambda f: wide(f, "ids", (ROWS,), "S400000000"), "one row of 'ids' has"),
}  # fmt: skip


@pytest.fixture(scope="module")
def usual(light: Server, tmp_path_factory: pytest.TempPathFactory) -> int:
    """What a sound file takes at most."""
    folder = tmp_path_factory.mktemp("sound")
    with h5py.File(folder / "f.h5", "w") as file:
        features(file)
    ended = light.run(["fit", "f.h5", "-o", "m.h5", "--dim", "2", "--memory", "64M"], folder)
    assert ended.code == 0, ended.err
    return ended.peak


VERBS = [
    "fit f.h5 -o m.h5 --dim 2 --memory 64M",
    "stream f.h5 --budget 9 -o b.json",
    "stream f.h5 --budget 9 -o b.json --follow --timeout 0",
]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("bomb", BOMBS)
def test_hdf5(bomb: str, verb: str, usual: int, light: Server, tmp_path: Path) -> None:
    make, words = BOMBS[bomb]
    with h5py.File(tmp_path / "f.h5", "w") as file:
        make(file)
    ended = light.run(verb.split(), tmp_path)
    ended.check_manners()
    assert ended.code == 3, ended.err
    assert re.search(words, ended.error), ended.error
    assert ended.peak <= usual + MEMORY


@pytest.mark.parametrize("text", ["{},", '"a",', "1,", '{"a":1},', "[],"])
def test_json(text: str, usual: int, light: Server, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        features(file)
    inside = text * ((40 << 20) // len(text))
    (tmp_path / "b.json").write_text('{"format": "pdac-index", "version": 1, "kept": [' + inside + "{}]}")
    ended = light.run(["select", "f.h5", "--budget", "9", "--memory", "64M", "--buffer", "b.json"], tmp_path)
    ended.check_manners()
    assert ended.code == 3
    assert "expected an index file" in ended.error
    assert ended.peak <= usual + MEMORY


def test_a_large_index_of_ours_is_read(light: Server, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        features(file)
    ended = light.run(["select", "f.h5", "--budget", "9", "-o", "b.json", "-q"], tmp_path)
    assert ended.code == 0, ended.err
    index = json.loads((tmp_path / "b.json").read_text())
    index["label_names"] = [str(k) for k in range(50_000)]
    index["sources"][0]["rows"] = 10**6
    like = index["kept"][0] | {"log_density": None}
    index["kept"] = [like | {"row": row, "label": 0} for row in range(20_000)]
    index["class_counts"] = {"0": 20_000}
    (tmp_path / "b.json").write_text(json.dumps(index, indent=2))
    ended = light.run(["select", "f.h5", "--budget", "9", "--buffer", "b.json"], tmp_path)
    assert "has this feature file already, as task 1" in ended.error  # which only what was read can tell


def test_a_header_of_gigabytes(usual: int, light: Server, tmp_path: Path) -> None:
    """NumPy reads as much as the header says before it looks at it, and an archive unpacks that."""
    with zipfile.ZipFile(tmp_path / "f.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("features.npy", "w", force_zip64=True) as member:
            member.write(b"\x93NUMPY\x02\x00" + (400 << 20).to_bytes(4, "little"))
            for _ in range(400):
                member.write(b" " * (1 << 20))
        with archive.open("labels.npy", "w") as member:
            np.lib.format.write_array(member, np.zeros(ROWS, int))
    ended = light.run(["fit", "f.npz", "-o", "m.h5"], tmp_path)
    ended.check_manners()
    assert ended.code == 3
    assert "has a header of 419,430,400 bytes" in ended.error
    assert ended.peak <= usual + MEMORY


@pytest.mark.parametrize("components", [100_000, 10**9])
def test_components_without_number(components: int, usual: int, light: Server, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        features(file)
    ended = light.run(f"fit f.h5 -o m.h5 --dim 2 --memory 64M --components {components}".split(), tmp_path)
    ended.check_manners()
    assert ended.code == 0
    assert ended.peak <= usual + MEMORY
    with h5py.File(tmp_path / "m.h5") as file:
        assert file["alpha"].shape[1] <= ROWS

"""Files from strangers: they reach no other file, run no code and get no more memory than was granted."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.faults.damage import KINDS, template
from tests.faults.processes import Server, contents

MEMORY = 128 << 20  # beyond what the command takes on a sound file
SECRET = b"root:x:0:0: nobody's business"


@pytest.fixture
def attack(request: pytest.FixtureRequest, tmp_path: Path):
    """Put something in the place of a file of a kind; return how the command that reads it ends."""

    def attack(kind: str, change: Callable[[Path], object]):
        server: Server = request.getfixturevalue("heavy" if KINDS[kind].heavy else "light")
        found = KINDS[kind]
        folders = [tmp_path / name / "here" for name in ("sound", "attacked")]
        for folder in folders:
            folder.parent.mkdir()
            os.system(f"cp -a {template(kind, server)} {folder}")
        (tmp_path / "secret").write_bytes(SECRET)
        sound = server.run(found.command(), folders[0], patches=found.patches)
        assert sound.code == 0, sound.err
        change(folders[1] / found.path)
        before = {n: d for n, d in contents(folders[1]).items() if not n.endswith((".tmp", "lock"))}
        ended = server.run(found.command(), folders[1], patches=found.patches)
        ended.check_manners()
        assert ended.peak <= sound.peak + MEMORY
        if ended.code:
            assert {n: d for n, d in contents(folders[1]).items() if n in before} == before
        return ended

    return attack


def replaced(path: Path, name: str, make: Callable[[h5py.File], object]) -> None:
    with h5py.File(path, "r+") as file:
        del file[name]
        make(file)


HDF5 = {  # kind: a dataset of it, and the exit code of a bad one
    "features": ("features", 3), "streamed features": ("labels", 3), "model": ("mu", 4), "buffer.h5": ("row", 3),
    "state": ("arrays/buffer/row", 4), "shard": ("features", 3), "images": ("images", 3),
}  # fmt: skip


def columns(kind: str, path: Path) -> tuple[str, tuple[int, ...], np.dtype]:
    with h5py.File(path) as file:
        name = HDF5[kind][0]
        if name not in file:
            name = next(each for each in file["arrays"] if isinstance(file["arrays"][each], h5py.Dataset))
            name = f"arrays/{name}"
        return name, file[name].shape, file[name].dtype


@pytest.mark.parametrize("kind", HDF5)
def test_external_storage_is_refused(kind: str, attack) -> None:
    """HDF5 would read any file of ours as numbers, and the answer could carry them out."""

    def change(path: Path) -> None:
        name, shape, dtype = columns(kind, path)
        size = int(np.prod(shape)) * dtype.itemsize
        secret = str(path.parents[2] / "secret")
        replaced(path, name, lambda file: file.create_dataset(name, shape, dtype, external=[(secret, 0, size)]))

    ended = attack(kind, change)
    assert ended.code == HDF5[kind][1], ended.err
    assert "nobody's" not in ended.err + ended.out


@pytest.mark.parametrize("kind", HDF5)
def test_links_to_other_files_are_refused(kind: str, attack) -> None:
    def change(path: Path) -> None:
        name, *_ = columns(kind, path)
        other = path.parent / "other.h5"
        other.write_bytes(path.read_bytes())
        replaced(path, name, lambda file: file.__setitem__(name, h5py.ExternalLink(str(other), name)))

    assert attack(kind, change).code == HDF5[kind][1]


def virtual(
    file: h5py.File, name: str, shape: tuple[int, ...], dtype: np.dtype, sources: list[tuple], grows: str = ""
) -> None:
    """A virtual dataset made by hand, so that the names of its sources stand in the file as they are given here.

    Without a limit it ``grows`` with its one "source", or by one source more after another: "counted".
    """
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.VIRTUAL)
    there = h5py.h5s.create_simple(shape)
    place = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED, *shape[1:])) if grows else there
    if grows:
        block = shape if grows == "counted" else (1, *shape[1:])
        place.select_hyperslab((0,) * len(shape), (h5py.h5s.UNLIMITED, *(1,) * (len(shape) - 1)), block, block)
    for other, source in sources:
        plist.set_virtual(place, other, source, place if grows == "source" else there)
    group = file.require_group(name.rpartition("/")[0] or "/")
    h5py.h5d.create(group.id, name.rpartition("/")[2].encode(), h5py.h5t.py_create(dtype, logical=True), place, plist)


DISGUISES = {  # the name of a virtual dataset's source, the datasets of that file, and which of them is outside
    "two per cent signs stand for one": (b"d%%x", ["d%%x"], "d%x"),
    "in the name of a group": (b"g%%g/d", ["g%%g/d"], "g%g/d"),
    "counted by HDF5": (b"d%b", ["d%b"], "d0"),
    "escaped, then counted": (b"d%%%b", ["d%%%b", "d%%0", "d%%b"], "d%0"),
    "plain": (b"outside", [], "outside"),
    "from the root": (b"//./d%%x", ["d%%x"], "d%x"),
}


WAYS = ["storage", "link", "soft link", "virtual"]


@pytest.mark.parametrize(
    ("kind", "disguise", "way"),
    [*itertools.product(["features"], DISGUISES, WAYS), *itertools.product([*HDF5][1:], [*DISGUISES][:1], WAYS[:2])],
)
def test_virtual_datasets_reach_no_other_file(kind: str, disguise: str, way: str, attack) -> None:
    """What is checked must be what HDF5 reads: it unescapes the names of sources."""
    source, innocent, outside = DISGUISES[disguise]

    def change(path: Path) -> None:
        name, shape, dtype = columns(kind, path)
        size = int(np.prod(shape)) * dtype.itemsize
        secret, other = path.parents[2] / "secret", path.parents[2] / "other.h5"
        secret.write_bytes(SECRET * (size // len(SECRET) + 1))
        with h5py.File(other, "w") as file:
            file.create_dataset("stolen", shape, dtype, external=[(str(secret), 0, size)])

        def make(file: h5py.File) -> None:
            for each in innocent:
                file.create_dataset(each, shape, dtype)
            if way == "storage":
                file.create_dataset(outside, shape, dtype, external=[(str(secret), 0, size)])
            elif way == "virtual":
                virtual(file, outside, shape, dtype, [(str(other).encode(), b"stolen")])
            else:
                file["far"] = h5py.ExternalLink(str(other), "stolen")
                file[outside] = h5py.SoftLink("/far") if way == "soft link" else h5py.ExternalLink(str(other), "stolen")
            virtual(file, name, shape, dtype, [(b".", source)], "counted" if "counted" in disguise else "")

        replaced(path, name, make)

    ended = attack(kind, change)
    assert ended.code == HDF5[kind][1], ended.err
    assert "nobody's" not in ended.err + ended.out


@pytest.mark.parametrize("kind", HDF5)
def test_a_source_without_limit_is_not_opened_before_it_is_checked(kind: str, attack) -> None:
    """HDF5 opens such sources to tell the shape, and opening a pipe would wait for ever."""

    def change(path: Path) -> None:
        name, shape, dtype = columns(kind, path)
        pipe = path.parents[2] / "pipe"
        os.mkfifo(pipe)

        def make(file: h5py.File) -> None:
            file["d1"] = h5py.ExternalLink(str(pipe), "d1")
            virtual(file, name, shape, dtype, [(b".", b"d1")], "source")

        replaced(path, name, make)

    assert attack(kind, change).code == HDF5[kind][1]


@pytest.mark.parametrize("external", [False, True])
def test_a_tower_of_virtual_datasets_is_gone_through_once(external: bool, light: Server, tmp_path: Path) -> None:
    """Twelve sources seven times over are 12**7 paths to 85 datasets."""
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["labels"] = np.arange(60) % 3
        file["floor 0, 0"] = np.random.default_rng(0).normal(size=(60, 4))
        for floor in range(1, 8):
            for door in range(1 if floor == 7 else 12):
                doors = [f"floor {floor - 1}, {0 if floor == 1 else each}" for each in range(12)]
                name = "features" if floor == 7 else f"floor {floor}, {door}"
                virtual(file, name, (60, 4), np.dtype("f8"), [(b".", each.encode()) for each in doors])
    ended = light.run(["fit", "f.h5", "-o", "m.h5", "-q", *["--allow-external"] * external], tmp_path)
    ended.check_manners()
    assert ended.code == 3, ended.err  # also where it is allowed: reading it would never end


def test_virtual_datasets_of_their_own_file_are_read(light: Server, tmp_path: Path) -> None:
    h = np.random.default_rng(0).normal(size=(60, 4))
    for name, make in {
        "plain.h5": lambda file: file.__setitem__("features", h),
        "virtual.h5": lambda file: (
            file.__setitem__("d%x", h), virtual(file, "features", (60, 4), h.dtype, [(b".", b"d%%x")])
        ),
    }.items():  # fmt: skip
        with h5py.File(tmp_path / name, "w") as file:
            file["labels"] = np.arange(60) % 3
            make(file)
    found = [light.run(["select", "--budget", "10", "-q", name], tmp_path) for name in ("plain.h5", "virtual.h5")]
    assert found[0].code == found[1].code == 0, found[1].err
    assert found[0].out == found[1].out


@pytest.mark.parametrize("kind", HDF5)
def test_a_small_file_that_declares_terabytes(kind: str, attack) -> None:
    def change(path: Path) -> None:
        name, shape, dtype = columns(kind, path)
        large = (2**36, *shape[1:])
        chunks = tuple(min(64, size) for size in large)
        replaced(path, name, lambda file: file.create_dataset(name, large, dtype, chunks=chunks))

    assert attack(kind, change).code == HDF5[kind][1]


@pytest.mark.parametrize("kind", HDF5)
def test_zeros_packed_a_thousandfold(kind: str, attack) -> None:
    """A bomb: a few megabytes of gzip that unpack to gigabytes, if anybody unpacks them all."""

    def change(path: Path) -> None:
        name, shape, dtype = columns(kind, path)
        row = max(1, int(np.prod(shape[1:])) * dtype.itemsize)
        count = (1 << 22) // row  # rows of a chunk, 4 MB

        def make(file: h5py.File) -> None:
            large = (count * 256, *shape[1:])
            data = file.create_dataset(name, large, dtype, chunks=(count, *shape[1:]), compression="gzip")
            packed = zlib.compress(bytes(count * row), 9)
            for k in range(256):
                data.id.write_direct_chunk((k * count, *(0 for _ in shape[1:])), packed)

        replaced(path, name, make)
        assert path.stat().st_size < 1 << 23

    assert attack(kind, change).code == HDF5[kind][1]


@pytest.mark.parametrize("kind", HDF5)
def test_a_filter_used_twice(kind: str, attack) -> None:
    """Of two compressions on top of each other a few kilobytes become gigabytes."""

    def change(path: Path) -> None:
        name, shape, dtype = columns(kind, path)

        def make(file: h5py.File) -> None:
            plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            plist.set_chunk(shape)
            plist.set_deflate(9)
            plist.set_deflate(9)
            group = file.require_group(name.rpartition("/")[0] or "/")
            kind_ = h5py.h5t.py_create(dtype, logical=True)
            data = h5py.h5d.create(
                group.id, name.rpartition("/")[2].encode(), kind_, h5py.h5s.create_simple(shape), plist
            )
            data.write_direct_chunk((0,) * len(shape), zlib.compress(zlib.compress(bytes(1 << 28), 9), 9))

        replaced(path, name, make)

    ended = attack(kind, change)
    assert ended.code == HDF5[kind][1], ended.err
    assert "by the filters 1, 1 one after the other" in ended.error


@pytest.mark.parametrize(("kind", "name"), [("features.npz", "features"), ("images.npz", "images")])
def test_an_archive_that_unpacks_to_gigabytes(kind: str, name: str, attack) -> None:
    def change(path: Path) -> None:
        head = np.lib.format.header_data_from_array_1_0(np.zeros((1, 16), "f4")) | {"shape": (2**26, 16)}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, head)
                for _ in range(64):
                    member.write(bytes(1 << 22))
            with archive.open("labels.npy", "w") as member:
                np.lib.format.write_array(member, np.zeros(60, int))

    assert attack(kind, change).code == 3


JSON = {
    "deep lists": "[" * 200_000, "deep objects": '{"a":' * 200_000, "a million digits": "1" * 10**6,
    "infinity": '{"format": 1e999}', "half a character": '"\\ud800"', "nothing": "{}", "a number": "3",
}  # fmt: skip


@pytest.mark.parametrize("kind", ["buffer.json", "run: results", "run: config", "run: result", "manifest"])
@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"a":' * 200_000, "1" * 10**6, '{"format": 1e999}', '"\\ud800"', "{}"]
)
def test_json_that_was_not_meant_to_be_read(kind: str, text: str, attack) -> None:
    ended = attack(kind, lambda path: path.write_text(text))
    assert ended.code in (2, 3, 4), ended.err


class Command:
    """Runs a command when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self._canary}",)


@pytest.mark.parametrize("kind", ["checkpoint", "run: checkpoint", "images.npz", "features.npz", "part"])
@pytest.mark.parametrize("protocol", [2, 4])
def test_a_pickle_runs_nothing(kind: str, protocol: int, attack, tmp_path: Path) -> None:
    canary = tmp_path / "canary"

    def change(path: Path) -> None:
        if path.suffix == ".npz":
            objects = np.array([Command(canary)] * 60, object)
            with path.open("wb") as stream:
                np.savez(stream, features=objects, images=objects, labels=objects, rows=objects, bad=objects)
        else:
            path.write_bytes(pickle.dumps({"state_dict": Command(canary)}, protocol))

    ended = attack(kind, change)
    assert ended.code in (3, 4), ended.err
    assert not canary.exists()
    pickle.loads(pickle.dumps(Command(canary)))  # and it would have
    assert canary.exists()


def test_an_image_of_more_pixels_than_memory(light: Server, heavy: Server, tmp_path: Path) -> None:
    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    folder = tmp_path / "images" / "class"
    folder.mkdir(parents=True)
    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    packed = zlib.compress(bytes(1 << 24), 9)
    (folder / "a.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", packed) + part(b"IEND", b"")
    )
    checkpoint = Path(__file__).parents[2] / "sample_data" / "digits-resnet18.pt"
    ended = heavy.run(["extract", "--checkpoint", checkpoint, "--data", "images", "-o", "out.h5", "-q"], tmp_path)
    ended.check_manners()
    assert ended.code == 3
    assert "none of its 1 images can be read" in ended.error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images"]


def test_names_out_of_a_file_cannot_command_the_terminal(light: Server, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["\x1b[31mred"] = np.zeros((3, 3))
    ended = light.run(["fit", "f.h5", "-o", "m.h5"], tmp_path)
    assert ended.code == 3
    assert "\x1b" not in ended.err
    assert json.dumps("\x1b[31mred")[1:6] in ended.err or r"\x1b[31mred" in ended.err


def test_a_path_cannot_forge_a_message(light: Server, tmp_path: Path) -> None:
    ended = light.run(["fit", "no\nerror: \x1b[2Jall is well", "-o", "m.h5"], tmp_path)
    ended.check_manners()
    assert ended.code == 3
    assert r"no\nerror: \x1b[2Jall is well: no file matches" in ended.error


def test_an_encoding_that_lacks_letters(light: Server, tmp_path: Path) -> None:
    """Python's own answer to them would be a traceback in place of the result."""
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["features"] = np.random.default_rng(0).normal(size=(60, 4))
        file["labels"] = [f"größe {k % 3}" for k in range(60)]
    command = [sys.executable, "-m", "pdac_cli", "compare", "f.h5", "--budget", "12", "--methods", "uniform"]
    ended = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONIOENCODING": "ascii"}, capture_output=True)
    assert ended.returncode == 0, ended.stderr
    assert b"uniform" in ended.stdout

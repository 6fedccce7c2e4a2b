"""What surrounds a run: the clock, TMPDIR, /proc; and the types, filters and sizes that HDF5 allows for its data."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.faults.processes import ENVIRONMENT, Ended, Server

ROWS, SECONDS = 60, 60
SELECT = ["select", "f.h5", "--budget", "9", "-q"]


def features(path: Path, h: object = None, labels: object = None) -> None:
    with h5py.File(path, "w") as file:
        file["features"] = np.random.default_rng(0).normal(size=(ROWS, 4)) if h is None else h
        file["labels"] = np.arange(ROWS) % 3 if labels is None else labels


def larger(path: Path) -> None:
    """More than the scratch file's threshold at the least memory."""
    features(path, np.random.default_rng(0).normal(size=(40_000, 40)), np.arange(40_000) % 3)


def altered(before: str, arguments: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process where some code has run before."""
    code = f"{before}\nfrom pdac_cli import cli\ncli.main()\n"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, check=False,
        timeout=SECONDS, env=os.environ | ENVIRONMENT | environment,
    )  # fmt: skip


BACKWARDS = """
import itertools, time
back = itertools.count(4_000_000_000, -1000)
time.time = lambda: float(next(back))
time.time_ns = lambda: next(back) * 10**9
"""
NO_PROC = """
import builtins, io
from pathlib import Path
def without(opener):
    def opened(path, *arguments, **more):
        if str(path).startswith(("/proc", "/sys")):
            raise FileNotFoundError(2, "No such file or directory", str(path))
        return opener(path, *arguments, **more)
    return opened
builtins.open = io.open = without(open)
try:
    Path("/proc/meminfo").read_text()
except FileNotFoundError:
    pass
else:
    raise SystemExit("it can still be read")
"""
COMMANDS = {
    "select": (SELECT, ""),
    "fit": (["fit", "f.h5", "--dim", "2", "-q", "-o", "out.h5"], "out.h5"),
    "stream": (
        ["stream", "f.h5", "--budget", "9", "-q", "-o", "out.json", "--state", "s.h5"],
        "out.json",
    ),
}


@pytest.mark.parametrize("before", [BACKWARDS, NO_PROC], ids=["the clock goes back", "no /proc"])
@pytest.mark.parametrize("verb", COMMANDS)
def test_the_answer_does_not_depend_on_it(verb: str, before: str, light: Server, tmp_path: Path) -> None:
    arguments, output = COMMANDS[verb]
    found = []
    for name in ("usual", "odd"):
        folder = tmp_path / name / "here"
        folder.mkdir(parents=True)
        features(folder / "f.h5")
        os.utime(folder / "f.h5", (10**9, 10**9))
        ended = altered(before if name == "odd" else "", arguments, folder)
        assert ended.returncode == 0, ended.stderr
        found.append((folder / output).read_bytes() if output else ended.stdout.encode())
    assert found[0] == found[1]


def test_without_proc_and_with_threads(tmp_path: Path) -> None:
    """They cannot be told to be one, and the sums would depend on them."""
    features(tmp_path / "f.h5")
    ended = altered(NO_PROC, COMMANDS["fit"][0], tmp_path, OPENBLAS_NUM_THREADS="2")
    assert ended.returncode == 5, ended.stderr
    assert ended.stderr.startswith("error: /proc/self/maps: cannot be read; expected it")
    assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("stamp", [-(10**9), 0, 2**33])
def test_files_from_another_time(stamp: int, light: Server, tmp_path: Path) -> None:
    features(tmp_path / "f.h5")
    usual = light.run(SELECT, tmp_path)
    os.utime(tmp_path / "f.h5", (stamp, stamp))
    odd = light.run(SELECT, tmp_path)
    assert usual.code == odd.code == 0, odd.err
    assert odd.out == usual.out


FIT = ["fit", "f.h5", "-o", "m.h5", "--dim", "2", "-q", "--memory", "16M"]


def test_a_full_tmpdir(light: Server, tmp_path: Path) -> None:
    """The file-size limit stands for it: the scratch file cannot grow."""
    larger(tmp_path / "f.h5")
    ended = light.run(FIT, tmp_path, limits=[(resource.RLIMIT_FSIZE, 100_000)])
    ended.check_manners()
    assert ended.code == 5, ended.err
    assert "the scratch file in " in ended.error
    assert "set TMPDIR" in ended.error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.h5"]


WATCH = """
import atexit, os, stat, sys, tempfile
made = []
def hook(event, arguments):
    if event == "open" and arguments[1] is None:  # by os.open; a file object's opener has an event of its own
        flags = arguments[2]
        if flags & os.O_CREAT or flags & os.O_TMPFILE == os.O_TMPFILE:
            made.append((os.fsdecode(arguments[0]), flags))
sys.addaudithook(hook)
def tell():
    for name, flags in made:
        if name.startswith(os.environ["TMPDIR"]):
            print(bool(flags & os.O_EXCL) or flags & os.O_TMPFILE == os.O_TMPFILE, name)
atexit.register(tell)
os.umask(0)
real = tempfile.TemporaryFile
def watched(*arguments, **more):
    file = real(*arguments, **more)
    print("mode", oct(stat.S_IMODE(os.fstat(file.fileno()).st_mode)))
    return file
tempfile.TemporaryFile = watched
"""


def test_scratch_files_are_ours_alone(tmp_path: Path) -> None:
    """In a TMPDIR that all may write to, nobody can foresee a name, wait behind it or read the rows."""
    larger(tmp_path / "f.h5")
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    ended = altered(WATCH, FIT, tmp_path, TMPDIR=str(shared))
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    modes = [line for line in lines if line.startswith("mode")]
    assert modes
    assert set(modes) == {"mode 0o600"}
    opened = [line for line in lines if not line.startswith("mode")]
    assert opened
    assert all(line.startswith("True") for line in opened), opened
    assert not list(shared.iterdir())


def filtered(file: h5py.File, h: np.ndarray, **how: object) -> None:
    file.create_dataset("features", data=h, chunks=(20, 4), **how)


def nbit(file: h5py.File, h: np.ndarray) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((20, 4))
    plist.set_filter(h5py.h5z.FILTER_NBIT, 0)
    space = h5py.h5s.create_simple(h.shape)
    data = h5py.h5d.create(file.id, b"features", h5py.h5t.py_create(h.dtype), space, plist)
    data.write(h5py.h5s.ALL, h5py.h5s.ALL, h)


FILTERS: dict[str, Callable[[h5py.File, np.ndarray], None]] = {
    "lzf": lambda f, h: filtered(f, h, compression="lzf"),
    "lzf, shuffled and summed up": lambda f, h: filtered(f, h, compression="lzf", shuffle=True, fletcher32=True),
    "szip": lambda f, h: filtered(f, h, compression="szip"),
    "scale-offset": lambda f, h: filtered(f, h, scaleoffset=0),
    "nbit": nbit,
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_are_read_right(name: str, light: Server, tmp_path: Path) -> None:
    h = np.rint(np.random.default_rng(0).normal(size=(ROWS, 4)) * 100).astype("i4")
    features(tmp_path / "f.h5", h)
    expected = light.run(SELECT, tmp_path)
    with h5py.File(tmp_path / "f.h5", "w") as file:
        FILTERS[name](file, h)
        file["labels"] = np.arange(ROWS) % 3
        assert file["features"].id.get_create_plist().get_nfilters() >= 1
    found = light.run(SELECT, tmp_path)
    assert found.code == expected.code == 0, found.err
    assert found.out == expected.out


TYPES: dict[str, object] = {
    "compound": np.dtype([("a", "f8"), ("b", "f8")]),
    "reference": h5py.ref_dtype,
    "reference to a region": h5py.regionref_dtype,
    "opaque": np.dtype("V8"),
    "variable length": h5py.vlen_dtype("f8"),
    "array": np.dtype("(3,)f8"),
    "complex": np.dtype("c16"),
    "time": h5py.opaque_dtype("M8[s]"),
}


@pytest.mark.parametrize("column", ["features", "labels"])
@pytest.mark.parametrize("name", TYPES)
def test_types_that_are_not_numbers(name: str, column: str, light: Server, tmp_path: Path) -> None:
    features(tmp_path / "f.h5")
    with h5py.File(tmp_path / "f.h5", "r+") as file:
        shape = file[column].shape
        del file[column]
        file.create_dataset(column, shape, TYPES[name])
    ended = light.run(SELECT, tmp_path)
    refused(ended, f"f.h5: '{column}' is ")


def refused(ended: Ended, words: str) -> None:
    ended.check_manners()
    assert ended.code == 3, ended.err
    assert words in ended.error
    assert "; expected " in ended.error


def test_enumerated_labels_are_their_numbers(light: Server, tmp_path: Path) -> None:
    features(tmp_path / "f.h5")
    expected = light.run(SELECT, tmp_path)
    with h5py.File(tmp_path / "f.h5", "r+") as file:
        labels = file["labels"][:]
        del file["labels"]
        kind = h5py.enum_dtype({"cat": 0, "dog": 1, "owl": 2}, basetype="i4")
        file.create_dataset("labels", data=labels.astype("i4"), dtype=kind)
    found = light.run(SELECT, tmp_path)
    assert found.code == expected.code == 0, found.err
    assert found.out == expected.out


def test_enumerated_features_are_refused(light: Server, tmp_path: Path) -> None:
    features(tmp_path / "f.h5")
    with h5py.File(tmp_path / "f.h5", "r+") as file:
        shape = file["features"].shape
        del file["features"]
        file.create_dataset("features", data=np.ones(shape, "i4"), dtype=h5py.enum_dtype({"no": 0, "yes": 1}, "i4"))
    refused(light.run(SELECT, tmp_path), "'features' is an enumeration of 2 names")


def test_a_hundred_thousand_features(light: Server, tmp_path: Path) -> None:
    features(tmp_path / "f.h5", np.random.default_rng(0).normal(size=(30, 100_000)).astype("f4"), np.arange(30) % 3)
    ended = light.run(["fit", "f.h5", "-o", "m.h5", "--dim", "2", "--memory", "256M", "-q"], tmp_path)
    ended.check_manners()
    assert ended.code == 0, ended.err


@pytest.mark.slow
def test_a_million_classes(light: Server, tmp_path: Path) -> None:
    features(tmp_path / "f.h5", np.zeros((10**6, 1), "f4"), np.arange(10**6))
    ended = light.run(["select", "f.h5", "--budget", "9", "--method", "uniform", "-q"], tmp_path)
    ended.check_manners()
    assert ended.code == 0, ended.err
    assert len(set(ended.out.split())) == 9

"""Every bad input ends in its exit code and one line, and leaves the folder as it was; odd but good ones are used.

The table's rows name the commands they apply to, which stand in ``tests.bad_inputs``.  What becomes of files with any
byte changed is tested in ``tests.faults``, and so are signals and full disks.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import typer

from pdac_cli.commands import fit, select
from pdac_cli.commands.stream import command as stream
from pdac_cli.engine import scratch
from pdac_cli.files.featureset import FeatureSet
from pdac_cli.files.formats import hdf5
from pdac_cli.files.index.index_file import read_index
from pdac_cli.options.fit import FitOptions
from pdac_cli.options.select import SelectOptions
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions
from pdac_cli.options.stream import StreamDensityOptions, StreamOptions
from pdac_cli.storage import atomic
from tests.bad_inputs import (
    BARE,
    COMMANDS,
    DRAWERS,
    FITTERS,
    PRINTERS,
    READERS,
    SELECT,
    WRITERS,
    Case,
    During,
    Make,
    f,
    features,
)
from tests.bad_inputs.learning import NETWORKS, SHARDS
from tests.faults.processes import contents
from tests.files.formats.bad_features import (
    FILES,
    H,
    Y,
    damaged_chunk,
    dataset,
    external_link,
    npz,
    put,
    small_source,
    soft_to_external,
    virtual,
    with_value,
)

# -- Files ------------------------------------------------------------------------------------------------------------


def cut_in_half(path: Path) -> str:
    put(path)
    size = path.stat().st_size
    os.truncate(path, size // 2)
    return f"expected {size:,} bytes, has {size // 2:,}"


def killed_while_appending(path: Path) -> None:
    """What a writer that lets others read along leaves when it is killed."""
    script = (
        f"import h5py\nf = h5py.File({str(path)!r}, 'w', libver='latest')\n"
        "d = f.create_dataset('features', (0, 4), maxshape=(None, 4), chunks=(8, 4))\n"
        "f['labels'] = [0] * 8\nf.swmr_mode = True\nd.resize(8, axis=0)\nd.flush()\nprint('open', flush=True)\ninput()"
    )
    with held_open(script) as writer:
        writer.send_signal(signal.SIGKILL)


@contextlib.contextmanager
def held_open(script: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has run the script up to its input()."""
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        try:
            yield process
        finally:
            if process.poll() is None and process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    process.communicate(b"\n")


def written_by_another(name: str) -> During:
    @contextlib.contextmanager
    def hold(folder: Path, _: pytest.MonkeyPatch) -> Iterator[None]:
        script = f"import h5py\nf = h5py.File({str(folder / name)!r}, 'r+')\nprint('open', flush=True)\ninput()"
        with held_open(script):
            yield

    return hold


def without_locks(_: Path, patch: pytest.MonkeyPatch) -> AbstractContextManager[None]:
    real = h5py.File

    def refuse(path: Any, mode: str, locking: bool | None = None) -> h5py.File:
        if mode == "r" and locking is not False:
            raise OSError(errno.ENOLCK, "Unable to synchronously open file (unable to lock file, errno = 37)")
        return real(path, mode, locking=locking)

    patch.setattr(hdf5.h5py, "File", refuse)
    return nullcontext()


def replaced_meanwhile(folder: Path, patch: pytest.MonkeyPatch) -> AbstractContextManager[None]:
    """An equal file takes the place of the one being read, after its labels were looked at."""
    real = FeatureSet.label_chunks

    def replacing(self: FeatureSet, rows: int) -> Any:
        yield from real(self, rows)
        shutil.copy(folder / "f.h5", folder / "copy")
        (folder / "copy").replace(folder / "f.h5")

    patch.setattr(FeatureSet, "label_chunks", replacing)
    return nullcontext()


def raw_storage(folder: Path) -> None:
    (folder / "raw").write_bytes(H.tobytes())
    dataset(
        folder / "f.h5", lambda file: file.create_dataset("features", H.shape, "f4", external=[("raw", 0, H.nbytes)])
    )


def unknown_filter(path: Path) -> None:
    """Compressed by a filter that nobody has, declared optional."""
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((10, 4))
    plist.set_filter(511, h5py.h5z.FLAG_OPTIONAL, (1,))
    space = h5py.h5s.create_simple((50, 4))
    dataset(path, lambda file: h5py.h5d.create(file.id, b"features", h5py.h5t.NATIVE_FLOAT, space, plist))


def declared(rows: int, columns: int, h: float, y: int) -> Make:
    """A small file that says it holds that much, all of one value."""

    def make(folder: Path) -> None:
        with h5py.File(folder / "f.h5", "w") as file:
            file.create_dataset("features", (rows, columns), "f4", chunks=(64, columns), fillvalue=h)
            file.create_dataset("labels", (rows,), "i8", chunks=(1024,), fillvalue=y)

    return make


def small_disk(_: Path, patch: pytest.MonkeyPatch) -> AbstractContextManager[None]:
    usage = namedtuple("usage", "total used free")
    patch.setattr(scratch.shutil, "disk_usage", lambda _: usage(2**34, 0, 2**34))
    return nullcontext()


def npy(folder: Path) -> None:
    np.save((folder / "f.h5").open("wb"), H)
    np.save(folder / "labels.npy", Y)


FILES_ONLY = tuple(verb for verb in READERS if verb != "train-cl")  # which takes a folder for one of images
WHOLE = tuple(verb for verb in FILES_ONLY if verb != "stream")  # read all files as one set of rows, and more than once

# The library's own table; what it says of one chunk or of logits, which these commands do not read, is its own.
REFUSED_FILES = [
    Case(f"file: {name}", error.exit_code, words, f(make), verbs=READERS if name != "folder" else FILES_ONLY)
    for name, (make, error, words) in FILES.items()
    if name not in ("damaged chunk", "NaN logits")
]
OTHER_FILES = [
    Case("truncated", 3, "f.h5: truncated: .*copy it again", f(cut_in_half)),
    Case("killed while appending", 3, "incomplete; .*that wrote it again", f(killed_while_appending)),
    Case("locked by a writer", 5, "another process is writing", during=written_by_another("f.h5")),
    Case("no locks", 0, "", during=without_locks, same=True),
    Case("damaged chunk", 3, "'features' from row 0 to .* cannot be read", f(damaged_chunk)),
    Case("key missing", 3, r"no dataset 'z'; .*'features' \(50, 4\), 'labels' \(50\)", arguments="--features-key z"),
    Case("labels key missing", 3, r"no dataset 'z'; .*'features' \(50, 4\)", arguments="--labels-key z"),
    Case("key of a group", 3, "'a' is a group; .*'a/x'", features(**{"a/x": Y}), "--features-key a"),
    Case("key of another dataset", 0, "note: f.h5: features read from 'data', labels from 'kind'",
         features(None, None, data=H, kind=Y), "--features-key data --labels-key kind", same=True),
    Case("labels in a file of their own", 0, "", lambda p: (put(p / "f.h5", y=None), np.save(p / "y.npy", Y)),
         "--labels-key y.npy", same=True),
    Case("labels file missing", 3, "y.npy: not found", arguments="--labels-key y.npy"),
    Case("no match", 3, "g-.*: no file matches", arguments="'g-*.h5'"),
    Case("given twice", 3, r"f.h5: given twice", arguments="f.h5"),
    Case("another file of other width", 3, "g.h5: 'features' has 3 columns, f.h5 has 4; expected as many",
         lambda p: (put(p / "f.h5"), put(p / "g.h5", H[:, :3])), "g.h5"),
    Case("link loop", 5, "f.h5: cannot be read .*expected", f(lambda p: p.symlink_to("f.h5"))),
    Case("name too long", 5, "cannot be read", arguments="x" * 300),
    Case("external link allowed", 0, "", f(external_link), "--allow-external", same=True),
    Case("soft link to it allowed", 0, "", f(soft_to_external), "--allow-external", same=True),
    Case("external link to nothing", 3, "link to nothing",
         lambda p: (external_link(p / "f.h5"), (p / "other.h5").unlink()), "--allow-external"),
    Case("external storage", 3, "keeps its values in another file, 'raw'; .*--allow-external", raw_storage),
    Case("external storage allowed", 0, "", raw_storage, "--allow-external", same=True),
    Case("external storage missing", 3, "f.h5: 'features' cannot be read: its storage 'raw' is missing",
         lambda p: (raw_storage(p), (p / "raw").unlink()), "--allow-external"),
    Case("external storage short", 3, "'raw', which is truncated: expected 800 bytes, has 40",
         lambda p: (raw_storage(p), os.truncate(p / "raw", 40)), "--allow-external"),
    Case("virtual source missing", 3, "source 'part.h5' is missing; .*zeros",
         f(lambda p: dataset(p, lambda file: virtual(file, "part.h5"))), "--allow-external"),
    Case("virtual source short", 3, r"source 'x' has only \(10, 4\)", f(small_source), "--allow-external"),
    Case("virtual source allowed", 0, "", lambda p: (
        dataset(p / "f.h5", lambda file: virtual(file, "part.h5")), put(p / "part.h5", None, None, x=H)
    ), "--allow-external", same=True),
    Case("unknown filter", 3, r"compressed by 'unknown' \(filter 511\).*pip install hdf5plugin", f(unknown_filter)),
    Case("big-endian", 0, "", features(H.astype(">f4"), Y.astype(">i2")), same=True),
    Case("integers", 0, "note: f.h5: int32 features read as float64", features((H * 100).astype("i4"))),
    Case("half precision", 0, "", features(H.astype("f2"))),
    Case("npz", 0, "", f(lambda p: npz(p, features=H, labels=Y)), same=True),
    Case("npy", 0, "", npy, same=True),
    Case("string labels", 0, "note: 5 label names read as classes 0 to 4, in sorted order", features(y=Y.astype("S3"))),
    Case("strings of variable length", 0, "note: 5 label names", features(y=[f"c{k}" for k in Y])),
    Case("terabytes with bad labels", 3, "'labels' is -1 in row 0", declared(2**32, 512, 0, -1),
         limits={resource.RLIMIT_AS: 2**32}, verbs=("fit", "uniform")),
    Case("terabytes streamed", 3, "NaN or infinity in row 0", declared(2**22, 2**13, np.nan, 0), "--memory 64M",
         limits={resource.RLIMIT_AS: 2**32}, verbs=("uniform",)),
    Case("terabytes to group", 5, r"scratch file needs 137,4[\d,]+ bytes and .* has 17,179,869,184 free; .*TMPDIR",
         declared(2**20, 2**15, 0, 0), "--memory 64M -q", verbs=("fit",), during=small_disk),
    Case("replaced during the run", 3, "f.h5: changed during the run", verbs=WHOLE,
         during=replaced_meanwhile),
]  # fmt: skip

# -- Values -----------------------------------------------------------------------------------------------------------

BAD_ROWS = with_value(with_value(H, 17, np.nan), 30, -np.inf)
ONE_ALONE = np.append(Y[:-1], 9)
ONLY_THREE = np.where(np.arange(50) < 3, 9, Y)

VALUES = [
    Case("first bad row", 3, "'features' has NaN or infinity in row 17; .*--drop-nonfinite", features(BAD_ROWS)),
    Case("bad rows dropped", 0, "warning: 2 of 50 rows with NaN or infinity left out", features(BAD_ROWS),
         "--drop-nonfinite"),
    Case("all rows bad", 3, "no usable row is left", features(H * np.nan), "--drop-nonfinite"),
    Case("bad row of the second file", 3, r"g.h5: .*row 56 \(row 6 of this file\)",
         lambda p: (put(p / "f.h5"), put(p / "g.h5", with_value(H, 6, np.inf))), "g.h5", WHOLE),
    Case("negative labels ignored", 0, "note: 10 of 50 rows with label -1 left out",
         features(y=np.where(Y == 3, -1, Y)), "--ignore-label -1"),
    Case("other negative labels", 3, "'labels' is -2 in row 3; .*--ignore-label", features(y=np.where(Y == 3, -2, Y)),
         "--ignore-label -1"),
    Case("all labels ignored", 3, "no usable row is left", features(y=Y * 0 - 1), "--ignore-label -1"),
    Case("float labels", 0, "", features(y=Y.astype("f4")), same=True),
    Case("labels (n, 1)", 0, "", features(y=Y[:, None]), same=True),
    Case("labels with gaps", 0, "", features(y=Y * 10**9 + 7)),
    Case("one sample", 0, "warning: flat density for class 9: one sample", features(y=ONE_ALONE), verbs=FITTERS),
    Case("constant features", 0, "warning: flat density for classes 0, 1, 2, 3, 4: one sample, or all",
         features(H * 0 + 3), verbs=FITTERS),
    Case("one class constant", 0, "warning: flat density for class 2:",
         features(np.where(Y[:, None] == 2, 1, H)), verbs=FITTERS),
    Case("low rank", 0, "warning: fewer than --dim 2 directions for classes 0, 1, 2, 3, 4: the rank is lower",
         features(H[:, :1] * np.ones((1, 4))), verbs=FITTERS),
    Case("d too large for a class", 0, "warning: fewer than --dim 4 directions for class 9: the rank is lower",
         features(y=ONLY_THREE), "--dim 4", verbs=FITTERS),
    Case("L too large for a class", 0, "warning: fewer than --components 5 for class 9: too few samples",
         features(y=ONLY_THREE), "--components 5", verbs=FITTERS),
    Case("one sample, judged", 0, "kept 20 of 50 rows by pdac", features(y=ONE_ALONE), verbs=DRAWERS),
    Case("constant features, judged", 0, r"by pdac\n(  .*\n){6}$", features(H * 0 + 3), verbs=DRAWERS),
    Case("one class constant, judged", 0, "kept 20 of 50 rows by pdac", features(np.where(Y[:, None] == 2, 1, H)),
         verbs=DRAWERS),
    Case("low rank, judged", 0, "kept 20 of 50 rows by pdac", features(H[:, :1] * np.ones((1, 4))), verbs=DRAWERS),
    Case("d > D", 2, "--dim is 5, the data has 4 features; expected at most as many", arguments="--dim 5",
         verbs=FITTERS),
    Case("budget 0", 2, "--budget is 0; expected at least 1", arguments="--budget 0", verbs=("select", "uniform")),
    Case("budget < 0", 2, "--budget is -7; expected at least 1", arguments="--budget -7", verbs=("select", "uniform")),
    Case("budget > n", 0, "warning: --budget is 51 and there are 50 usable rows; all are kept",
         arguments="--budget 51", verbs=("select", "uniform")),
    Case("budget > n, strict", 3, "--budget is 51 and there are 50 usable rows; .*lower --budget",
         arguments="--budget 51 --strict", verbs=("select", "uniform", "print")),
    Case("budget = n, strict", 0, "kept 50 of 50", arguments="--budget 50 --strict", verbs=("select", "uniform")),
    Case("budget > usable, strict", 3, "--budget is 49 and there are 48 usable rows", features(BAD_ROWS),
         "--budget 49 --strict --drop-nonfinite", verbs=("select", "uniform")),
    Case("budget < classes", 0, "warning: the budget of 3 is smaller than the number of classes, 5",
         arguments="--budget 3", verbs=("select", "uniform")),
    Case("times 1e6", 0, "", features(H.astype("f8") * 1e6), same=True),
    Case("times 1e-6", 0, "", features(H.astype("f8") * 1e-6), same=True),
]  # fmt: skip

# -- Models and indices -----------------------------------------------------------------------------------------------

DENSITY = DensityOptions(dim=2, components=2)
QUIET = RunOptions(quiet=True, jobs=1)


@functools.cache
def fitted(columns: int = 4, shift: int = 0, names: bool = False) -> bytes:
    """A model file of other data than f.h5, or with the defaults of the same."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "f.h5"), Path(folder, "m.h5")
        put(path, H[:, :columns], (Y + shift).astype("S3") if names else Y + shift)
        fit.run(FitOptions(input=InputOptions(paths=(str(path),)), output=out, density=DENSITY, run=QUIET))
        return out.read_bytes()


def model(change: Callable[[h5py.File], object] = lambda file: None, **options: Any) -> Make:
    def make(folder: Path) -> None:
        put(folder / "f.h5")
        (folder / "m.h5").write_bytes(fitted(**options))
        with h5py.File(folder / "m.h5", "r+") as file:
            change(file)

    return make


def model_bytes(change: Callable[[bytes], bytes]) -> Make:
    return lambda folder: (put(folder / "f.h5"), (folder / "m.h5").write_bytes(change(fitted())))


@functools.cache
def kept(suffix: str, names: bool = False) -> bytes:
    """An index file of earlier rows, which are not those of f.h5."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "g.h5"), Path(folder, f"b{suffix}")
        put(path, H + 1, Y.astype("S3") if names else Y)
        select.run(
            SelectOptions(input=InputOptions(paths=(str(path),)), budget=20, output=out, method="uniform", run=QUIET)
        )
        return out.read_bytes()


def index(suffix: str = ".json", **options: Any) -> Make:
    return lambda folder: (put(folder / "f.h5"), (folder / f"b{suffix}").write_bytes(kept(suffix, **options)))


def json_index(change: Callable[[dict[str, Any]], object]) -> Make:
    def make(folder: Path) -> None:
        content = json.loads(kept(".json"))
        change(content)
        put(folder / "f.h5")
        (folder / "b.json").write_text(json.dumps(content))

    return make


def hdf5_index(change: Callable[[h5py.File], object]) -> Make:
    def make(folder: Path) -> None:
        index(".h5")(folder)
        with h5py.File(folder / "b.h5", "r+") as file:
            change(file)

    return make


def as_floats(file: h5py.File) -> None:
    rows = file["row"][:] + 0.0
    del file["row"]
    file["row"] = rows


def same_rows(folder: Path) -> None:
    index()(folder)
    put(folder / "f.h5", H + 1)


MODELS = [
    Case(f"model: {name}", code, words, make, "--model m.h5", SELECT)
    for name, code, words, make in (
        ("fits", 0, "kept 20 of 50", model()),
        ("other D", 4, "m.h5: fitted on 3 features, the data has 4; expected as many", model(columns=3)),
        ("other classes", 4, r"m.h5: has no class 0, 1, 2, 3, 4, the data has; .*it has 7, 8, 9, 10, 11",
         model(shift=7)),
        ("fewer classes", 4, "m.h5: has no class 0, 1, the data has", model(shift=2)),
        ("named classes", 4, "m.h5: fitted on classes called 0, 1, 2, 3, 4, the data has numbers", model(names=True)),
        ("other version", 4, "m.h5: model format version 2; expected 1",
         model(lambda file: file.attrs.__setitem__("version", 2))),
        ("array missing", 4, "m.h5: has no dataset 'mu'", model(lambda file: file.__delitem__("mu"))),
        ("no numbers", 4, "m.h5: 'mu' holds values no model has", model(lambda file: file["mu"].write_direct(
            np.full(file["mu"].shape, np.nan)))),
        ("features", 4, "m.h5: not a model file of pdac; .*pdac fit", lambda p: (put(p / "f.h5"), put(p / "m.h5"))),
        ("truncated", 4, r"m.h5: truncated: expected [\d,]+ bytes, has 3,000", model_bytes(lambda data: data[:3000])),
        ("text", 4, "m.h5: is not an HDF5 file; .*pdac fit", model_bytes(lambda data: b"a poem")),
        ("missing", 3, "m.h5: not found; expected a model file of pdac fit", features()),
        ("folder", 3, "m.h5: is a folder; expected a model", lambda p: (put(p / "f.h5"), (p / "m.h5").mkdir())),
        ("empty", 3, "m.h5: is empty", model_bytes(lambda data: b"")),
    )
] + [
    Case("model: being written", 5, "m.h5: another process is writing", model(), "--model m.h5", SELECT,
         written_by_another("m.h5")),
]  # fmt: skip

INDICES = [
    Case(f"index: {name}", code, words, make, f"--buffer b.{suffix}", SELECT)
    for name, code, suffix, words, make in (
        ("fits", 0, "json", "task 1: 10, task 2: 10", index()),
        ("fits, HDF5", 0, "h5", "task 1: 10, task 2: 10", index(".h5")),
        ("out of range", 3, "json", "b.json: 'row' of kept row 4 is 50; expected 0 to 49",
         json_index(lambda content: content["kept"][4].update(row=50))),
        ("negative", 3, "json", "b.json: 'row' of kept row 4 is -1; expected 0 to 49",
         json_index(lambda content: content["kept"][4].update(row=-1))),
        ("duplicated", 3, "json", "b.json: row .* listed twice; expected each row once",
         json_index(lambda content: content["kept"].append(content["kept"][0]))),
        ("no integers", 3, "json", "b.json: 'row' of kept row 2 is a float; expected a whole number",
         json_index(lambda content: content["kept"][2].update(row=1.5))),
        ("text for a number", 3, "json", "b.json: 'label' of kept row 2 is a str; expected a whole number",
         json_index(lambda content: content["kept"][2].update(label="1"))),
        ("huge", 3, "json", "b.json: 'row' of kept row 2 is a int; expected a whole number of 64 bits",
         json_index(lambda content: content["kept"][2].update(row=10**30))),
        ("no sources", 3, "json", "b.json: 'sources' is empty", json_index(lambda content: content.update(sources=[]))),
        ("counts", 3, "json", "b.json: 'class_counts' differ",
         json_index(lambda content: content.update(class_counts={"0": 1}))),
        ("version", 3, "json", "b.json: 'version' is '2'; expected 1",
         json_index(lambda content: content.update(version=2))),
        ("other JSON", 3, "json", "b.json: is no index file", json_index(lambda content: content.update(format="x"))),
        ("cut", 3, "json", "b.json: is not valid JSON",
         lambda p: (put(p / "f.h5"), (p / "b.json").write_bytes(kept(".json")[:-9]))),
        ("missing", 3, "json", "b.json: not found; expected an index file of pdac select", features()),
        ("folder", 3, "json", "b.json: is a folder", lambda p: (put(p / "f.h5"), (p / "b.json").mkdir())),
        ("empty", 3, "json", "b.json: is empty", lambda p: (put(p / "f.h5"), (p / "b.json").touch())),
        ("rows only", 3, "txt", "b.txt: holds row numbers only; expected an index in JSON or HDF5", index(".txt")),
        ("array only", 3, "npy", "b.npy: holds row numbers only", index(".npy")),
        ("out of range, HDF5", 3, "h5", "b.h5: 'row' of kept row 0 is 50; expected 0 to 49",
         hdf5_index(lambda file: file["row"].__setitem__(0, 50))),
        ("duplicated, HDF5", 3, "h5", "b.h5: row .* listed twice",
         hdf5_index(lambda file: file["row"].__setitem__(0, file["row"][1]))),
        ("no integers, HDF5", 3, "h5", r"b.h5: 'row' is float64 \(20\); expected integers", hdf5_index(as_floats)),
        ("cut, HDF5", 3, "h5", "b.h5: truncated: expected", lambda p: (index(".h5")(p), os.truncate(p / "b.h5", 4000))),
        ("features", 3, "h5", "b.h5: is no index file", lambda p: (put(p / "f.h5"), put(p / "b.h5"))),
        ("named classes", 3, "json", "classes are names, this file's are numbers; .*one kind", index(names=True)),
        ("same file again", 2, "json", "b.json: has this feature file already, as task 1", same_rows),
    )
] + [
    Case("index: of another file", 3, "b.json: its task 1 comes from another feature file .*fingerprint .*--task 2",
         index(), "--buffer b.json --task 1", SELECT),
    Case("index: being written", 5, "b.h5: another process is writing", index(".h5"), "--buffer b.h5", SELECT,
         written_by_another("b.h5")),
]  # fmt: skip

# -- States of streams -----------------------------------------------------------------------------------------------


@functools.cache
def streamed(columns: int = 4) -> bytes:
    """The state of a stream of f.h5, or of fewer columns."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "f.h5"), Path(folder, "s.h5")
        put(path, H[:, :columns])
        density = StreamDensityOptions(dim=2, components=2)
        options = StreamOptions(
            input=InputOptions(paths=(str(path),)),
            budget=20,
            output=Path(folder, "b.json"),
            state=out,
            density=density,
            run=QUIET,
        )
        stream.run(options)
        return out.read_bytes()


def state(change: Callable[[h5py.File], object] = lambda file: None, **options: Any) -> Make:
    def make(folder: Path) -> None:
        put(folder / "f.h5", H + 1)
        (folder / "s.h5").write_bytes(streamed(**options))
        with h5py.File(folder / "s.h5", "r+") as file:
            change(file)

    return make


STATES = [
    Case(f"state: {name}", code, words, make, f"--state s.h5 {arguments}", ("stream",))
    for name, code, words, make, arguments in (
        ("other options", 2, "s.h5: the stream was begun with budget 20 and not 21", state(), "--budget 21"),
        ("other features", 3, "s.h5: the stream has 3 features, these files have 4", state(columns=3), ""),
        ("other version", 4, "s.h5: state format version 99; expected", state(
            lambda file: file.attrs.__setitem__("version", 99)), ""),
        ("no state", 4, "s.h5: not a state of pdac stream", lambda p: (put(p / "f.h5"), put(p / "s.h5")), ""),
        ("text", 4, "s.h5: cannot be read as a state of pdac stream", lambda p: (
            put(p / "f.h5"), (p / "s.h5").write_text("a poem")), ""),
        ("truncated", 4, "s.h5: cannot be read as a state of pdac stream", lambda p: (
            state()(p), os.truncate(p / "s.h5", 3000)), ""),
        ("the input", 2, "f.h5: output and input f.h5 are the same file", lambda p: put(p / "f.h5"), "--state f.h5"),
        ("folder missing", 5, "no/s.h5: no such folder; .*make it first", features(), "--state no/s.h5"),
    )
]  # fmt: skip

# -- Outputs and environment ------------------------------------------------------------------------------------------


def beside(change: Callable[[Path], object]) -> Make:
    """The plain file and something where the output should go."""
    return lambda folder: (put(folder / "f.h5"), change(folder / "out.h5"))


def taken(folder: Path) -> None:
    """A folder with something in it where the run folder should go."""
    put(folder / "f.h5")
    (folder / "out.h5").mkdir()
    (folder / "out.h5" / "thesis.txt").write_text("precious")


def no_permission(folder: Path, patch: pytest.MonkeyPatch) -> AbstractContextManager[None]:
    """Permission bits say nothing to root, under whom tests may run."""
    real = os.open

    def refuse(path: Any, flags: int, *more: Any, **others: Any) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, flags, *more, **others)

    patch.setattr(atomic.os, "open", refuse)
    return nullcontext()


THREADED = ("fit", "select", "uniform", "print", "compare")  # take --jobs, or how many cores there are
OUTPUTS = [
    Case("output: exists", 5, "out.h5: exists; .*--force", beside(lambda out: out.write_text("precious")),
         verbs=WRITERS),
    Case("output: the input", 2, "f.h5: output and input f.h5 are the same file", arguments="-o f.h5 --force",
         verbs=WRITERS),
    Case("output: the input by another path", 2, "are the same file", arguments="-o ../here/./f.h5 --force",
         verbs=WRITERS),
    Case("output: link to the input", 2, "out.h5: output and input f.h5 are the same file",
         beside(lambda out: out.symlink_to("f.h5")), "--force", WRITERS),
    Case("output: hard link of the input", 2, "out.h5: output and input f.h5 are the same file",
         beside(lambda out: out.hardlink_to(out.with_name("f.h5"))), "--force", WRITERS),
    Case("output: the second input", 2, "g.h5: output and input g.h5 are the same file",
         lambda p: (put(p / "f.h5"), put(p / "g.h5", H + 1)), "g.h5 -o g.h5 --force", WRITERS),
    Case("output: the labels", 2, "y.npy: output and input y.npy are the same file",
         lambda p: (put(p / "f.h5", y=None), np.save(p / "y.npy", Y)), "--labels-key y.npy -o y.npy --force", WRITERS),
    Case("output: the model", 2, "m.h5: output and input m.h5 are the same file", model(),
         "--model m.h5 -o m.h5 --force", SELECT),
    Case("output: the buffer", 2, "b.h5: output and input b.h5 are the same file", index(".h5"),
         "--buffer b.h5 -o b.h5 --force", SELECT),
    Case("output: external data", 2, "are the same file", f(external_link),
         "--allow-external -o other.h5 --force", WRITERS),
    Case("output: folder missing", 5, "folder .* is not there; .*make it first", arguments="-o no/out.h5",
         verbs=WRITERS),
    Case("output: below a file", 5, "not there|not a folder", arguments="-o f.h5/out.h5", verbs=WRITERS),
    Case("output: a folder", 5, "out.h5: is a folder", beside(lambda out: out.mkdir()), "--force", WRITERS),
    Case("output: name too long", 5, "too long", arguments=f"-o {'x' * 300}.h5", verbs=WRITERS),
    Case("output: not writable", 5, "out.h5: permission denied", verbs=WRITERS, during=no_permission),
    Case("output: no suffix", 2, "out: has no suffix; expected .txt, .npy, .json, .h5, .csv or .parquet",
         arguments="-o out", verbs=SELECT),
    Case("output: disk full", 5, "out.h5: larger than the file size limit; .*ulimit -f", verbs=WRITERS,
         limits={resource.RLIMIT_FSIZE: 1000}),
    Case("output: disk full over an old one", 5, "out.h5: larger than the file size limit",
         beside(lambda out: out.write_text("precious")), "--force", WRITERS, limits={resource.RLIMIT_FSIZE: 1000}),
    Case("output: exists, forced", 0, "", beside(lambda out: out.write_text("old")), "--force", WRITERS),
    Case("output: a folder that is not empty", 5,
         "out.h5: exists and holds no run of pdac train-cl; expected a new or empty folder", taken,
         verbs=("train-cl",)),
    Case("environment: threads", 2, "OMP_NUM_THREADS is 'many'; expected a whole number",
         environment={"OMP_NUM_THREADS": "many"}, verbs=THREADED),
    Case("environment: cores", 2, "SLURM_CPUS_PER_TASK is '-3'; expected a whole number",
         environment={"SLURM_CPUS_PER_TASK": "-3"}, verbs=THREADED),
    Case("environment: threads, unused", 0, "", arguments="--jobs 1", environment={"OMP_NUM_THREADS": "many"},
         verbs=THREADED, same=True),
]  # fmt: skip

CASES = {
    case.name: case
    for case in [*REFUSED_FILES, *OTHER_FILES, *VALUES, *MODELS, *INDICES, *STATES, *OUTPUTS, *NETWORKS, *SHARDS]
}


ROWS = [(c.name, verb) for c in CASES.values() for verb in c.verbs if not (c.arguments and verb in BARE)]
build_once = functools.cache(typer.main.get_command)


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def in_a_process(arguments: list[str], limits: Mapping[int, int]) -> Outcome:
    def limit() -> None:
        for kind, value in limits.items():
            resource.setrlimit(kind, (value, value))

    # Python would leave cut-off byte code behind a file-size limit, and many BLAS threads need much address space.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pdac_cli", *arguments]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env=environment, preexec_fn=limit
    )
    return Outcome(result.returncode, result.stdout, result.stderr)


@functools.cache
def plain_rows(verb: str) -> list[int]:
    """What is kept of the plain file."""
    arguments = shlex.split(COMMANDS[verb])
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "f.h5"), Path(folder, "out.h5")
        put(path)
        method = "uniform" if "uniform" in arguments else "pdac"
        select.run(
            SelectOptions(
                input=InputOptions(paths=(str(path),)), budget=20, output=out, method=method, density=DENSITY, run=QUIET
            )
        )
        return read_index(out).row.tolist()


def check_refused(case: Case, words: str, result: Outcome, before: dict[str, bytes | str], folder: Path) -> None:
    *said, error = result.err.splitlines()
    assert error.startswith("error: ")
    assert re.search(words, error), error
    assert all(line.startswith(("note: ", "warning: ", "plan: ")) for line in said), result.err
    assert result.out == ""
    assert contents(folder) == before


def check_used(
    case: Case, verb: str, words: str, result: Outcome, before: dict[str, bytes | str], folder: Path
) -> None:
    assert re.search(words, result.err), result.err
    assert "error" not in result.err
    assert "Traceback" not in result.err
    after = contents(folder)
    made = after.get("out.h5")
    changed = {name: data for name, data in after.items() if not name.startswith("out.h5")}
    assert changed == {name: data for name, data in before.items() if name != "out.h5"}
    assert (made is None) == (verb in PRINTERS)
    if case.same and verb in ("select", "uniform", "print"):
        rows = [int(line) for line in result.out.split()] if verb == "print" else read_index(folder / "out.h5").row
        assert list(rows) == plain_rows(verb)


@pytest.fixture(autouse=True)
def _built_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typer.main, "get_command", build_once)  # most of the time of a run that is refused


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("name", "verb"), ROWS)
def test_bad_input(name: str, verb: str, pdac: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    made = case.make(folder)
    words = made if isinstance(made, str) else case.words  # some are known only when the input is there
    for variable, value in case.environment.items():
        monkeypatch.setenv(variable, value)
    command = COMMANDS[verb].replace("--data i.h5 ", "") if "--data" in case.arguments else COMMANDS[verb]
    arguments = shlex.split(f"{command} {case.arguments}")
    with monkeypatch.context() as patch, case.during(folder, patch):
        before = contents(folder)
        result = in_a_process(arguments, case.limits) if case.limits else pdac(*arguments)
        assert result.code == case.code, result.err
        if case.code:
            check_refused(case, words, result, before, folder)
        else:
            check_used(case, verb, words, result, before, folder)

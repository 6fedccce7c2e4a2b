"""An output is complete or absent, whatever happens while it is written, and nothing else is harmed."""

from __future__ import annotations

import errno
import os
import platform
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pdac_cli.errors import DataError, PdacError, StorageError, UsageError
from pdac_cli.files.feature_writer import FeatureWriter
from pdac_cli.files.features import open_features
from pdac_cli.files.formats.attributes import read_attributes
from pdac_cli.options.shared import InputOptions
from pdac_cli.storage import atomic
from pdac_cli.storage.atomic import atomic_path, check_output, free_space, write_bytes
from pdac_cli.storage.hdf5_writer import write_hdf5


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_success(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_bytes(out, b"first", force=False)
    assert out.read_bytes() == b"first"
    assert stat.S_IMODE(out.stat().st_mode) == 0o666 & ~_umask()
    out.chmod(0o640)
    write_bytes(out, b"second", force=True)
    assert out.read_bytes() == b"second"
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    assert names(tmp_path) == ["out"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("problem", [RuntimeError, KeyboardInterrupt, SystemExit, StorageError])
@pytest.mark.parametrize("force", [True, False])
def test_a_crash_in_the_middle(problem: type[BaseException], force: bool, tmp_path: Path) -> None:
    out = tmp_path / "out"
    if force:
        out.write_bytes(b"old")

    def crash() -> None:
        with atomic_path(out, force) as temporary:
            temporary.write_bytes(b"half of the n")
            raise problem

    with pytest.raises(problem):
        crash()
    assert names(tmp_path) == (["out"] if force else [])
    assert not force or out.read_bytes() == b"old"


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "no space left on the device"), (errno.EDQUOT, "quota"), (errno.EFBIG, "file size limit"),
     (errno.EACCES, "permission denied"), (errno.EROFS, "read-only"), (errno.EIO, "input/output error")],
)  # fmt: skip
def test_what_the_disk_refuses(number: int, words: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"old")
    with pytest.raises(StorageError, match=f"out: .*{words}"), atomic_path(out, True):
        raise OSError(number, "Can't write", "/secret")
    with pytest.raises(StorageError, match=words), atomic_path(out, True):
        raise OSError(f"Can't synchronously write data (file write failed: errno = {number}, buf = 0x7f)")
    assert names(tmp_path) == ["out"]
    assert out.read_bytes() == b"old"


def test_exists(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_bytes(b"old")
    for attempt in (lambda: check_output(out, [], False), lambda: write_bytes(out, b"new", False)):
        with pytest.raises(StorageError, match="out: exists; expected a new path; add --force to replace it"):
            attempt()

    def lose() -> None:
        with atomic_path(tmp_path / "late", False) as temporary:
            temporary.write_bytes(b"ours")
            (tmp_path / "late").write_bytes(b"theirs")

    with pytest.raises(StorageError, match="exists"):
        lose()
    assert (tmp_path / "late").read_bytes() == b"theirs"
    check_output(out, [], True)
    assert out.read_bytes() == b"old"
    assert names(tmp_path) == ["late", "out"]


@pytest.mark.parametrize("links", [True, False])
def test_of_many_writers_one_wins(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not links:

        def refuse(*_: object) -> None:
            raise OSError(errno.EPERM, "no hard links here")

        monkeypatch.setattr(os, "link", refuse)
    results: list[bytes | None] = []
    barrier = threading.Barrier(8)

    def write(data: bytes) -> None:
        try:
            with atomic_path(tmp_path / "out", False) as temporary:
                temporary.write_bytes(data)
                barrier.wait()
            results.append(data)
        except StorageError:
            results.append(None)

    threads = [threading.Thread(target=write, args=(b"%d" % k * 1000,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [result for result in results if result is not None]
    assert [(tmp_path / "out").read_bytes()] == winners
    assert names(tmp_path) == ["out"]


def test_output_is_an_input(tmp_path: Path) -> None:
    source = tmp_path / "in.h5"
    source.write_bytes(b"data")
    (tmp_path / "soft").symlink_to(source)
    (tmp_path / "hard").hardlink_to(source)
    for out in (source, tmp_path / "soft", tmp_path / "hard", tmp_path / "." / ".." / tmp_path.name / "in.h5"):
        with pytest.raises(UsageError, match="same file"):
            check_output(out, [tmp_path / "missing", source], True)
    check_output(tmp_path / "new", [source], False)
    assert source.read_bytes() == b"data"


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cases = {
        tmp_path: "is a folder",
        tmp_path / "no" / "out": "is not there",
        tmp_path / "file" / "out": "is not there|not a folder",
        tmp_path / ("x" * 300): "too long",
        Path("/proc/out"): "/proc/out: ",
    }
    for out, words in cases.items():
        for force in (True, False):
            with pytest.raises(StorageError, match=words):
                check_output(out, [], force)


def test_a_link_as_output_means_its_target(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/out")
    write_bytes(tmp_path / "link", b"data", False)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "out").read_bytes() == b"data"


def test_only_dead_runs_are_cleaned_up_after(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    host = platform.node()
    kept = [
        f".out.{host}.{os.getpid()}.0123abcd.tmp", f".out.elsewhere.{ended.pid}.0123abcd.tmp",
        f".other.{host}.{ended.pid}.0123abcd.tmp", f".out.{host}.{ended.pid}.0123abcd.tmp.h5", "out.tmp",
    ]  # fmt: skip
    for name in (*kept, f".out.{host}.{ended.pid}.0123abcd.tmp"):
        (tmp_path / name).touch()
    check_output(tmp_path / "out", [], False)
    assert names(tmp_path) == sorted(kept)


def test_a_killed_run_leaves_what_the_next_cleans(tmp_path: Path) -> None:
    script = """
import os, sys
from pathlib import Path
from pdac_cli.storage.atomic import atomic_path
with atomic_path(Path(sys.argv[1]), False) as temporary:
    temporary.write_bytes(b"x")
    os.kill(os.getpid(), 9)
"""
    run(script, tmp_path / "out")
    assert len(names(tmp_path)) == 1
    check_output(tmp_path / "out", [], False)
    assert names(tmp_path) == []


def test_devices_and_pipes(tmp_path: Path) -> None:
    check_output(Path("/dev/null"), [], False)
    write_bytes(Path("/dev/null"), b"data", False)
    with pytest.raises(StorageError, match="/dev/full: no space left on the device"):
        write_bytes(Path("/dev/full"), b"data", False)
    with pytest.raises(StorageError, match="/dev/full: no space left on the device"):
        write_hdf5(Path("/dev/full"), lambda file: file.create_dataset("x", data=[1]), False)
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_bytes(pipe, b"data" * 100_000, False)
    reader.join()
    assert got == [b"data" * 100_000]
    assert names(tmp_path) == ["pipe"]


def test_standard_output_redirected_to_a_file(tmp_path: Path) -> None:
    script = "from pathlib import Path\nfrom pdac_cli.storage.atomic import *\nprint('first', flush=True)\n"
    script += "check_output(Path('/dev/stdout'), [], False)\nwrite_bytes(Path('/dev/stdout'), b'second', False)"
    with (tmp_path / "file").open("wb") as stream:
        subprocess.run([sys.executable, "-c", script], stdout=stream, check=True)
    assert (tmp_path / "file").read_bytes() == b"first\nsecond"
    assert Path("/dev/stdout").is_symlink()


def test_free_space(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    assert free_space(tmp_path / "new") == pytest.approx(found.f_bavail * found.f_frsize, rel=0.2)
    with pytest.raises(StorageError):
        free_space(tmp_path / "no" / "new")


LIMITED = """
import resource, sys
from pathlib import Path
import numpy as np
from pdac_cli.errors import StorageError
from pdac_cli.storage.atomic import write_bytes
from pdac_cli.storage.hdf5_writer import write_hdf5
from pdac_cli.files.feature_writer import FeatureWriter
path, limit = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
def rows():
    with FeatureWriter(path, 64, n_logits=3, force=True) as writer:
        for _ in range(12):
            writer.append(np.ones((1000, 64)), np.zeros(1000), np.ones((1000, 3)))
def small():
    write_hdf5(path, lambda file: file.create_dataset("x", data=np.ones(10**6)), True)
def plain():
    write_bytes(path, bytes(8 * 10**6), True)
try:
    {"rows": rows, "small": small, "plain": plain}[sys.argv[3]]()
except StorageError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["plain", "small", "rows"])
@pytest.mark.parametrize("limit", [100, 1_000_000, 3_100_000])
def test_file_size_limit(kind: str, limit: int, tmp_path: Path) -> None:
    """Also that the process lives to tell: HDF5 alone would end it by a segmentation fault."""
    out = tmp_path / "out.h5"
    out.write_bytes(b"old")
    done = run(LIMITED, out, limit, kind)
    assert (done.returncode, done.stderr) == (0, "")
    assert "out.h5: larger than the file size limit" in done.stdout
    assert names(tmp_path) == ["out.h5"]
    assert out.read_bytes() == b"old"


INTERRUPTED = """
import sys, time
from pathlib import Path
import numpy as np
from pdac_cli.cli.process import Terminated, signals_raised
from pdac_cli.files.feature_writer import FeatureWriter
try:
    with signals_raised(), FeatureWriter(Path(sys.argv[1]), 64) as writer:
        print("go", flush=True)
        for _ in range(1000):  # 0.5 GB at most, however late the signal is
            writer.append(np.ones((2000, 64)), np.zeros(2000))
        time.sleep(60)
except (KeyboardInterrupt, Terminated) as stopped:
    sys.exit(130 if isinstance(stopped, KeyboardInterrupt) else 143)
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_signals_while_writing(number: signal.Signals, code: int, tmp_path: Path) -> None:
    for pause in (0.05, 0.11, 0.17):
        command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "out.h5")]
        with subprocess.Popen(command, stdout=-1, stderr=-1) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(pause)
            process.send_signal(number)
            process.communicate()
            assert process.returncode == code
        assert names(tmp_path) == []


def test_feature_writer(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    h, y = rng.normal(size=(5000, 33)), rng.integers(0, 3, 5000)
    for name, step in (("a.h5", 5000), ("b.h5", 777)):
        options = {
            "dtype": "f2",
            "n_logits": 2,
            "label_names": ["x", "y", "é"],
            "attrs": {"layer": "avgpool", "k": 3},
        }
        with FeatureWriter(tmp_path / name, 33, **options) as writer:  # type: ignore[arg-type]
            for at in range(0, 5000, step):
                part = slice(at, at + step)
                writer.append(h[part], y[part], logits=h[part, :2], ids=np.arange(5000)[part])
        with h5py.File(tmp_path / name) as file:
            np.testing.assert_array_equal(file["features"][:], h.astype("f2"))
            np.testing.assert_array_equal(file["labels"][:], y)
            np.testing.assert_array_equal(file["logits"][:], h[:, :2].astype("f2"))
            np.testing.assert_array_equal(file["ids"][:], np.arange(5000))
            assert file["features"].chunks[1] == 33
            assert 2**18 <= file["features"].chunks[0] * 33 * 2 <= 2**20
            attributes = read_attributes(file)
        assert (attributes["layer"], attributes["k"], attributes["version"]) == ("avgpool", 3, 1)
        with open_features(InputOptions(paths=(str(tmp_path / name),))) as features:
            assert features.fingerprint == attributes["fingerprint"]
            assert features.label_names == ("x", "y", "é")
    assert (tmp_path / "a.h5").read_bytes() != b""
    assert names(tmp_path) == ["a.h5", "b.h5"]


def test_feature_writer_refuses(tmp_path: Path) -> None:
    out = tmp_path / "out.h5"
    h = np.ones((5, 2))
    h[3, 1] = 70_000

    def write(*batches: dict[str, Any]) -> None:
        with FeatureWriter(out, 2, dtype=np.float16) as writer:
            for batch in batches:
                writer.append(**batch)

    good = {"h": np.ones((5, 2)), "y": np.zeros(5)}
    with pytest.raises(DataError, match="features of row 8 reach 70000; expected at most 65504, the largest float16"):
        write(good, {"h": h, "y": np.zeros(5)})
    with pytest.raises(DataError, match="no rows to write"):
        write()
    wrong = [
        {"h": np.ones((5, 1)), "y": np.zeros(5)}, {**good, "y": np.zeros(4)}, {**good, "y": np.zeros((5, 1))},
        {**good, "logits": np.ones((5, 2))}, {"h": np.ones(2), "y": np.zeros(2)},
    ]  # fmt: skip
    for arguments in wrong:
        with pytest.raises(ValueError):
            write(arguments)
    with pytest.raises(ValueError, match="some rows only"):
        write(good, {**good, "ids": np.zeros(5)})
    assert names(tmp_path) == []
    write({"h": np.array([[np.inf, np.nan]]), "y": np.zeros(1)})  # not made infinite by us: readers say so
    with pytest.raises(StorageError, match="exists"):
        write(good)


def test_same_features_same_bytes(tmp_path: Path) -> None:
    data = []
    for name in ("a.h5", "b.h5"):
        with FeatureWriter(tmp_path / name, 2, attrs={"b": 1, "a": "x"}) as writer:
            writer.append(np.ones((5, 2)), np.zeros(5))
        data.append((tmp_path / name).read_bytes())
        time.sleep(1.1)  # HDF5 would store seconds
    assert data[0] == data[1]


def test_errors_of_the_block_pass_unchanged(tmp_path: Path) -> None:
    assert issubclass(StorageError, PdacError)
    with pytest.raises(BrokenPipeError), atomic.storage_errors(tmp_path):
        raise BrokenPipeError(errno.EPIPE, "closed")

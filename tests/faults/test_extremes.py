"""Values, numbers and limits at the edge of what can be: an answer or one line, never a traceback."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from pdac_cli.arrays import Chunk
from pdac_cli.errors import DataError
from pdac_cli.files.features import FeatureSet, open_features
from pdac_cli.options.shared import InputOptions
from tests.faults.processes import ENVIRONMENT, Server

PDAC = [sys.executable, "-m", "pdac_cli"]
ROWS = 60
SECONDS = 60  # after which a process of a second hangs


def features(path: Path, h: object = None, labels: object = None, seed: int = 0) -> None:
    with h5py.File(path, "w") as file:
        file["features"] = np.random.default_rng(seed).normal(size=(ROWS, 4)) if h is None else h
        file["labels"] = np.arange(ROWS) % 3 if labels is None else labels


@pytest.mark.parametrize(
    "verb", ["fit f.h5 -o m.h5", "select f.h5 --budget 9 --method pdac", "stream f.h5 --budget 9 -o b.json"]
)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("columns", [1, 4])
def test_denormal_features(verb: str, dtype: str, columns: int, light: Server, tmp_path: Path) -> None:
    smallest = float(np.finfo(dtype).smallest_subnormal)
    h = (np.random.default_rng(0).integers(1, 99, (ROWS, columns)) * smallest).astype(dtype)
    features(tmp_path / "f.h5", h)
    ended = light.run([*verb.split(), *(["--dim", "1"] if "fit" in verb else []), "-q"], tmp_path)
    ended.check_manners()
    assert ended.code == 0, ended.err


@pytest.mark.parametrize(
    "verb", ["fit f.h5 -o m.h5", "select f.h5 --budget 9 -o b.json", "stream f.h5 --budget 9 -o b.json"]
)
def test_the_largest_label(verb: str, light: Server, tmp_path: Path) -> None:
    features(tmp_path / "f.h5", labels=np.where(np.arange(ROWS) % 2, 2**63 - 1, 0))
    ended = light.run([*verb.split(), *(["--dim", "2"] if "fit" in verb else []), "-q"], tmp_path)
    ended.check_manners()
    assert ended.code == 0, ended.err
    if "b.json" in verb:
        assert set(json.loads((tmp_path / "b.json").read_text())["class_counts"]) == {"0", str(2**63 - 1)}


def test_a_buffer_of_no_rows(light: Server, tmp_path: Path) -> None:
    features(tmp_path / "f.h5")
    features(tmp_path / "g.h5", seed=1)
    select = "select {} --budget 9 -q -o {}"
    assert light.run(select.format("f.h5", "b.json").split(), tmp_path).code == 0
    index = json.loads((tmp_path / "b.json").read_text()) | {"kept": [], "class_counts": {}}
    (tmp_path / "b.json").write_text(json.dumps(index))
    ended = light.run([*select.format("g.h5", "c.json").split(), "--buffer", "b.json"], tmp_path)
    ended.check_manners()
    assert ended.code == 0, ended.err
    assert len(json.loads((tmp_path / "c.json").read_text())["kept"]) == 9


def test_many_classes_of_one_row(light: Server, tmp_path: Path) -> None:
    """Every class costs a little and not as much as there are classes."""
    counts = []
    for classes in (2_000, 8_000):
        features(tmp_path / "f.h5", np.random.default_rng(0).normal(size=(classes, 4)), np.arange(classes))
        ended = light.run(["select", "f.h5", "--budget", "9", "--method", "pdac", "--jobs", "1", "-q"], tmp_path)
        assert ended.code == 0, ended.err
        counts.append(ended.seconds)
    assert counts[1] < 4 * 4 * counts[0]


@pytest.mark.parametrize("method", ["pdac", "least-error", "voptimal", "herding"])
def test_no_array_has_the_square_of_the_classes(method: str, light: Server, tmp_path: Path) -> None:
    """Twelve thousand classes: their square is a gigabyte."""
    features(tmp_path / "f.h5", np.random.default_rng(0).normal(size=(12_000, 4)), np.arange(12_000))
    ended = light.run(["select", "f.h5", "--budget", "9", "--method", method, "--jobs", "1", "-q"], tmp_path)
    assert ended.code == 0, ended.err
    assert ended.peak < 600 << 20


@pytest.mark.parametrize("limit", [200, 399])
def test_a_limit_that_the_libraries_do_not_fit_into(limit: int, tmp_path: Path) -> None:
    """Refused before they are loaded: OpenBLAS asks again and again for what it does not get."""
    features(tmp_path / "f.h5")
    room = (limit << 20, limit << 20)
    ended = subprocess.run(
        [*PDAC, "fit", "f.h5", "-o", "m.h5", "--dim", "2"], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | ENVIRONMENT, timeout=SECONDS, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, room),
    )  # fmt: skip
    assert ended.returncode == 5, ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"error: the address space is limited to {limit << 20:,} bytes; expected at least 419,430,4")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.h5"]


def test_a_stopped_run_goes_on(light: Server, tmp_path: Path) -> None:
    """SIGSTOP and SIGCONT cost time only."""
    features(tmp_path / "f.h5", np.random.default_rng(0).normal(size=(6000, 16)), np.arange(6000) % 3)
    command = ["fit", "f.h5", "--dim", "2", "-q", "-o"]
    assert light.run([*command, "undisturbed.h5"], tmp_path).code == 0
    run = subprocess.Popen([*PDAC, *command, "m.h5"], cwd=tmp_path)
    stops = 0
    try:
        while run.poll() is None and stops < 40:
            time.sleep(0.05)
            run.send_signal(signal.SIGSTOP)
            time.sleep(0.01)
            run.send_signal(signal.SIGCONT)
            stops += 1
        assert run.wait(SECONDS) == 0
    finally:
        run.kill()
    assert stops > 2
    assert (tmp_path / "m.h5").read_bytes() == (tmp_path / "undisturbed.h5").read_bytes()


def test_a_closed_terminal_leaves_nothing_half_written(light: Server, tmp_path: Path) -> None:
    """SIGHUP ends the process at once, as it ends any; the output is the earlier one or complete."""
    features(tmp_path / "f.h5")
    command = ["fit", "f.h5", "-o", "m.h5", "--dim", "2", "-q", "--force"]
    whole = light.run(command, tmp_path)
    assert whole.code == 0, whole.err
    complete = (tmp_path / "m.h5").read_bytes()
    ends = []
    for part in range(12):
        (tmp_path / "m.h5").write_bytes(b"earlier")
        ended = light.run(command, tmp_path, after=whole.seconds * part / 12, signal=signal.SIGHUP)
        ends.append(ended.code)
        assert ended.code in (0, -signal.SIGHUP), ended.err
        assert (tmp_path / "m.h5").read_bytes() in (b"earlier", complete)
    assert -signal.SIGHUP in ends
    assert light.run(command, tmp_path).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.h5", "m.h5"]


def written(path: Path, rows: int = 40_000) -> None:
    """Features in the form that the path's ending says."""
    h, y = np.random.default_rng(0).normal(size=(rows, 32)), np.arange(rows) % 3
    if path.suffix == ".npy":
        np.save(path, h)
        np.save(path.with_name("f_labels.npy"), y)
    elif path.suffix == ".npz":
        np.savez(path, features=h, labels=y)
    else:
        features(path, h, y)


@pytest.mark.parametrize("form", ["f.npy", "f.npz", "f.h5"])
@pytest.mark.parametrize("change", ["cut", "replaced", "zeroed"])
def test_a_file_that_changes_while_it_is_read(form: str, change: str, tmp_path: Path) -> None:
    """Bad data and no signal: a mapped file that is cut off would end the process by SIGBUS."""
    path = tmp_path / form
    written(path)
    with open_features(InputOptions(paths=(str(path),))) as source:
        chunks = source.chunks(1000)
        next(chunks)
        if change == "cut":
            os.truncate(path, path.stat().st_size // 2)
        elif change == "replaced":
            shutil.copy(path, tmp_path / "other")
            (tmp_path / "other").replace(path)
        else:
            path.write_bytes(bytes(path.stat().st_size))
        with pytest.raises(DataError):
            read_on(source, chunks)


def read_on(source: FeatureSet, chunks: Iterator[Chunk]) -> None:
    for _ in chunks:
        pass
    source.check_unchanged()


@pytest.mark.parametrize("form", ["f.npy", "f.npz", "f.h5"])
def test_a_file_that_is_cut_off_during_a_run(form: str, tmp_path: Path) -> None:
    """A process whose file is cut off when it begins to read: exit code 3, one line that says so, no output."""
    path = tmp_path / form
    written(path)
    code = (
        "import os\n"
        "from pdac_cli import cli\n"
        "from pdac_cli.files.featureset import FeatureSet\n"
        "read = FeatureSet._read\n"
        "def _read(self, *arguments):\n"
        "    FeatureSet._read = read\n"
        f"    os.truncate({str(path)!r}, os.stat({str(path)!r}).st_size // 2)\n"
        "    return read(self, *arguments)\n"
        "FeatureSet._read = _read\n"
        "cli.main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, "fit", form, "-o", "m.h5", "--dim", "2", "-q"], cwd=tmp_path,
        capture_output=True, text=True, timeout=SECONDS, check=False, env=os.environ | ENVIRONMENT,
    )  # fmt: skip
    assert ended.returncode == 3, (ended.returncode, ended.stderr)
    lines = ended.stderr.splitlines()
    assert [line for line in lines if line.startswith(f"error: {form}: ")] == lines[-1:]
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "m.h5").exists()

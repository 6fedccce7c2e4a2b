"""A full disk, or a limit on the size of files: exit 5, nothing half written, and a rerun with room goes through."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.faults.processes import contents
from tests.faults.trials import Trial
from tests.faults.works import OLD, WORKS

LIMITS = (0, 1, 500, 3000, 9000, 30_000)


def check_starved(trial: Trial, limit: int) -> None:
    folder = trial.fresh()
    ended = trial.run(folder, limits=[(resource.RLIMIT_FSIZE, limit)])
    ended.check_manners()
    assert ended.code in (0, 5), ended.err
    if ended.code:
        assert "larger than the file size limit; expected room for the output" in ended.error
        if trial.work.forced:
            assert (folder / trial.work.output).read_bytes() == OLD
    trial.check_between(folder)
    assert not [name for name in contents(folder) if name.endswith((".tmp", "lock"))]
    trial.check_end(folder)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("trial", ["fit, replacing", "select", "stream"], indirect=True)
def test_a_file_size_limit(trial: Trial, limit: int) -> None:
    check_starved(trial, limit)


@pytest.mark.slow
@pytest.mark.parametrize("trial", [name for name in WORKS if name not in ("fit, replacing", "select", "stream")],
                         indirect=True)  # fmt: skip
def test_a_file_size_limit_for_the_others(trial: Trial) -> None:
    for limit in LIMITS:
        check_starved(trial, limit)


def test_a_scratch_file_that_cannot_be_written(light, tmp_path: Path) -> None:
    folder = WORKS["fit"].prepare(tmp_path / "here")
    arguments = [*WORKS["fit"].command(), "--memory", "16M"]
    with h5py.File(folder / "f.h5", "w") as file:  # four times what may be kept in memory
        file["features"] = np.random.default_rng(0).normal(size=(60_000, 64)).astype("f4")
        file["labels"] = np.arange(60_000) % 2
    before = contents(folder)
    for limit in (1 << 12, 1 << 20, 1 << 23):
        ended = light.run(arguments, folder, limits=[(resource.RLIMIT_FSIZE, limit)])
        ended.check_manners()
        assert ended.code == 5
        assert "the scratch file in" in ended.error
        assert "set TMPDIR to a larger disk or raise --memory" in ended.error
        assert contents(folder) == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kB, where the system lets us have one."""
    where = tmp_path / "disk"
    where.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", where], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("no right to mount a file system")
    yield where
    subprocess.run(["umount", where], check=True)


def test_a_disk_that_is_really_full(small_disk: Path, light, tmp_path: Path) -> None:
    work = WORKS["fit"]
    inputs = work.prepare(tmp_path / "here")
    old = small_disk / "out.h5"
    old.write_bytes(OLD)
    (small_disk / "ballast").write_bytes(bytes(40_000))
    arguments = ["fit", inputs / "f.h5", "-o", old, "--force", "--dim", "10", "-q"]
    ended = light.run(arguments, tmp_path)
    ended.check_manners()
    assert ended.code == 5
    assert "no space left on the device" in ended.error
    assert old.read_bytes() == OLD
    assert sorted(path.name for path in small_disk.iterdir()) == ["ballast", "out.h5"]
    (small_disk / "ballast").unlink()
    assert light.run(arguments, tmp_path).code == 0


def test_a_folder_for_scratch_files_that_is_really_full(small_disk: Path, light, tmp_path: Path) -> None:
    folder = WORKS["fit"].prepare(tmp_path / "here")
    with h5py.File(folder / "f.h5", "w") as file:
        file["features"] = np.random.default_rng(0).normal(size=(60_000, 64)).astype("f4")
        file["labels"] = np.arange(60_000) % 2
    before = contents(folder)
    ended = light.run([*WORKS["fit"].command(), "--memory", "16M"], folder, environment={"TMPDIR": str(small_disk)})
    ended.check_manners()
    assert ended.code == 5
    assert f"{small_disk} has 65,536 free; set TMPDIR to a larger disk or raise --memory" in ended.error
    assert contents(folder) == before
    assert list(small_disk.iterdir()) == []

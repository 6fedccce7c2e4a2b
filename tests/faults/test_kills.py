"""Killed at any moment and run again, every command ends as if nothing had happened, and harms nothing on the way."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.processes import ENVIRONMENT
from tests.faults.trials import Trial
from tests.faults.works import WORKS, Content

KILLS = 50


def check_random_kills(trial: Trial, kills: int, seed: int) -> None:
    """Kill runs and their reruns at moments drawn evenly from the whole of an undisturbed run."""
    rng = random.Random(seed)
    done = 0
    while done < kills:
        folder = trial.fresh()
        for attempt in range(rng.randint(1, 4)):
            ended = trial.run(folder, again=attempt > 0, after=rng.uniform(0, trial.seconds))
            if ended.code != -9:  # it was faster than usual, or had nothing left to do
                break
            done += 1
            trial.check_between(folder)
        trial.check_end(folder)


@pytest.mark.slow
@pytest.mark.parametrize("trial", WORKS, indirect=True)
def test_fifty_kills_at_random_moments(trial: Trial) -> None:
    check_random_kills(trial, KILLS, seed=1)


@pytest.mark.parametrize("trial", ["fit", "select", "stream", "extract", "train-cl"], indirect=True)
def test_a_few_kills_at_random_moments(trial: Trial) -> None:
    check_random_kills(trial, 4, seed=2)


def changes(trial: Trial) -> int:
    """Count how often a run changes its folder: the last kill that comes before the end."""
    low, high = 0, 1
    while trial.run(trial.fresh(), die_at=high).code == -9:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if trial.run(trial.fresh(), die_at=middle).code == -9 else (low, middle)
    return low


@pytest.mark.slow
@pytest.mark.parametrize("trial", WORKS, indirect=True)
def test_a_kill_before_every_change_to_the_folder(trial: Trial) -> None:
    """Also those that random moments hardly ever meet: between a link and the removal of what it was made from.

    Of runs with many changes, which are alike in their middle, the first and last and some of the others.
    """
    last = changes(trial)
    middle = random.Random(4).sample(range(7, last - 14), 10) if last > 40 else range(7, last + 1)
    for count in sorted({*range(1, 7), *middle, *range(max(1, last - 14), last + 1)}):
        folder = trial.fresh()
        ended = trial.run(folder, die_at=count)
        assert ended.code == -9, count
        trial.check_between(folder)
        trial.check_end(folder)


@pytest.mark.slow
@pytest.mark.parametrize("trial", ["fit", "stream", "train-cl"], indirect=True)
def test_kills_of_processes_started_from_nothing(trial: Trial) -> None:
    """The same without a server: from the interpreter's first instruction to its last."""
    rng = random.Random(3)
    command = [sys.executable, "-m", "pdac_cli"]
    kernel = {
        name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")
    }  # decides the last bits
    options = {"env": {**kernel, **ENVIRONMENT, "PATH": "", "HOME": str(trial.fresh())}, "stderr": subprocess.DEVNULL}
    whole = trial.fresh()
    subprocess.run([*command, *trial.work.command()], cwd=whole, check=True, **options)  # type: ignore[call-overload]
    for share in (0.5, 0.8, 0.9, 0.97):
        folder = trial.fresh()
        with subprocess.Popen([*command, *trial.work.command()], cwd=folder, **options) as process:  # type: ignore[call-overload]
            try:
                process.wait(share * rng.uniform(0.9, 1.1) * 3)
            except subprocess.TimeoutExpired:
                process.kill()
        trial.check_between(folder)
        trial.check_end(folder)


def test_what_a_kill_leaves_is_seen(tmp_path: Path) -> None:
    """The checks themselves: half an output or a changed input do not pass."""
    trial = object.__new__(Trial)
    trial.work, trial.before, trial.expected = WORKS["fit"], {"f.h5": b"in"}, {"f.h5": b"in", "out.h5": b"whole"}
    bad: list[Content] = [{"f.h5": b"in", "out.h5": b"who"}, {"f.h5": b"un"}, {}]
    for k, found in enumerate(bad):
        folder = tmp_path / str(k)
        folder.mkdir()
        for name, data in found.items():
            (folder / name).write_bytes(data)  # type: ignore[arg-type]
        with pytest.raises((AssertionError, KeyError)):
            trial.check_between(folder)

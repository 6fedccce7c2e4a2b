"""SIGTERM and SIGINT end a run in their exit code or, where a rerun goes on, in 6; nothing of it is left but that."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.faults.processes import contents
from tests.faults.trials import Trial
from tests.faults.works import WORKS
from tests.processes import wait_until_open


def check_signals(trial: Trial, number: int, count: int) -> None:
    rng = random.Random(number)
    codes = set()
    for _ in range(count):
        folder = trial.fresh()
        ended = trial.run(folder, after=rng.uniform(0, trial.seconds), signal=number)
        codes.add(ended.code)
        # At its very beginning a process has no handlers yet, and dies of the signal.
        assert ended.code in (0, trial.work.codes[number], number + 128, -number), ended.err
        if ended.code > 0:
            ended.check_manners()
            words = "on" if ended.code == 6 else "every output is as it was before, or complete"
            assert words in ended.error
        trial.check_between(folder)
        left = {name for name in contents(folder) if name.endswith((".tmp", "lock"))}
        assert not left or ended.code < 0
        trial.check_end(folder)
    assert codes - {0}, "no signal came in time"  # the codes themselves are tested at certain moments elsewhere


NUMBERS = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])


@pytest.mark.slow
@NUMBERS
@pytest.mark.parametrize("trial", WORKS, indirect=True)
def test_signals_at_random_moments(trial: Trial, number: int) -> None:
    check_signals(trial, number, 25)


@NUMBERS
@pytest.mark.parametrize("trial", ["select", "stream"], indirect=True)
def test_some_signals(trial: Trial, number: int) -> None:
    check_signals(trial, number, 5)


def test_two_signals_are_one(tmp_path: Path) -> None:
    """The second does not disturb the clearing up after the first."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "f.npy", rng.normal(size=(200_000, 16)).astype("f4"))
    np.save(tmp_path / "f.labels.npy", np.arange(200_000) % 10)
    before = contents(tmp_path)
    options = [
        "--budget",
        "50",
        "-o",
        "out.json",
        "--density",
        "class",
        "--step-rows",
        "4",
        "--dim",
        "3",
        "--components",
        "2",
        "-q",
    ]
    command = [sys.executable, "-m", "pdac_cli", "stream", "f.npy", *options]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        wait_until_open(process, tmp_path / "f.npy")
        time.sleep(0.3)
        for _ in range(20):
            process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert err == "error: terminated; every output is as it was before, or complete\n"
    assert contents(tmp_path) == before

"""What is said before long work, and that its bounds hold."""

import re
import subprocess
import sys

import h5py
import numpy as np
import pytest

from pdac_cli.density import kernel
from pdac_cli.pipeline import fitting
from tests.conftest import SAMPLE
from tests.processes import measured


def test_the_plan_is_told_before_long_work_only(pdac, tmp_path, monkeypatch):
    assert "plan:" not in pdac("fit", SAMPLE, "-o", tmp_path / "a.h5").err
    monkeypatch.setattr(fitting, "WORTH_ESTIMATING", 1)
    said = pdac("fit", SAMPLE, "-o", tmp_path / "b.h5", "--jobs", 2, "--memory", "1G").err
    assert re.search(
        r"plan: 1,797 rows x 64 \(float32\), 10 classes, one pass; rows grouped by class in memory \(460 kB\); "
        r"2 threads, memory bound 1.07 GB; about \d+ s",
        said,
    )
    assert "plan:" not in pdac("fit", SAMPLE, "-o", tmp_path / "c.h5", "-q").err
    assert "plan:" in pdac("select", SAMPLE, "--budget", 20, "--density", "class").err
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_the_plan_tells_that_the_inner_loops_are_not_compiled(pdac, tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "WORTH_ESTIMATING", 1)
    said = [pdac("fit", SAMPLE, "-o", tmp_path / "a.h5").err]
    monkeypatch.setattr(kernel, "compiled", None)
    said += [
        pdac("fit", SAMPLE, "-o", tmp_path / name, *more).err for name, more in (("b", ()), ("c", ("--device", "cpu")))
    ]
    assert ["no C compiler" in text for text in said] == [False, True, False]


def test_a_bar_with_the_time_left_is_shown_at_a_terminal_only(tmp_path):
    command = f"{sys.executable} -m pdac_cli fit {SAMPLE} -o {tmp_path / 'm.h5'}"
    shown = subprocess.run(
        ["script", "-qec", command, "/dev/null"], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    ).stdout
    assert "fitting" in shown
    assert "1797 of 1797" in shown.replace(",", "")
    plain = subprocess.run([*command.split(), "--force"], capture_output=True, text=True, check=True)
    assert "fitting" not in plain.stderr + plain.stdout


@pytest.mark.slow
def test_memory_stays_within_its_bound_and_changes_nothing(tmp_path):
    rows, dim = 400_000, 256
    rng = np.random.default_rng(0)
    path = tmp_path / "big.h5"
    with h5py.File(path, "w") as file:
        features = file.create_dataset("features", (rows, dim), "f4", chunks=(1024, dim))
        for at in range(0, rows, 20_000):
            features[at : at + 20_000] = rng.standard_normal((20_000, dim), dtype="f4")
        # One class whose rows are read on every pass, and five that are kept, of which the bound allows one at a time.
        file["labels"] = rng.permutation(np.repeat(np.arange(6), [100_000, *[60_000] * 5]))

    def run(features, name, *extra):
        out = tmp_path / name
        command = [sys.executable, "-m", "pdac_cli", "select", str(features), "--budget", "500", "-o", str(out), "-q"]
        return measured([*command, "--density", "class", "--iterations", "3", *extra])[1]

    itself = run(SAMPLE, "small.json")  # what Python and its libraries take
    run(path, "free.json", "--jobs", "2")
    bounded = run(path, "bounded.json", "--memory", "96M", "--jobs", "2")
    assert (tmp_path / "free.json").read_bytes() == (tmp_path / "bounded.json").read_bytes()
    assert bounded - itself < 96 << 20

"""What most tests need: the command line in this process, and feature files made on the spot."""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest

from pdac_cli import cli
from tests.oracles import clustered

SAMPLE = Path(__file__).parent.parent / "sample_data" / "digits.h5"
STAND_INS = Path(__file__).parent / "stand_ins"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out)

    @property
    def rows(self) -> list[int]:
        return [int(line) for line in self.out.splitlines()]


@pytest.fixture
def pdac(monkeypatch, capsys):
    """Run the command line here and return its exit code and what it printed."""

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["pdac", *map(str, arguments)])
        capsys.readouterr()
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            with pytest.raises(SystemExit) as exit_:
                cli.main()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        out, err = capsys.readouterr()
        return Result(int(exit_.value.code or 0), out, err)

    return run


@pytest.fixture
def feature_file(tmp_path):
    """Write a feature file of clustered classes and return its path."""

    def make(
        name: str = "feats.h5", *, n: int = 600, dim: int = 16, classes=(0, 1, 2), seed: int = 0, dtype: str = "f4"
    ):
        rng = np.random.default_rng(seed)
        h = np.concatenate([clustered(n // len(classes), dim, 3, seed=seed + c) for c in classes]).astype(dtype)
        y = np.repeat(classes, n // len(classes))
        order = rng.permutation(len(y))
        path = tmp_path / name
        with h5py.File(path, "w") as file:
            file["features"], file["labels"] = h[order], y[order]
        return path

    return make


@pytest.fixture
def few_steps(monkeypatch):
    """Let the bilevel methods take few steps, where it is enough that they run: they have tests of their own."""
    from pdac_cli.selection.baselines import bcsr, greedy, pbcs

    for module, steps in (
        (pbcs, {"OUTER": 3, "INNER": 3}),
        (bcsr, {"OUTER": 3, "INNER": 1, "DRAWS": 4}),
        (greedy, {"CANDIDATES": 20, "SOLVE_STEPS": 3, "_INNER_STEPS": 3}),
    ):
        for name, value in steps.items():
            monkeypatch.setattr(module, name, value)


@pytest.fixture
def avalanche(monkeypatch):
    """Avalanche where it is installed, else its published interface."""
    if importlib.util.find_spec("avalanche") is None:
        monkeypatch.syspath_prepend(STAND_INS)

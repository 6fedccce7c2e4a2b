"""What is recorded of densities and margins while a network learns."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import norm, spearmanr

from pdac_cli.commands.train_cl.probe import margins, probe, rank_correlation
from pdac_cli.engine.plan import make_plan
from pdac_cli.engine.sources import MemorySource
from pdac_cli.options.select import SelectOptions
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions
from tests.commands.train_cl.runs import SMALL


def test_margins_and_correlations_are_their_definition():
    logits = np.array([[1.0, 3, 2], [5, 0, 4], [0, 0, -1]])
    assert margins(logits, np.array([0, 0, 2])).tolist() == [-2, 1, -1]
    a, b = np.random.default_rng(0).integers(0, 5, (2, 40))
    assert rank_correlation(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert rank_correlation(np.ones(5), np.arange(5)) == 0.0


def test_a_density_that_is_known_has_its_correlation_and_its_effective_share():
    """One Gaussian a class in one direction: E[p]² / E[p²] is √3 / 2 of the rows, and margins that are p go with it."""
    rng = np.random.default_rng(1)
    h = np.concatenate([rng.standard_normal((4000, 1)), 50 + rng.standard_normal((4000, 1))])
    y = np.repeat([0, 1], 4000)
    margin = norm.pdf(h[:, 0] - 50 * y)
    source = MemorySource(h, y, row_ids=3 * np.arange(8000))
    density = DensityOptions(dim=1, components=1, normalize=False)
    options = SelectOptions(budget=5, density=density, run=RunOptions(jobs=1))
    found = probe(2, 7, source, margin, options, make_plan(InputOptions(), options.run))
    assert [row["density"] for row in found] == ["relative", "class"]
    assert (found[1]["task"], found[1]["epoch"]) == (2, 7)
    assert found[1]["margin_correlation"] == pytest.approx(1, abs=0.01)
    assert found[1]["effective_share"] == pytest.approx(np.sqrt(3) / 2, abs=0.02)


def test_runs_record_it_after_some_epochs_and_are_the_same_without(pdac, images, tmp_path):
    run = ("train-cl", images, "--method", "uniform", "--width", 2, "--epochs", 3, "--budget", 10, *SMALL)
    assert pdac(*run, "-o", tmp_path / "with", "--probe").code == 0
    assert pdac(*run, "-o", tmp_path / "without").code == 0
    seed = tmp_path / "with" / "uniform" / "seed-0"
    names = sorted(path.name for path in seed.glob("probe-*"))
    assert names == ["probe-1-1.json", "probe-1-2.json", "probe-2-1.json", "probe-2-2.json"]
    rows = json.loads((seed / "probe-2-2.json").read_text())["probes"]
    assert all(-1 <= row["margin_correlation"] <= 1 and 0 < row["effective_share"] <= 1 for row in rows)
    buffers = [(tmp_path / name / "uniform" / "seed-0" / "buffer-2.json").read_bytes() for name in ("with", "without")]
    assert buffers[0] == buffers[1]
    found = pdac("train-cl", images, "-o", tmp_path / "x", "--setting", "online", "--probe")
    assert found.code == 2
    assert "--probe is for --setting offline" in found.err

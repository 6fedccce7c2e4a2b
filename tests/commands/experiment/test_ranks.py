"""Ranks and critical differences against Demšar's own example and SciPy."""

import numpy as np
import pytest

from pdac_cli.commands.experiment.ranks import critical_difference, mean_ranks, rankings
from pdac_cli.commands.experiment.results import Cell
from pdac_cli.reports.rank_plot import alike


def test_the_critical_differences_of_demsars_paper():
    # Four classifiers on fourteen sets: q = 2.569, CD = 1.25 (Demšar 2006, section 3.2.2).
    assert critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=2e-3)
    assert critical_difference(10, 1) == pytest.approx(3.164 * np.sqrt(10 * 11 / 6), abs=5e-3)  # table 5(a)


def test_ties_share_their_rank():
    np.testing.assert_allclose(mean_ranks(np.array([[0.9, 0.8, 0.8], [0.1, 0.5, 0.3]])), [2.0, 1.75, 2.25])


def cell(data, method, values):
    return Cell(data, {"rows": "5"}, method, list(range(len(values))), {"ncm": values}, {})


def test_rules_are_ranked_where_all_have_the_same_seeds():
    cells = [
        cell("a", "herding", [50.0, 50.0]),
        cell("a", "pdac", [51.0, 40.0]),  # worse over both seeds
        cell("a", "late", [60.0]),  # so that only seed 0 counts
        cell("b", "herding", [50.0]),
        cell("b", "pdac", [51.0]),
        cell("b", "late", [10.0]),
        cell("a", "partial", [99.0]),
    ]
    every, one = rankings(cells, ["ncm", "1nn"], "herding")
    assert (every.heads, one.heads) == ("all heads", "ncm")
    assert every.mean_ranks == one.mean_ranks == {"pdac": 1.5, "late": 2.0, "herding": 2.5}
    assert every.cells == 2
    assert every.left_out == ["partial"]


def test_bars_join_what_does_not_differ():
    assert alike([1.0, 1.5, 2.2, 4.0], 1.0) == [(0, 1), (1, 2)]
    assert alike([1.0, 3.0], 1.0) == []
    assert alike([1.0, 1.1, 1.2], 1.0) == [(0, 2)]

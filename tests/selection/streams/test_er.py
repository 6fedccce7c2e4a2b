"""ER: what is kept has its tests beside the reservoir; here, what is replayed."""

import numpy as np
from scipy.stats import chisquare

from pdac_cli.selection.streams.er import ER
from tests.selection.streams.steps import step_of


def replayed(stored, count, seed):
    return ER.replay(step_of(stored, count=count, seed=seed))


def test_replay_draws_distinct_rows_and_no_more_than_there_are():
    rows = np.array([4, 8, 15, 16])
    assert sorted(replayed(rows, 32, 0)) == [4, 8, 15, 16]
    counts = np.zeros(17)
    for seed in range(600):
        drawn = replayed(rows, 2, seed)
        assert len(set(drawn)) == 2
        counts[drawn] += 1
    assert chisquare(counts[rows]).pvalue > 1e-3
    assert len(replayed(rows[:0], 32, 0)) == len(replayed(rows, 0, 0)) == 0

import numpy as np
import pytest

from pdac_cli.selection.herding import herd
from tests.oracles import clustered
from tests.selection.arrays import ArrayRows, pool_of, request, select


def brute_force(h, m):
    """iCaRL's Algorithm 4 as printed: the nearest, not the farthest."""
    h = h / np.linalg.norm(h, axis=1, keepdims=True)
    mean, chosen = h.mean(axis=0), []
    for i in range(m):
        total = h[chosen].sum(axis=0)
        gap = [np.linalg.norm(mean - (total + row) / (i + 1)) if k not in chosen else np.inf for k, row in enumerate(h)]
        chosen.append(int(np.argmin(gap)))
    return chosen


@pytest.mark.parametrize(("n", "m"), [(50, 20), (30, 30), (2500, 6)])
def test_herding_is_brute_force(n, m):
    h = clustered(n, 5, 3, seed=n)
    assert herd(pool_of(h), m, request(m, n)).places.tolist() == brute_force(h, m)


def test_the_running_mean_stays_near_the_mean():
    h = clustered(400, 8, 4)
    h /= np.linalg.norm(h, axis=1, keepdims=True)
    chosen = herd(pool_of(h), 40, request(40, 400)).places
    gaps = [np.linalg.norm(h.mean(axis=0) - h[chosen[:k]].mean(axis=0)) for k in (5, 10, 20, 40)]
    random = np.mean([
        np.linalg.norm(h.mean(axis=0) - h[np.random.default_rng(s).permutation(400)[:40]].mean(axis=0))
        for s in range(50)
    ])  # fmt: skip
    assert gaps[-1] < gaps[0] / 3
    assert gaps[-1] < random / 4


def test_classes_take_turns():
    codes = np.repeat([0, 1, 2], [30, 20, 10])
    ranking = select("herding", ArrayRows(clustered(60, 4, 3), codes), 12).ranking
    assert sorted(ranking.codes[:3].tolist()) == [0, 1, 2]
    assert np.bincount(ranking.codes).tolist() == [4, 4, 4]
    for c in range(3):
        rows = np.flatnonzero(codes == c)
        expected = rows[brute_force(clustered(60, 4, 3)[rows], 4)]
        np.testing.assert_array_equal(ranking.ids[ranking.codes == c], expected)


def test_a_row_of_zeros_has_no_direction_and_does_no_harm():
    h = np.concatenate([np.zeros((1, 3)), clustered(20, 3, 2)])
    assert sorted(herd(pool_of(h), 21, request(21, 21)).places.tolist()) == list(range(21))

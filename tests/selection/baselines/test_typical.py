"""TypiClust and TEAL against a peer and their definitions; V-optimal and CSReL against formed matrices and heads."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors

from pdac_cli.errors import UsageError
from pdac_cli.options.methods import CsrelOptions, OwnOptions
from pdac_cli.selection.baselines.clusters import cluster, cluster_order, most_typical
from pdac_cli.selection.baselines.csrel import head_on_all
from pdac_cli.selection.baselines.linear import ScaledRows, cross_entropy, probabilities
from pdac_cli.selection.baselines.pbcs import train
from pdac_cli.selection.baselines.teal import sizes
from pdac_cli.selection.baselines.voptimal import design
from pdac_cli.selection.interface import ProgressSteps
from tests.selection.arrays import ArrayRows, pool_of, select


def blobs(counts, spread=0.05, seed=0):
    """Rows of unit length around as many directions."""
    rng = np.random.default_rng(seed)
    where = np.repeat(np.arange(len(counts)), counts)
    h = np.eye(len(counts))[where] + spread * rng.standard_normal((len(where), len(counts)))
    return h / np.linalg.norm(h, axis=1, keepdims=True), where


@pytest.mark.filterwarnings("ignore")
def test_typiclust_is_scikit_activemls_where_clusters_are_plain():
    from skactiveml.pool import TypiClust

    h, where = blobs([60, 55, 50, 45])
    found = select("typiclust", ArrayRows(h, np.zeros(len(h), int)), 4).ranking.ids
    assert sorted(where[found]) == [0, 1, 2, 3]
    known = np.full(len(h), np.nan)
    known[found[:3]] = 0
    assert TypiClust(random_state=0, k=20).query(h, known, batch_size=1).tolist() == [found[3]]


def test_the_most_typical_row_is_nearest_to_its_neighbours():
    h, _ = blobs([30, 12], spread=0.3, seed=2)
    some = np.arange(3, 40)
    for neighbours, used in ((5, 5), (20, 18)):
        gaps, _ = NearestNeighbors(n_neighbors=used).fit(h[some]).kneighbors()
        assert most_typical(h, some, neighbours) == some[gaps.mean(axis=1).argmin()]
    assert most_typical(h, np.array([7]), 20) == 7


def test_clusters_with_fewest_kept_rows_come_first_the_largest_of_them_and_small_ones_never():
    labels = np.repeat([0, 1, 2, 3], [10, 20, 15, 5])
    kept = np.zeros(50, bool)
    kept[12] = True  # of cluster 1
    assert [labels[group[0]] for group in cluster_order(labels, kept)] == [2, 0, 1]
    assert 12 not in cluster_order(labels, kept)[-1]
    kept[:45] = True
    assert [group.tolist() for group in cluster_order(labels, kept)] == [[45, 46, 47, 48, 49]]


def test_teal_grows_in_the_sizes_of_its_authors():
    assert sizes(2) == [2]
    assert sizes(20) == [3, 5, 7, 10, 14, 20]
    assert sizes(50) == [3, 5, 7, 10, 14, 20, 28, 40, 50]


def test_teal_takes_a_row_of_every_cluster_before_a_second_one():
    h, where = blobs([60, 40, 30])
    found = where[select("teal", ArrayRows(h, np.zeros(len(h), int)), 3).ranking.ids]
    assert found.tolist() == [0, 1, 2]


def test_rows_that_do_not_fit_are_refused():
    h, _ = blobs([60])
    with pytest.raises(UsageError, match="the method clusters 60 rows in memory"):
        select("typiclust", ArrayRows(h, np.zeros(60, int)), 5, memory=500)


def test_clusters_are_the_blobs():
    h, where = blobs([20, 30, 25])
    labels = cluster(h, 3, 0)
    assert len({*zip(labels.tolist(), where.tolist(), strict=True)}) == 3


def test_v_optimal_gains_are_those_of_the_trace():
    rng = np.random.default_rng(0)
    x, ridge = rng.standard_normal((30, 4)), 0.7
    sigma = x.T @ x / 30
    turn, pools = np.array([0, 1] * 5), np.arange(30) % 2
    found = design(x, sigma, ridge, turn, pools, ProgressSteps(lambda _: None, 10, 10))

    def trace(rows):
        return np.trace(np.linalg.solve(x[rows].T @ x[rows] + ridge * np.eye(4), sigma))

    kept: list[int] = []
    for pool, row in zip(turn, found, strict=True):
        free = [i for i in range(30) if pools[i] == pool and i not in kept]
        assert row == min(free, key=lambda i: trace([*kept, i]))
        kept.append(int(row))


def test_csrel_takes_what_a_head_on_all_rows_finds_easiest_then_what_the_rows_kept_leave_most_to_learn():
    h, y = blobs([80, 80], spread=0.3, seed=4)
    y[::10] = 1 - y[::10]
    found = select("csrel", ArrayRows(h, y), 20, own=OwnOptions(csrel=CsrelOptions(rounds=10))).ranking.ids
    sure = LogisticRegression(C=1e3, max_iter=1000).fit(h, y).predict_proba(h)[np.arange(160), y]
    assert (sure[found[:2]] > np.quantile(sure, 0.8)).all()
    rows = ScaledRows(pool_of(h, y), 2, 1 << 30)
    x = rows.take(np.arange(160))
    least = cross_entropy(probabilities(x, head_on_all(rows)), y)
    for at in range(2, 20, 2):  # a round takes a row of each class
        excess = cross_entropy(probabilities(x, train(rows, found[:at])), y) - least
        excess[found[:at]] = -np.inf
        assert {int(y[row]) for row in found[at : at + 2]} == {0, 1}
        for row in found[at : at + 2]:
            assert excess[row] == excess[y == y[row]].max()

"""Clusters of rows held in memory, and how typical a row is of its cluster: what TypiClust, TEAL and ProbCover share.

The typicality of a row is one over its mean distance to its nearest neighbours (Hacohen et al. 2022): the most typical
row is the one of least mean distance.
"""

from __future__ import annotations

import warnings

import numpy as np

from pdac_cli.arrays import Array, Pool
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.errors import UsageError
from pdac_cli.rng import Purpose, generator
from pdac_cli.selection.interface import blocks

SMALL = 5  # rows of a cluster that is too small to choose from
MOST_CLUSTERS = 500


def rows_in_memory(pool: Pool, memory: int) -> Array:
    """Return all rows of a pool divided by their length: (n, D); refused where they do not fit."""
    need = 2 * pool.count * pool.n_features * pool.dtype.itemsize
    if need > memory:
        raise UsageError(
            f"the method clusters {pool.count:,} rows in memory, {need:,} bytes, and --memory is {memory:,}; "
            "expected room for them; raise --memory or use --method herding"
        )
    held = np.empty((pool.count, pool.n_features), pool.dtype)
    for start, stop in blocks(pool.count):
        held[start:stop] = unit_rows(pool.read(start, stop))
    return held


def cluster(x: Array, count: int, seed: int, *key: int) -> Array:
    """Return the cluster of each row by scikit-learn's k-means, one start of k-means++: (n, D) -> (n,)."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    if count == 1:
        return np.zeros(len(x), np.int64)
    state = int(generator(seed, Purpose.SEEDING, *key, count).integers(2**31))
    # One thread, for the sums over rows to be in one order.
    with threadpool_limits(1, user_api="openmp"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        labels: Array = KMeans(count, n_init=1, random_state=state).fit_predict(x)
    return labels.astype(np.int64)


def most_typical(x: Array, places: Array, neighbours: int) -> int:
    """Return which of some rows is nearest to its neighbours among them, the earliest of equals: (k,) -> place.

    Of a small cluster only half of the rows count as neighbours.
    """
    count = min(neighbours, len(places) // 2)
    if count == 0:
        return int(places[0])
    mine, mean = x[places], np.empty(len(places))
    for start, stop in blocks(len(places)):
        gap = 2 - 2 * (mine[start:stop] @ mine.T)  # squared distances of rows of unit length
        gap[np.arange(stop - start), np.arange(start, stop)] = np.inf  # a row is not its own neighbour
        nearest = np.partition(gap, count - 1, axis=1)[:, :count]
        mean[start:stop] = np.sqrt(np.maximum(nearest, 0.0)).mean(axis=1, dtype=np.float64)
    return int(places[np.argmin(mean)])


def cluster_order(labels: Array, kept: Array) -> list[Array]:
    """Return the rows not kept of each cluster, the clusters with fewest kept rows first, of those the largest.

    Small clusters are left out unless all are small; labels (n,), kept (n,) bool.
    """
    size = np.bincount(labels)
    taken = np.bincount(labels[kept], minlength=len(size))
    large = np.flatnonzero(size > SMALL)
    if not (size[large] > taken[large]).any():
        large = np.flatnonzero(size > 0)
    order = large[np.lexsort((large, -size[large], taken[large]))]
    groups = [np.flatnonzero((labels == one) & ~kept) for one in order]
    return [group for group in groups if len(group)]

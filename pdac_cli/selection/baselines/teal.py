"""TEAL (Shaul-Ariel and Weinshall 2024, arXiv 2407.00673): typical rows of clusters, for a list that grows in steps.

The list grows to ⌊1.4^t⌋ rows, t = 4, 5, …, and at last to the quota.  At each size the rows of unit length are
clustered into as many clusters, and the clusters with fewest kept rows, the largest first, give their most typical row
in turn.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.options.select import Allocation
from pdac_cli.selection.baselines.clusters import MOST_CLUSTERS, cluster, cluster_order, most_typical, rows_in_memory
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import Answer, Method, Picked, ProblemSize, ProgressSteps, Request, within_pools

GROWTH, FIRST = 1.4, 4  # the sizes are GROWTH^t from t = FIRST on
CROWDED = 0.2  # a share of the rows from which on there are fewer clusters than rows to keep,
FEWER = 5  # one for so many
_STEPS = 15  # of k-means, about


def teal(rows: Rows, request: Request) -> Answer:
    """Choose within each class; the classes take turns."""
    return within_pools(_pick, rows, request)


def sizes(quota: int) -> list[int]:
    """Return the sizes that the list grows to; the last is the quota."""
    found, t = list[int](), FIRST
    while int(GROWTH**t) < quota:
        found.append(int(GROWTH**t))
        t += 1
    return [*found, quota]


def _pick(pool: Pool, quota: int, request: Request) -> Picked:
    x, progress = rows_in_memory(pool, request.memory), ProgressSteps(request.tick, quota, quota)
    chosen, kept = list[int](), np.zeros(pool.count, bool)
    for size in sizes(quota):
        clusters = size if size / pool.count < CROWDED else max(1, size // FEWER)
        labels = cluster(x, min(clusters, MOST_CLUSTERS), request.seed, *pool.key)
        _grow(x, labels, chosen, kept, size, request.own.teal.neighbours, progress)
    return Picked(np.array(chosen))


def _grow(
    x: Array, labels: Array, chosen: list[int], kept: Array, size: int, neighbours: int, progress: ProgressSteps
) -> None:
    """Take rows from the clusters in turn until there are `size`."""
    while len(chosen) < size:
        for group in cluster_order(labels, kept)[: size - len(chosen)]:
            place = most_typical(x, group, neighbours)
            chosen.append(place)
            kept[place] = True
            progress.step()


def _work(size: ProblemSize) -> float:
    n, m = size.n / size.pools, size.m / size.pools
    clusters = min(m, MOST_CLUSTERS)
    return size.pools * n * size.n_features * (_STEPS * clusters * 3.5 + n)


TEAL = Method(teal, Allocation.BALANCED, Evict.ORDER, _work)

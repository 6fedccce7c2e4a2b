"""TypiClust (Hacohen et al. 2022, arXiv 2202.02794): the most typical row of the largest cluster not yet represented.

For every row kept, the rows of unit length are clustered anew into one cluster more than rows are kept so far; the next
row is the most typical one of the largest of the clusters with fewest kept rows.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.options.select import Allocation
from pdac_cli.selection.baselines.clusters import MOST_CLUSTERS, cluster, cluster_order, most_typical, rows_in_memory
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import Answer, Method, Picked, ProblemSize, ProgressSteps, Request, within_pools

_STEPS = 15  # of k-means, about


def typiclust(rows: Rows, request: Request) -> Answer:
    """Choose within each class; the classes take turns."""
    return within_pools(_pick, rows, request)


def _pick(pool: Pool, quota: int, request: Request) -> Picked:
    x, progress = rows_in_memory(pool, request.memory), ProgressSteps(request.tick, quota, quota)
    chosen, kept, labels = list[int](), np.zeros(pool.count, bool), np.zeros(0, np.int64)
    for i in range(quota):
        if i < MOST_CLUSTERS:
            labels = cluster(x, i + 1, request.seed, *pool.key)
        chosen.append(_next(x, labels, kept, request.own.typiclust.neighbours))
        kept[chosen[-1]] = True
        progress.step()
    return Picked(np.array(chosen))


def _next(x: Array, labels: Array, kept: Array, neighbours: int) -> int:
    """Return the row to keep next."""
    return most_typical(x, cluster_order(labels, kept)[0], neighbours)


def _work(size: ProblemSize) -> float:
    n, m = size.n / size.pools, size.m / size.pools
    clusters = min(m, MOST_CLUSTERS)
    return float(size.pools * n * size.n_features * (_STEPS * clusters**2 / 2 + n * (1 + np.log1p(m))))


TYPICLUST = Method(typiclust, Allocation.BALANCED, Evict.ORDER, _work, nested=True)

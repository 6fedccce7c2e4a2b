"""ProbCover (Yehuda et al. 2022, arXiv 2205.11320): a greedy cover of the rows by balls of one radius.

Rows are of unit length.  The radius δ is the largest at which a share of the balls (0.95) is pure: all rows nearer than
δ to the centre are of its cluster, by k-means into as many clusters as there are classes.  A ball is pure where the
nearest row of another cluster is not in it, so δ is a quantile of the distances to those.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.options.select import Allocation
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.selection.baselines.clusters import cluster
from pdac_cli.selection.baselines.cover import cover, cover_work, of_units
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import Answer, Method, Picked, ProblemSize, Request, blocks, within_pools

RADIUS_ROWS = 10_000  # that the radius is found from, at most; of more a part is drawn
_ITSELF = 1e-6  # a row is in its own ball, whatever is rounded


def probcover(rows: Rows, request: Request) -> Answer:
    """Find the radius from all rows, then cover each class by its own rows; the classes take turns."""
    with rows.pools(joint=True) as (pool,):
        radius = purest_radius(_sampled(pool), len(request.counts), request.own.probcover.purity)
    return within_pools(partial(_pick, radius=radius), rows, request)


def purest_radius(x: Array, clusters: int, purity: float) -> float:
    """Return the largest δ at which a share of the balls is pure: x (n, D) of unit length."""
    labels = cluster(x, min(max(clusters, 2), len(x)), 0)  # the same whatever the seed: the cover draws nothing
    nearest = np.full(len(x), 2.0)
    for start, stop in blocks(len(x)):
        for other, end in blocks(len(x)):
            gap = 2 - 2 * (x[start:stop] @ x[other:end].T)
            gap[labels[start:stop, None] == labels[None, other:end]] = 4.0
            np.minimum(nearest[start:stop], np.sqrt(np.maximum(gap.min(axis=1), 0)), out=nearest[start:stop])
    impure = math.floor((1 - purity) * len(x) + 1e-9)  # balls that may be
    return float(np.sort(nearest)[impure])


def within(products: Array, radius: float) -> Array:
    """Return 1 where rows of unit length are nearer than the radius, else 0, from their inner products."""
    return (products > min(1 - radius**2 / 2, 1 - _ITSELF)).astype(products.dtype)


def _sampled(pool: Pool) -> Array:
    """Return rows of unit length, all or those whose ids draw the smallest numbers: (n, D)."""
    noise = row_uniforms(0, Purpose.CANDIDATE, pool.ids)
    limit = np.partition(noise, RADIUS_ROWS)[RADIUS_ROWS] if pool.count > RADIUS_ROWS else np.inf
    parts = pool.map(lambda a, b: unit_rows(pool.read(a, b)[noise[a:b] < limit]))
    return np.concatenate(parts)


def _pick(pool: Pool, quota: int, request: Request, radius: float) -> Picked:
    return cover(pool, quota, request, of_units(partial(within, radius=radius)), again=True)


def _work(size: ProblemSize) -> float:
    return cover_work(size) + min(size.n, RADIUS_ROWS) ** 2 * size.n_features


PROBCOVER = Method(probcover, Allocation.BALANCED, Evict.ORDER, _work, random=False, nested=True)

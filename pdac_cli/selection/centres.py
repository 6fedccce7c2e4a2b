"""Methods by distance: k-center (farthest first) and k-means++ seeding, in O(n) memory beyond the rows.

Each step needs the distances of all rows to one: |h − c|² = |h|² − 2 h·c + |c|², one product n × D.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.options.select import Allocation
from pdac_cli.rng import Purpose, generator
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import Answer, Method, Picked, ProgressSteps, Request, product_a_row, within_pools


def kcenter(rows: Rows, request: Request) -> Answer:
    """Farthest-first from the first row: the greedy 2-approximation of the k-center problem (Gonzalez 1985)."""
    return within_pools(farthest_first, rows, request)


def kmeans(rows: Rows, request: Request) -> Answer:
    """k-means++ seeding (Arthur and Vassilvitskii 2007): the first row uniformly, then ∝ squared distance."""
    return within_pools(squared_distance_seeding, rows, request)


class Distances:
    """Squared Euclidean distances of every row of a pool to one of them.

    Rows are compared relative to their mean: without that, features far from the origin would lose their differences
    to rounding.  The product is in the features' own precision, everything else in float64.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.mean = np.sum(pool.map(lambda a, b: pool.read(a, b).sum(axis=0, dtype=np.float64)), axis=0) / pool.count
        self.norms = np.concatenate(pool.map(self._norms))  # (n,) |h − mean|²

    def _norms(self, start: int, stop: int) -> Array:
        centred = self.pool.read(start, stop) - self.mean
        norms: Array = np.einsum("nd,nd->n", centred, centred)
        return norms

    def to(self, place: int) -> Array:
        """Return |h − c|² of all rows, c the row at `place`: (n,)."""
        c = (self.pool.read(place, place + 1)[0] - self.mean).astype(self.pool.dtype)
        product = np.concatenate(self.pool.map(lambda a, b: self.pool.read(a, b) @ c))
        out = product.astype(np.float64)
        out -= self.mean @ c
        out *= -2
        out += self.norms
        out += self.norms[place]
        return np.maximum(out, 0.0, out=out)


def farthest_first(pool: Pool, quota: int, request: Request) -> Picked:
    """Return the first row, then again and again the row farthest from those chosen, the earliest of equals."""
    distances, progress = Distances(pool), ProgressSteps(request.tick, quota, quota)
    nearest = np.full(pool.count, np.inf)
    chosen = [0]
    for _ in range(quota - 1):
        np.minimum(nearest, distances.to(chosen[-1]), out=nearest)
        nearest[chosen[-1]] = -1.0  # never again, not even among duplicates
        chosen.append(int(np.argmax(nearest)))
        progress.step()
    progress.step()
    return Picked(np.array(chosen))


def squared_distance_seeding(pool: Pool, quota: int, request: Request) -> Picked:
    """Return a uniformly drawn row, then rows drawn ∝ squared distance to the nearest chosen one."""
    rng = generator(request.seed, Purpose.SEEDING, *pool.key)
    distances, progress = Distances(pool), ProgressSteps(request.tick, quota, quota)
    nearest, free = np.full(pool.count, np.inf), np.ones(pool.count, bool)
    place = int(rng.random() * pool.count)
    chosen = [place]
    for _ in range(quota - 1):
        np.minimum(nearest, distances.to(place), out=nearest)
        free[place] = False
        nearest[place] = 0.0
        # Where only duplicates of chosen rows are left, all of them are alike.
        weight = nearest if nearest.any() else free.astype(np.float64)
        total = np.cumsum(weight)
        place = int(np.searchsorted(total, rng.random() * total[-1], side="right"))
        place = min(place, int(np.flatnonzero(weight)[-1]))  # rounding may put the draw at the very end
        chosen.append(place)
        progress.step()
    progress.step()
    return Picked(np.array(chosen))


KCENTER = Method(kcenter, Allocation.JOINT, Evict.ORDER, product_a_row, random=False, nested=True)
KMEANS = Method(kmeans, Allocation.JOINT, Evict.ORDER, product_a_row, nested=True)

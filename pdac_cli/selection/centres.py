"""Methods by distance: k-center (farthest first) and k-means++ seeding, in O(n) memory beyond the rows.

Each step needs the distances of all rows to one: |h − c|² = |h|² − 2 h·c + |c|², one product n × D.

Follows `KmeansFeatureSpace` and `KcenterFeatureSpace` of `cl_streaming/summary.py` of Borsos et al.: seeding without
Lloyd's steps, and farthest first from the first row.  There "of Features" means raw inputs and "of Embeddings" the
penultimate features: `pdac train-cl --kmeans-of inputs` is the former.  Departs in nothing.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.options.select import Allocation
from pdac_cli.rng import Purpose, generator
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import (
    Answer,
    Best,
    Method,
    Picked,
    ProgressSteps,
    Request,
    largest,
    over_blocks,
    product_a_row,
    within_pools,
)


def kcenter(rows: Rows, request: Request) -> Answer:
    """Farthest-first from the first row: the greedy 2-approximation of the k-center problem (Gonzalez 1985)."""
    return within_pools(farthest_first, rows, request)


def kmeans(rows: Rows, request: Request) -> Answer:
    """k-means++ seeding (Arthur and Vassilvitskii 2007): the first row uniformly, then ∝ squared distance."""
    return within_pools(squared_distance_seeding, rows, request)


class Distances:
    """Squared Euclidean distances of rows of a pool (start to stop) to one of them.

    Rows are compared relative to their mean: without that, features far from the origin would lose their differences
    to rounding.  The product is in the features' own precision, everything else in float64.
    """

    def __init__(self, pool: Pool, mean: Array | None = None, start: int = 0, stop: int | None = None) -> None:
        self.pool, self.mean = pool, pool_mean(pool) if mean is None else mean
        self.start = start
        self.stop: int = pool.count if stop is None else stop
        self.norms = over_blocks(pool, start, self.stop, self._norms)  # |h − mean|²

    def _norms(self, start: int, stop: int) -> Array:
        centred = self.pool.read(start, stop) - self.mean
        norms: Array = np.einsum("nd,nd->n", centred, centred)
        return norms

    def to(self, place: int) -> Array:
        """Return |h − c|² of these rows, c the row of the pool at `place`: (n,)."""
        return self.to_row(self.pool.read(place, place + 1)[0])

    def to_row(self, row: Array) -> Array:
        """Return |h − c|² of these rows, c one of the pool: (D,) -> (n,)."""
        centred = row - self.mean
        norm = np.einsum("nd,nd->n", centred[None], centred[None])[0]
        c = centred.astype(self.pool.dtype)
        product = over_blocks(self.pool, self.start, self.stop, lambda a, b: self.pool.read(a, b) @ c)
        out = product.astype(np.float64)
        out -= self.mean @ c
        out *= -2
        out += self.norms
        out += norm
        return np.maximum(out, 0.0, out=out)


def pool_mean(pool: Pool) -> Array:
    """Return the mean of all rows, (D,), in float64."""
    mean: Array = np.sum(pool.map(partial(_block_sum, pool)), axis=0) / pool.count
    return mean


def _block_sum(pool: Pool, start: int, stop: int) -> Array:
    total: Array = pool.read(start, stop).sum(axis=0, dtype=np.float64)
    return total


def farthest_first(pool: Pool, quota: int, request: Request) -> Picked:
    """Return the first row, then again and again the row farthest from those chosen, the earliest of equals."""
    progress, chosen = ProgressSteps(request.tick, quota, quota), [0]
    followers, row = pool.follow(partial(_Nearest, pool_mean(pool))), pool.read(0, 1)[0]
    for _ in range(quota - 1):
        best = largest(followers.step((chosen[-1], row)))
        row = best.row
        chosen.append(best.place)
        progress.step()
    progress.step()
    return Picked(np.array(chosen))


class _Nearest:
    """Some rows of a pool and how far each is from the nearest chosen one; see `arrays.Follower`."""

    def __init__(self, mean: Array, pool: Pool, start: int, stop: int) -> None:
        self._pool, self._start, self._stop = pool, start, stop
        self._distances = Distances(pool, mean, start, stop)
        self._nearest = np.full(stop - start, np.inf)

    def take(self, step: tuple[int, Array]) -> None:
        """Take in a row that was chosen."""
        place, row = step
        np.minimum(self._nearest, self._distances.to_row(row), out=self._nearest)
        if self._start <= place < self._stop:
            self._nearest[place - self._start] = -1.0  # never again, not even among duplicates

    def answer(self) -> Best:
        """Return the farthest of these rows."""
        at = int(np.argmax(self._nearest))
        place = self._start + at
        return Best(float(self._nearest[at]), place, self._pool.read(place, place + 1)[0])


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


KCENTER = Method(kcenter, Allocation.JOINT, Evict.ORDER, product_a_row, random=False, nested=True, distributed=True)
KMEANS = Method(kmeans, Allocation.JOINT, Evict.ORDER, product_a_row, nested=True, takes_inputs=True)

"""k-medoids: the rows to which all rows have the least total distance, by BUILD and swaps.

BUILD (Kaufman and Rousseeuw 1990) takes row after row, each time the one that lowers the total Euclidean distance most.
Then kept rows are swapped for others as long as that lowers it, every row being tried against all kept ones at once
(FasterPAM, Schubert and Rousseeuw 2021).  A row that comes in takes the place in the list of the one it replaces.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.errors import UsageError
from pdac_cli.options.select import Allocation
from pdac_cli.selection.baselines.cover import Similarities, cover, cover_work
from pdac_cli.selection.centres import Distances
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import Answer, Method, Picked, ProblemSize, Request, within_pools

PASSES = 10  # over all rows, at most; most often the third finds nothing more to swap
_TRIED = 64  # rows whose distances are computed together
_WORTH = 1e-6  # of the total distance: less is rounding


def kmedoids(rows: Rows, request: Request) -> Answer:
    """Find the medoids of each class; the classes take turns."""
    return within_pools(_pick, rows, request)


def _pick(pool: Pool, quota: int, request: Request) -> Picked:
    need = 16 * pool.count * quota
    if need > request.memory:
        raise UsageError(
            f"k-medoids holds the distances of {pool.count:,} rows to {quota:,} medoids, {need:,} bytes, and --memory "
            f"is {request.memory:,}; expected room for them; raise --memory, lower --budget or use --method facility"
        )
    centred = Distances(pool)
    reach = 2 * float(np.sqrt(centred.norms.max()))  # no two rows are farther apart
    similarity = _nearness(centred.mean, reach)
    built = cover(pool, quota, request, similarity).places
    if quota in (1, pool.count):
        return Picked(built)
    near = Similarities(pool, similarity)
    return Picked(swapped(lambda places: np.maximum(reach - near.of(places), 0.0), built, pool.count))


def _nearness(mean: Array, reach: float) -> Callable[[Array, Array], Array]:
    """Return how much nearer than `reach` rows are to others, both relative to the mean, for the sake of rounding."""

    def nearness(rows: Array, others: Array) -> Array:
        a, b = (rows - mean).astype(rows.dtype), (others - mean).astype(rows.dtype)
        squares = [np.einsum("nd,nd->n", x, x, dtype=np.float64) for x in (a, b)]
        gap = squares[0][:, None] + squares[1] - 2 * (a @ b.T)
        found: Array = np.maximum(reach - np.sqrt(np.maximum(gap, 0.0)), 0.0)
        return found

    return nearness


def swapped(distances: Callable[[Array], Array], start: Array, count: int) -> Array:
    """Return the medoids after all swaps that lower the total distance: distances (k,) -> (k, n), start (k,)."""
    medoids, to_medoids = start.copy(), distances(start)
    state = _Nearest(to_medoids)
    for _ in range(PASSES):
        changed = False
        for at in range(0, count, _TRIED):
            places = np.arange(at, min(at + _TRIED, count))
            for place, d in zip(places, distances(places), strict=True):
                change = state.changes(d)
                out = int(np.argmin(change))
                if change[out] < -_WORTH * state.total and place not in medoids:
                    medoids[out], to_medoids[out], changed = place, d, True
                    state = _Nearest(to_medoids)
        if not changed:
            break
    return medoids


class _Nearest:
    """The nearest and the second nearest medoid of every row."""

    def __init__(self, to_medoids: Array) -> None:
        self.count, columns = len(to_medoids), np.arange(to_medoids.shape[1])
        both = np.argpartition(to_medoids, 1, axis=0)[:2]
        self.own = both[0]  # (n,)
        self.first, self.second = to_medoids[both[0], columns], to_medoids[both[1], columns]  # (n,)
        self.total = float(self.first.sum())
        self.loss = np.bincount(self.own, self.second - self.first, self.count)  # (k,) if a medoid goes

    def changes(self, d: Array) -> Array:
        """Return how the total changes if a row of distances d (n,) takes the place of each medoid: (k,)."""
        nearer = d < self.first
        spared = np.where(nearer, self.first - self.second, np.minimum(d - self.second, 0.0))
        changes: Array = self.loss + np.bincount(self.own, spared, self.count)
        changes += np.minimum(d - self.first, 0.0).sum()
        return changes


def _work(size: ProblemSize) -> float:
    n = size.n / size.pools
    return 3 * cover_work(size) + 3 * size.n * n * 20


KMEDOIDS = Method(kmedoids, Allocation.BALANCED, Evict.ORDER, _work, random=False)

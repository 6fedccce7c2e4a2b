"""Rows that cover the others: the greedy maximum of Σ_j max_{i kept} s_ij, found lazily and exactly.

s_ij ≥ 0 is how well row i stands for row j.  One more row i gains Σ_j max(0, s_ij − c_j), c_j being how well j is
covered already, and no gain ever grows as rows are kept.  So a gain of an earlier step bounds that of this one, and
only rows whose bound is the largest are looked at again (Minoux 1978): the same rows as by looking at all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pdac_cli.arrays import Array, Pool
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.selection.interface import Picked, ProblemSize, ProgressSteps, Request, gather

_HELD = 4096  # rows of a pool up to which all similarities are held: 64 MB
_LOOKED_AT = 32  # rows whose gains are computed together, and
_AT_FIRST = 256  # before any row is kept


Similarity = Callable[[Array, Array], Array]  # rows (k, D) and other rows (n, D) -> how well those stand for these


def of_units(similarity: Callable[[Array], Array]) -> Similarity:
    """Return a similarity made of the inner products of rows of unit length, entry by entry."""
    return lambda rows, others: similarity(unit_rows(rows) @ unit_rows(others).T)


class Similarities:
    """How well rows of a pool stand for all of its rows."""

    def __init__(self, pool: Pool, similarity: Similarity) -> None:
        self.pool, self.similarity = pool, similarity
        self.held: Array | None = None  # (n, n)
        if pool.count <= _HELD:
            every = np.arange(pool.count)
            parts = [self._computed(every[at : at + _AT_FIRST]) for at in range(0, pool.count, _AT_FIRST)]
            self.held = np.concatenate(parts)

    def of(self, places: Array) -> Array:
        """Return the similarities of some rows to all: (k,) -> (k, n)."""
        return self._computed(places) if self.held is None else self.held[places]

    def _computed(self, places: Array) -> Array:
        rows = gather(self.pool.read, places)
        return np.concatenate(self.pool.map(lambda a, b: self.similarity(rows, self.pool.read(a, b))), axis=1)


def cover(pool: Pool, quota: int, request: Request, similarity: Similarity, again: bool = False) -> Picked:
    """Return rows one by one, each the one of largest gain, the earliest of equals.

    Similarities are 0 or more.  `again`: once nothing is left to gain, the cover begins anew among the rows not kept.
    """
    similarities, progress = Similarities(pool, similarity), ProgressSteps(request.tick, quota, quota)
    covered = np.zeros(pool.count, pool.dtype)
    every = np.arange(pool.count)
    alone = np.concatenate(  # (n,) the gain of each row as the first
        [_gains(similarities, covered, every[at : at + _AT_FIRST]) for at in range(0, pool.count, _AT_FIRST)]
    )
    bound, chosen = alone.copy(), list[int]()
    known = np.ones(pool.count, bool)  # whether a bound is the gain itself
    while len(chosen) < quota:
        place = int(np.argmax(bound))
        if not known[place]:
            stale = np.where(known, -np.inf, bound)
            some = np.argpartition(-stale, min(_LOOKED_AT, pool.count) - 1)[:_LOOKED_AT]
            some = np.sort(some[np.isfinite(stale[some])])
            bound[some], known[some] = _gains(similarities, covered, some), True
            continue
        if again and bound[place] <= 0 and covered.any():
            covered[:] = 0
            bound = alone.copy()
            bound[chosen], known[:] = -np.inf, True
            continue
        chosen.append(place)
        covered = np.maximum(covered, similarities.of(np.array([place]))[0])
        bound[place], known[:] = -np.inf, False
        progress.step()
    return Picked(np.array(chosen))


def _gains(similarities: Similarities, covered: Array, places: Array) -> Array:
    """Return Σ_j max(0, s_ij − c_j) of some rows: (k,) -> (k,)."""
    missing = similarities.of(places) - covered
    gains: Array = np.maximum(missing, 0, out=missing).sum(axis=1, dtype=np.float64)
    return gains


def cover_work(size: ProblemSize) -> float:
    """Return the work of all similarities once, and of some again for every row kept."""
    n = size.n / size.pools
    return size.n * n * size.n_features + size.m * n * (size.n_features if n > _HELD else 1) * _LOOKED_AT

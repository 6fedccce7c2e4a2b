"""Herding (Welling 2009, as in iCaRL, Rebuffi et al. 2017): chosen rows whose running mean stays near the mean.

Follows algorithm 4 of iCaRL and `ICaRLSelection` of `cl_streaming/summary.py`, the code by which the bilevel coresets
compare it: rows of unit length, the nearest running mean, classes in turn.  Departs in nothing but the order of ties.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.options.select import Allocation
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


def herding(rows: Rows, request: Request) -> Answer:
    """Herd within each class; the classes take turns."""
    return within_pools(herd, rows, request)


def herd(pool: Pool, quota: int, request: Request) -> Picked:
    """Return rows one by one, each the argmin of ‖μ − (S + h)/(i + 1)‖ over the rows not chosen yet.

    h are the rows divided by their length, μ their mean, S the sum of the i rows chosen.  Multiplied out, the argmin is
    that of |h|² − 2 h·((i + 1)μ − S): one product n × D a step.
    """
    mean = np.sum(pool.map(partial(_sum_of_units, pool)), axis=0) / pool.count
    total, progress = np.zeros(pool.n_features), ProgressSteps(request.tick, quota, quota)
    followers, chosen = pool.follow(_Herded), list[int]()
    for i in range(quota):
        towards = ((i + 1) * mean - total).astype(pool.dtype)
        best = largest(followers.step((chosen[-1] if chosen else None, towards)))
        chosen.append(best.place)
        total += best.row
        progress.step()
    return Picked(np.array(chosen))


class _Herded:
    """Some rows of a pool while it is herded; see `arrays.Follower`."""

    def __init__(self, pool: Pool, start: int, stop: int) -> None:
        self._pool, self._start, self._stop = pool, start, stop
        self._inverse = over_blocks(pool, start, stop, lambda a, b: _inverse_lengths(pool.read(a, b)))
        self._squares = (self._inverse > 0).astype(np.float64)  # |h|²
        self._chosen: list[int] = []
        self._towards: Array = np.empty(0)

    def take(self, step: tuple[int | None, Array]) -> None:
        """Take in which row was chosen last, and where the next one should lead."""
        place, self._towards = step
        if place is not None and self._start <= place < self._stop:
            self._chosen.append(place - self._start)

    def answer(self) -> Best:
        """Return the best of these rows, divided by its length."""
        product = over_blocks(self._pool, self._start, self._stop, lambda a, b: self._pool.read(a, b) @ self._towards)
        gain = 2 * self._inverse * product - self._squares
        gain[self._chosen] = -np.inf
        at = int(np.argmax(gain))
        place = self._start + at
        return Best(float(gain[at]), place, self._inverse[at] * self._pool.read(place, place + 1)[0])


def _sum_of_units(pool: Pool, start: int, stop: int) -> Array:
    h = pool.read(start, stop)
    total: Array = _inverse_lengths(h) @ h.astype(np.float64)
    return total


def _inverse_lengths(h: Array) -> Array:
    length: Array = np.sqrt(np.einsum("nd,nd->n", h, h, dtype=np.float64))
    return np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)


HERDING = Method(herding, Allocation.BALANCED, Evict.ORDER, product_a_row, random=False, nested=True, distributed=True)

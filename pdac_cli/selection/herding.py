"""Herding (Welling 2009, as in iCaRL, Rebuffi et al. 2017): chosen rows whose running mean stays near the mean."""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.options.select import Allocation
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import Answer, Method, Picked, ProgressSteps, Request, product_a_row, within_pools


def herding(rows: Rows, request: Request) -> Answer:
    """Herd within each class; the classes take turns."""
    return within_pools(herd, rows, request)


def herd(pool: Pool, quota: int, request: Request) -> Picked:
    """Return rows one by one, each the argmin of ‖μ − (S + h)/(i + 1)‖ over the rows not chosen yet.

    h are the rows divided by their length, μ their mean, S the sum of the i rows chosen.  Multiplied out, the argmin is
    that of |h|² − 2 h·((i + 1)μ − S): one product n × D a step.
    """
    inverse = np.concatenate(pool.map(lambda a, b: _inverse_lengths(pool.read(a, b))))  # (n,) 0 for a row of zeros
    squares = (inverse > 0).astype(np.float64)  # |h|²
    mean = np.sum(pool.map(lambda a, b: inverse[a:b] @ pool.read(a, b).astype(np.float64)), axis=0) / pool.count
    total, progress = np.zeros(pool.n_features), ProgressSteps(request.tick, quota, quota)
    chosen: list[int] = []
    for i in range(quota):
        towards = ((i + 1) * mean - total).astype(pool.dtype)
        gain = 2 * inverse * _product(pool, towards) - squares
        gain[chosen] = -np.inf
        place = int(np.argmax(gain))
        chosen.append(place)
        total += inverse[place] * pool.read(place, place + 1)[0]
        progress.step()
    return Picked(np.array(chosen))


def _product(pool: Pool, v: Array) -> Array:
    return np.concatenate(pool.map(lambda a, b: pool.read(a, b) @ v))


def _inverse_lengths(h: Array) -> Array:
    length: Array = np.sqrt(np.einsum("nd,nd->n", h, h, dtype=np.float64))
    return np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)


HERDING = Method(herding, Allocation.BALANCED, Evict.ORDER, product_a_row, random=False, nested=True)

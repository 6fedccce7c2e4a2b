"""MaxHerding (Bae et al. 2024, arXiv 2407.12212): the greedy maximum of a smooth coverage.

k(x, y) = exp(−|x − y|²/h²) on rows of unit length says how well one row stands for another.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.options.select import Allocation
from pdac_cli.selection.baselines.cover import cover, cover_work, of_units
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import Answer, Method, Picked, Request, within_pools


def maxherding(rows: Rows, request: Request) -> Answer:
    """Cover each class by its own rows; the classes take turns."""
    return within_pools(_pick, rows, request)


def _pick(pool: Pool, quota: int, request: Request) -> Picked:
    return cover(pool, quota, request, of_units(partial(kernel, bandwidth=request.own.maxherding.bandwidth)))


def kernel(products: Array, bandwidth: float) -> Array:
    """Return exp(−|x − y|²/h²) from the inner products of rows of unit length: |x − y|² = 2 − 2 x·y."""
    found: Array = np.exp((products - 1) * products.dtype.type(2 / bandwidth**2))
    return found


MAXHERDING = Method(maxherding, Allocation.BALANCED, Evict.ORDER, cover_work, random=False, nested=True)

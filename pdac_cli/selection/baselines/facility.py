"""Facility location on cosine similarity, by lazy greedy: every row is served by the kept row most like it.

The greedy choice comes to 1 − 1/e of the best (Nemhauser, Wolsey and Fisher 1978).  Rows that point away from each
other serve each other not at all: a negative cosine counts as 0.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.options.select import Allocation
from pdac_cli.selection.baselines.cover import cover, cover_work, of_units
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import Answer, Method, Picked, Request, within_pools


def facility(rows: Rows, request: Request) -> Answer:
    """Serve each class by its own rows; the classes take turns."""
    return within_pools(_pick, rows, request)


def _pick(pool: Pool, quota: int, request: Request) -> Picked:
    return cover(pool, quota, request, of_units(cosine))


def cosine(products: Array) -> Array:
    """Return the cosine of rows of unit length, 0 where it is negative."""
    return np.maximum(products, 0)


FACILITY = Method(facility, Allocation.BALANCED, Evict.ORDER, cover_work, random=False, nested=True)

"""How many rows each task and each class may keep: whole numbers that always add up, Eq. (12)."""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.options.select import Allocation


def apportion(total: int, shares: Array, caps: Array) -> Array:
    """Return whole numbers in proportion to `shares`, none above its cap, that add up to min(total, Σ caps).

    Largest remainder, ties to the earlier place; what a capped place cannot take goes to the others in proportion.
    Whole-number arithmetic throughout: shares (n,), caps (n,) -> (n,).
    """
    out = np.zeros(len(shares), np.int64)
    open_places = [i for i in range(len(shares)) if shares[i] > 0 and caps[i] > 0]
    left = min(total, sum(int(caps[i]) for i in open_places))
    while open_places:
        weight = sum(int(shares[i]) for i in open_places)
        full = [i for i in open_places if left * int(shares[i]) >= int(caps[i]) * weight]
        if not full:
            break
        for i in full:
            out[i] = caps[i]
            left -= int(caps[i])
        open_places = [i for i in open_places if out[i] == 0]
    if not open_places:
        return out
    quotas = {i: divmod(left * int(shares[i]), weight) for i in open_places}
    for i, (whole, _) in quotas.items():
        out[i] = whole
    spare = left - sum(whole for whole, _ in quotas.values())
    for i in sorted(open_places, key=lambda i: (-quotas[i][1], i))[:spare]:
        out[i] += 1
    return out


def task_budgets(total: int, available: Array) -> Array:
    """Return N_{t,j} of each seen task, Eq. (12): N/t each, what a small task leaves goes to the others.

    `available` (t,) is what each task can give: the rows stored of earlier tasks, all rows of the newest.
    """
    return apportion(total, np.ones(len(available), np.int64), available)


def class_budgets(total: int, counts: Array, allocation: Allocation) -> Array:
    """Return how many rows of each class to keep: counts (C,) -> (C,), in proportion to them or the same for all."""
    shares = np.ones(len(counts), np.int64) if allocation is Allocation.BALANCED else np.asarray(counts)
    return apportion(total, shares, counts)


def turns(quotas: Array) -> Array:
    """Return which pool's turn each place of a joint list is, every beginning with the pools in proportion: (m,)."""
    pools = np.repeat(np.arange(len(quotas)), quotas)
    where = np.concatenate([places(quota) for quota in quotas if quota])
    return pools[np.lexsort((pools, where))]


def places(quota: int) -> Array:
    """Return where the rows of a pool stand in a joint list, between 0 and 1, evenly: (quota,)."""
    return (np.arange(quota) + 0.5) / quota

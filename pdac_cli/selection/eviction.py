"""Which stored rows an earlier task gives up when a new one comes, Eq. (11)."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.options.select import Allocation, Eviction
from pdac_cli.rng import Purpose, row_gumbels
from pdac_cli.selection.budget import class_budgets


class Evict(StrEnum):
    """By what a method's stored rows are evicted."""

    DENSITY = "density"  # probability falling in the density, Eq. (11), or by the steered draw, Eq. (25)
    SCORE = "score"  # the same with the method's own score in the density's place
    ORDER = "order"  # the beginning of the list stays
    RANDOM = "random"


def log_weights(log_p: Array, rule: Eviction) -> Array:
    """Return the log of the weight with which each row of a pool is given up, −∞ for never: log_p (n,) -> (n,)."""
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        if rule is Eviction.INVERSE:
            return -log_p
        reference = 0.0 if rule is Eviction.PAPER else log_p.max(initial=-np.inf)
        weights: Array = np.log(-np.expm1(np.minimum(log_p - reference, 0.0)))
        return weights


def keep_after_eviction(
    rows: Array,
    labels: Array,
    log_p: Array,
    keep: int,
    *,
    rule: Eviction,
    allocation: Allocation,
    seed: int,
    key: tuple[int, ...],
) -> Array:
    """Return the positions, in order, of the `keep` rows of one earlier task that stay.

    Rows are drawn for removal without replacement (Gumbel-top-k); those of weight 0 go only when no others are left.
    Under joint allocation the task's rows are one pool, as in the paper; otherwise each class gives up its share.
    Where the method has no density (NaN), rows are removed uniformly.  rows, labels, log_p: (n,); `key` makes the
    noise this eviction's own.
    """
    noise = row_gumbels(seed, Purpose.EVICT, rows, *key)
    pools = np.zeros(len(rows), np.int64) if allocation is Allocation.JOINT else labels
    _, pool, sizes = np.unique(pools, return_inverse=True, return_counts=True)
    quota = class_budgets(keep, sizes, allocation)
    stay = []
    for p, k in enumerate(quota):
        members = np.flatnonzero(pool == p)
        log_w = np.where(np.isnan(log_p[members]), 0.0, log_weights(log_p[members], rule))
        never = np.isneginf(log_w)
        removal = np.lexsort((-noise[members], -np.where(never, 0.0, log_w + noise[members]), never))
        stay.append(members[removal[len(members) - k :]])
    return np.sort(np.concatenate(stay))


def keep_beginning(labels: Array, keep: int, allocation: Allocation) -> Array:
    """Return the positions, in order, of the rows of one earlier task that stay: the first of its list.

    labels (n,) in the order of the ranking; unless allocation is joint, the first of each class's list.
    """
    pools = np.zeros(len(labels), np.int64) if allocation is Allocation.JOINT else labels
    _, pool, sizes = np.unique(pools, return_inverse=True, return_counts=True)
    quota = class_budgets(keep, sizes, allocation)
    stay = [np.flatnonzero(pool == p)[:k] for p, k in enumerate(quota)]
    return np.sort(np.concatenate(stay))

"""Euclidean projections onto the sets that the bilevel methods keep their weights in."""

from __future__ import annotations

import numpy as np

from pdac_cli.selection.budget import Array

_HALVINGS = 100  # of an interval of doubles: more would change nothing


def onto_simplex(v: Array) -> Array:
    """Return the nearest w ≥ 0 with Σ w = 1 (Held, Wolfe and Crowder 1974): (n,) -> (n,)."""
    descending = np.sort(v)[::-1]
    excess = np.cumsum(descending) - 1
    last = np.flatnonzero(descending * np.arange(1, len(v) + 1) > excess)[-1]
    w: Array = np.maximum(v - excess[last] / (last + 1), 0.0)
    return w


def onto_capped_box(v: Array, total: float) -> Array:
    """Return the nearest 0 ≤ s ≤ 1 with Σ s ≤ total, by bisection of what is taken off every entry: (n,) -> (n,)."""
    clipped = np.clip(v, 0.0, 1.0)
    if clipped.sum() <= total:
        return clipped
    low, high = 0.0, float(v.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if np.clip(v - middle, 0.0, 1.0).sum() > total:
            low = middle
        else:
            high = middle
    return np.clip(v - high, 0.0, 1.0)

"""CSReL (Tong et al. 2025): rows whose loss training on them can reduce, on a linear head.

A head trained on all rows says what loss a row has in the end, which is large for ambiguous and mislabelled rows.
Beside it a head is trained on the rows kept so far, and the rows enter whose loss it has most in excess of that.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Rows
from pdac_cli.options.select import Allocation
from pdac_cli.selection.baselines.linear import ScaledRows, cross_entropy, probabilities
from pdac_cli.selection.baselines.pbcs import train
from pdac_cli.selection.budget import turns
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import (
    NARROW_COST,
    Answer,
    Method,
    Picked,
    ProblemSize,
    ProgressSteps,
    Request,
    ranked,
)

REFERENCE_STEPS = 200  # of the head on all rows


def csrel(rows: Rows, request: Request) -> Answer:
    """Choose in rounds; the classes take turns, or compete under joint allocation."""
    with rows.pools(joint=True) as (pool,):
        scaled = ScaledRows(pool, len(request.counts), request.memory)
        return ranked(pool, Picked(chosen(scaled, request)))


def chosen(rows: ScaledRows, request: Request) -> Array:
    """Return the places of the rows kept, in order: (m,)."""
    turn = np.zeros(min(request.budget, rows.count), np.int64) if request.joint else turns(request.quotas())
    pools = request.pools(rows.y)
    size = -(-len(turn) // request.own.csrel.rounds)  # rows a round
    progress = ProgressSteps(request.tick, len(turn), -(-len(turn) // size))
    least = _losses(rows, head_on_all(rows))
    found, free = list[int](), np.ones(rows.count, bool)
    for at in range(0, len(turn), size):
        excess = np.where(free, _losses(rows, train(rows, np.array(found, np.int64))) - least, -np.inf)
        wanted = np.bincount(turn[at : at + size], minlength=int(turn.max()) + 1)
        best = {int(p): _largest(excess, pools == p, int(k)) for p, k in enumerate(wanted) if k}
        for pool in turn[at : at + size].tolist():
            found.append(best[pool].pop(0))
            free[found[-1]] = False
        progress.step()
    return np.array(found)


def _largest(excess: Array, mine: Array, count: int) -> list[int]:
    """Return the places of the largest, the earliest of equals."""
    order = np.argsort(-np.where(mine, excess, -np.inf), kind="stable")
    return [int(place) for place in order[:count]]


def _losses(rows: ScaledRows, theta: Array) -> Array:
    """Return the cross-entropy of all rows under a head (K, D + 1): (n,)."""
    return np.concatenate(rows.map(lambda x, a, b: cross_entropy(probabilities(x, theta), rows.y[a:b])))


def head_on_all(rows: ScaledRows) -> Array:
    """Return a head trained on all rows by accelerated gradient descent: (K, D + 1)."""
    w = np.full(rows.count, 1 / rows.count)
    theta = ahead = np.zeros((rows.classes, rows.width))
    step = 2 / float(w @ rows.squares)
    for k in range(REFERENCE_STEPS):
        new = ahead - step * rows.gradient(ahead, w)
        ahead, theta = new + k / (k + 3) * (new - theta), new
    return theta


def _work(size: ProblemSize) -> float:
    rounds = min(size.m, 200)
    return (2 * REFERENCE_STEPS + rounds) * size.n * size.n_features * size.n_logits * NARROW_COST


CSREL = Method(csrel, Allocation.BALANCED, Evict.ORDER, _work, random=False, needs_classes=True)

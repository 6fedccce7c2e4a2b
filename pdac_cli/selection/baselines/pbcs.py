"""Probabilistic Bilevel Coreset Selection (Zhou et al. 2022), on a linear head.

Every row has a probability s_i of being kept.  Subsets are drawn, a head is trained on each, and its loss on all rows
moves the probabilities by the score-function estimate of the gradient: no derivative of the training is needed.

Follows algorithm 1 of the paper and the published code: five masks a step, Adam of 0.05 falling by a cosine, clipped
at 3, projection by bisection.  Departs: a linear head of the features stands for the network, trained by 30 accelerated
steps; 100 outer steps; the answer is the m largest probabilities, for a draw would miss the budget.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Rows
from pdac_cli.options.select import Allocation
from pdac_cli.rng import Purpose, generator
from pdac_cli.selection.baselines.linear import ScaledRows, gradient, onto_capped_box
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import NARROW_COST, Answer, Method, ProblemSize, ProgressSteps, Request, best_of_pool

OUTER, MASKS, INNER = 100, 5, 30  # steps of the probabilities, subsets a step, training steps of a head
RATE, CLIP = 0.05, 3.0  # of Adam, falling to 0 along a cosine; the longest gradient
_FLOOR = 1e-6  # keeps s(1 − s) above 0


def pbcs(rows: Rows, request: Request) -> Answer:
    """Find the probabilities and keep the largest."""
    with rows.pools(joint=True) as (pool,):
        s = probabilities_of_rows(ScaledRows(pool, len(request.counts), request.memory), request)
        return best_of_pool(pool, s, s, request)


def probabilities_of_rows(rows: ScaledRows, request: Request) -> Array:
    """Return s: (n,)."""
    n, m = rows.count, min(request.budget, rows.count)
    rng, progress = generator(request.seed, Purpose.MASK), ProgressSteps(request.tick, m, OUTER)
    s, first, second = np.full(n, m / n), np.zeros(n), np.zeros(n)
    for t in range(1, OUTER + 1):
        masks = rng.random((MASKS, n)) < s
        heads = np.stack([train(rows, np.flatnonzero(mask)) for mask in masks])
        slope = estimate(s, masks, rows.losses(heads))
        slope *= min(1.0, CLIP / max(float(np.linalg.norm(slope)), 1e-300))
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        move = first / (1 - 0.9**t) / (np.sqrt(second / (1 - 0.999**t)) + 1e-8)
        rate = RATE * 0.5 * (1 + np.cos(np.pi * (t - 1) / OUTER))
        s = onto_capped_box(s - rate * move, m)
        progress.step()
    return s


def estimate(s: Array, masks: Array, losses: Array) -> Array:
    """Return 1/(J − 1) Σ_j (L_j − L̄)(mask_j − s)/(s(1 − s)), which is ∇ E L(mask) on average: (J, n), (J,) -> (n,)."""
    inside = np.clip(s, _FLOOR, 1 - _FLOOR)
    score = (masks - s) / (inside * (1 - inside))
    slope: Array = (losses - losses.mean()) @ score / (len(losses) - 1)
    return slope


def train(rows: ScaledRows, places: Array) -> Array:
    """Return a head trained on some rows from zero by accelerated gradient descent: (K, D + 1)."""
    theta = np.zeros((rows.classes, rows.width))
    if len(places) == 0:
        return theta
    x, y, w = rows.take(places), rows.y[places], np.full(len(places), 1 / len(places))
    step = 2 / float(w @ rows.squares[places])
    ahead = theta
    for k in range(INNER):  # Nesterov's method
        new = ahead - step * gradient(x, y, w, ahead)
        ahead = new + k / (k + 3) * (new - theta)
        theta = new
    return theta


def _work(size: ProblemSize) -> float:
    return OUTER * MASKS * (2 * INNER * size.m + size.n) * size.n_features * size.n_logits * NARROW_COST


PBCS = Method(pbcs, Allocation.JOINT, Evict.SCORE, _work, needs_classes=True)

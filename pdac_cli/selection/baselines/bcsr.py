"""Bilevel Coreset Selection with Regularisation (Hao et al. 2023), on a linear head.

Weights w on the simplex weigh the rows' losses in the inner problem; they move against the gradient of the head's loss
on all rows, less λ times a smoothed sum of their largest entries, which draws them to a coreset of that size.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Rows
from pdac_cli.options.select import Allocation
from pdac_cli.rng import Purpose, generator, row_gumbels
from pdac_cli.selection.baselines.linear import ScaledRows, onto_simplex
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import NARROW_COST, Answer, Method, ProblemSize, ProgressSteps, Request, best_of_pool

OUTER, INNER, TERMS = 50, 5, 3  # steps of the weights, of the head between them, of the Neumann series
RATE = 0.5  # of a weight's step: in units of 1/n, for a gradient of unit deviation
LAMBDA, DRAWS = 0.1, 16  # the regulariser's weight, and the normal draws it is smoothed by


def bcsr(rows: Rows, request: Request) -> Answer:
    """Find the weights, then draw rows ∝ w without replacement; where too few are not 0, any others fill up."""
    with rows.pools(joint=True) as (pool,):
        w = weights(ScaledRows(pool, len(request.counts), request.memory), request)
        noise = row_gumbels(request.seed, Purpose.DRAW, pool.ids)
        with np.errstate(divide="ignore"):
            key = np.where(w > 0, np.log(w), -1e6) + noise
        return best_of_pool(pool, key, w, request)


def weights(rows: ScaledRows, request: Request) -> Array:
    """Return the weights of all rows: (n,)."""
    n, m = rows.count, min(request.budget, rows.count)
    progress = ProgressSteps(request.tick, m, OUTER)
    rng = generator(request.seed, Purpose.SMOOTH)
    w, theta = np.full(n, 1 / n), np.zeros((rows.classes, rows.width))
    for _ in range(OUTER):
        step = stable_step(w, rows.squares)
        for _ in range(INNER):
            theta = theta - step * rows.gradient(theta, w)
        slope = hypergradient(rows, theta, w, step, TERMS)
        slope -= LAMBDA * top_share(w, m, rng.standard_normal((DRAWS, n)) / n)
        slope -= slope.mean()  # which the projection would take off
        deviation = np.sqrt(np.mean(slope**2))
        w = onto_simplex(w - RATE / n * slope / deviation) if deviation > 0 else w
        progress.step()
    return w


def stable_step(w: Array, squares: Array) -> float:
    """Return a step of descent on Σ w_i loss_i that cannot overshoot: the Hessian is at most ½ Σ w_i |x_i|²."""
    return float(2 / (w @ squares))


def hypergradient(rows: ScaledRows, theta: Array, w: Array, step: float, terms: int) -> Array:
    """Return d(mean loss of all rows)/dw_i = −⟨g_i, H⁻¹∇⟩ with H⁻¹ ≈ step Σ_{q<terms} (I − step H)^q: (n,)."""
    term = rows.gradient(theta, np.full(rows.count, 1 / rows.count))
    total = term.copy()
    for _ in range(terms - 1):
        term = term - step * rows.hessian_product(theta, w, term)
        total += term
    return -step * rows.along(theta, total)


def top_share(w: Array, k: int, noise: Array) -> Array:
    """Return the gradient of the smoothed sum of the k largest weights: how often each is among them: (n,).

    The sum is averaged over w + noise, noise (draws, n).
    """
    share = np.zeros(len(w))
    for shift in noise:
        share[np.argpartition(-(w + shift), k - 1)[:k]] += 1
    return share / len(noise)


def _work(size: ProblemSize) -> float:
    return OUTER * 20 * size.n * size.n_features * size.n_logits * NARROW_COST


BCSR = Method(bcsr, Allocation.JOINT, Evict.SCORE, _work)

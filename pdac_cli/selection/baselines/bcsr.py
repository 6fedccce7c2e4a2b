"""Bilevel Coreset Selection with Regularisation (Hao et al. 2023), on a linear head.

Weights w on the simplex weigh the rows' losses in the inner problem; they move against the gradient of the head's loss
on all rows, and the answer is drawn ∝ w without replacement, class by class alike.

As code (the default) it follows `core/bcsr_training.py`, `bcsr_coreset.py` and `train_methods_cifar.py`: rows are dealt
into batches of 50, of which 10 are drawn; up to 1,000 of these are weighed again and fill the classes in the order they
are drawn.  Each weighing starts from the trained head and takes five steps of the weights, of length 10, with one step
of the head, of length 10, between them; four Neumann terms (the paper: three), the Hessian's rows weighed by
softmax(w); λ has no effect, for its term has no gradient in the head.  Departs: a head of the features stands for the
network, trained on all rows first; candidates are more than 1,000 where the budget is, and a class short of them is
filled at random.

As paper it follows algorithm 1: all rows at once, three terms, less λ times the gradient of a smoothed sum of the
largest weights, which draws w to a coreset of the budget's size.  Departs: the weights' step is in units of 1/n for a
gradient of unit deviation, and five steps of the head are taken between two of the weights, each as long as is stable.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Rows
from pdac_cli.options.methods import Version
from pdac_cli.options.select import Allocation
from pdac_cli.rng import Purpose, generator, row_gumbels, row_uniforms
from pdac_cli.selection.baselines.linear import (
    ScaledRows,
    gradient,
    hessian_product,
    onto_simplex,
    probabilities,
    residuals,
)
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import NARROW_COST, Answer, Method, ProblemSize, ProgressSteps, Request, best_of_pool

OUTER, INNER, TERMS = 50, 5, 3  # as paper: steps of the weights, of the head between them, of the Neumann series
CODE_OUTER, CODE_TERMS, CODE_STEP = 5, 4, 10.0  # as code: steps of the weights, terms, length of both kinds of steps
BATCH, OF_BATCH, CANDIDATES = (
    50,
    10,
    1000,
)  # rows of a batch, of these drawn, and how many of all that are weighed again
_TRAINING = 100  # steps of the head on all rows
RATE = 0.5  # of a weight's step: in units of 1/n, for a gradient of unit deviation
LAMBDA, DRAWS = 0.1, 16  # the regulariser's weight, and the normal draws it is smoothed by


def bcsr(rows: Rows, request: Request) -> Answer:
    """Find the weights, then draw rows ∝ w without replacement; where too few are not 0, any others fill up."""
    find = weights if request.own.bcsr.version is Version.PAPER else weights_of_candidates
    with rows.pools(joint=True) as (pool,):
        w = find(ScaledRows(pool, len(request.counts), request.memory), request)
        return best_of_pool(pool, keys(w, pool.ids, request.seed), w, request)


def keys(w: Array, ids: Array, seed: int, *more: int) -> Array:
    """Return keys the largest of which are a draw ∝ w without replacement, then rows of weight 0: (n,)."""
    with np.errstate(divide="ignore"):
        key: Array = np.where(w > 0, np.log(w), -1e6) + row_gumbels(seed, Purpose.DRAW, ids, *more)
    return key


def weights_of_candidates(rows: ScaledRows, request: Request) -> Array:
    """Return the weights of the candidates as the published code finds them, 0 of all other rows: (n,)."""
    n, m, ids = rows.count, min(request.budget, rows.count), rows.pool.ids
    theta = trained_head(rows)
    order = np.argsort(row_uniforms(request.seed, Purpose.BATCH, ids), kind="stable")
    batches = np.array_split(order, -(-n // BATCH))
    progress = ProgressSteps(request.tick, m, len(batches) + 1)
    each = max(OF_BATCH, -(-m // len(batches)))
    drawn = []
    for batch in map(np.sort, batches):
        w = code_weights(rows.take(batch), rows.y[batch], theta)
        drawn.append(batch[np.argsort(-keys(w, ids[batch], request.seed, 1), kind="stable")[:each]])
        progress.step()
    found = np.concatenate(drawn)
    shuffled = found[np.argsort(row_uniforms(request.seed, Purpose.CANDIDATE, ids[found]), kind="stable")]
    chosen, out = np.sort(shuffled[: max(CANDIDATES, m)]), np.zeros(n)
    out[chosen] = code_weights(rows.take(chosen), rows.y[chosen], theta)
    progress.step()
    return out


def trained_head(rows: ScaledRows) -> Array:
    """Return a head trained on all rows by accelerated descent: (K, D + 1)."""
    w = np.full(rows.count, 1 / rows.count)
    step, theta = stable_step(w, rows.squares), np.zeros((rows.classes, rows.width))
    ahead = theta
    for k in range(_TRAINING):  # Nesterov's method
        new = ahead - step * rows.gradient(ahead, w)
        ahead, theta = new + k / (k + 3) * (new - theta), new
    return theta


def code_weights(x: Array, y: Array, theta: Array) -> Array:
    """Return the weights of some rows after the published code's steps from a head: (n, D + 1), (n,) -> (n,)."""
    n = len(x)
    w = np.full(n, 1 / n)
    for _ in range(CODE_OUTER):
        theta = theta - CODE_STEP * gradient(x, y, w / n, theta)
        share = np.exp(w - w.max())
        share /= share.sum()
        p = probabilities(x, theta)
        e = residuals(p, y)
        term = np.asarray(e.T @ x, np.float64) / n
        total = term.copy()
        for _ in range(CODE_TERMS - 1):
            term = term - CODE_STEP * hessian_product(x, share / n, p, term)
            total += term
        along = np.einsum("nk,nk->n", e, x @ total.T.astype(x.dtype), dtype=np.float64)
        slope = -share * (along - share @ along) / n  # through the softmax
        w = onto_simplex(w - CODE_STEP * slope)
    return w


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
    return 2 * _TRAINING * size.n * size.n_features * size.n_logits * NARROW_COST  # as paper five times that


BCSR = Method(bcsr, Allocation.BALANCED, Evict.SCORE, _work, needs_classes=True)

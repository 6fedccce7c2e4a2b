"""Greedy bilevel coresets (Borsos et al. 2020), on a linear head: the linear kernel, solved in its features.

One row after another enters: the candidate whose weight, raised from 0, would lower the loss on all rows the most.

Follows algorithm 1 of the paper and `bilevel_coreset.py` of its code as run for continual learning: the inner loss is a
mean over the coreset plus 1e-3 |theta|², the weights are 1 again whenever a row has entered and take one step of Adam,
and 200 candidates enter with weight 0, which in the code makes the mean one over coreset and candidates.  Departs: the
kernel is linear in the features (theirs is the network's tangent kernel), a head of the features is solved for in its
place, by L-BFGS to its end; the first row is the first of its random candidates; rows leave no weights.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.options.select import Allocation
from pdac_cli.rng import Purpose, generator
from pdac_cli.selection.baselines.linear import (
    ScaledRows,
    cross_entropy,
    gradient,
    hessian_product,
    probabilities,
    residuals,
)
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

RIDGE, CANDIDATES, SOLVE_STEPS, RATE = 1e-3, 200, 50, 0.01
_INNER_STEPS = 100  # of L-BFGS, each time from the last solution


def greedy(rows: Rows, request: Request) -> Answer:
    """Grow the coreset over all rows; a class that has its share takes no more."""
    with rows.pools(joint=True) as (pool,):
        picked = grow(pool, min(request.budget, pool.count), request)
        return ranked(pool, picked)


def grow(pool: Pool, quota: int, request: Request) -> Picked:
    """Return the rows in the order they enter."""
    rows, rng = ScaledRows(pool, len(request.counts), request.memory), generator(request.seed, Purpose.CANDIDATE)
    progress, room = ProgressSteps(request.tick, quota, quota), _Room(pool, request)
    coreset = _Coreset(rows)
    candidates = room.candidates(rng, 1)
    while True:
        coreset.add(int(candidates[0]))
        room.take(int(candidates[0]))
        progress.step()
        if len(coreset.places) == quota:
            return Picked(np.array(coreset.places))
        coreset.solve()
        candidates = room.candidates(rng, CANDIDATES)
        candidates = candidates[[int(np.argmin(coreset.improve(candidates)))]]


class _Room:
    """Which rows may still enter."""

    def __init__(self, pool: Pool, request: Request) -> None:
        self.pools = np.zeros(pool.count, np.int64) if request.joint else pool.codes
        self.left, self.free = request.quotas(), np.ones(pool.count, bool)

    def candidates(self, rng: np.random.Generator, count: int) -> Array:
        """Return up to `count` of them at random."""
        free = np.flatnonzero(self.free & (self.left[self.pools] > 0))
        return rng.permutation(free)[:count]

    def take(self, place: int) -> None:
        """Take note that a row has entered."""
        self.free[place] = False
        self.left[self.pools[place]] -= 1


class _Coreset:
    """Rows, and the head that minimises their mean loss + RIDGE·|theta|²."""

    def __init__(self, rows: ScaledRows) -> None:
        self.rows, self.theta = rows, np.zeros((rows.classes, rows.width))
        self.places: list[int] = []
        self.x = np.empty((0, rows.width), rows.pool.dtype)

    def add(self, place: int) -> None:
        """Let a row enter."""
        self.places.append(place)
        self.x = np.concatenate([self.x, self.rows.take(np.array([place]))])

    def solve(self) -> None:
        """Find the head for rows of weight 1."""
        size = len(self.places)
        self.theta = solve_inner(self.x, self.rows.y[self.places], np.full(size, 1 / size), self.theta)

    def improve(self, candidates: Array) -> Array:
        """Return how a little weight on each candidate changes the loss on all rows, but for scale: (k,)."""
        size, y = len(self.places), self.rows.y
        outer = self.rows.gradient(self.theta, np.full(self.rows.count, 1 / self.rows.count))
        slope = implicit_gradient(self.x, np.full(size, 1 / size), self.theta, outer, self.x, y[self.places])
        w = 1 - RATE * np.sign(slope)  # Adam's first step has this length whatever the gradient
        w /= size + len(candidates)
        return implicit_gradient(self.x, w, self.theta, outer, self.rows.take(candidates), y[candidates])


def solve_inner(x: Array, y: Array, w: Array, start: Array) -> Array:
    """Return argmin over theta of Σ w_i loss_i + RIDGE·|theta|² by L-BFGS: (k, D + 1), (k,), (k,) -> (K, D + 1)."""
    from scipy.optimize import minimize

    def value(flat: Array) -> tuple[float, Array]:
        theta = flat.reshape(start.shape)
        loss = w @ cross_entropy(probabilities(x, theta), y) + RIDGE * float(flat @ flat)
        return float(loss), gradient(x, y, w, theta).ravel() + 2 * RIDGE * flat

    found = minimize(value, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": _INNER_STEPS})
    theta: Array = found.x.reshape(start.shape)
    return theta


def implicit_gradient(x: Array, w: Array, theta: Array, outer: Array, others: Array, y: Array) -> Array:
    """Return d(outer loss)/dw_i = −⟨g_i, H⁻¹ outer⟩ of other rows, H the inner problem's Hessian: (j,).

    H⁻¹ is applied by conjugate gradients.  x (k, D + 1), w (k,) are the coreset, outer (K, D + 1) the outer loss's
    gradient in theta, others (j, D + 1), y (j,) the rows asked for.
    """
    p = probabilities(x, theta)
    solution, left = np.zeros_like(outer), outer.copy()
    direction, size = left.copy(), float(np.sum(left * left))
    goal = 1e-12 * size
    for _ in range(SOLVE_STEPS):
        if size <= goal:
            break
        image = hessian_product(x, w, p, direction) + 2 * RIDGE * direction
        step = size / float(np.sum(direction * image))
        solution += step * direction
        left -= step * image
        size, before = float(np.sum(left * left)), size
        direction = left + size / before * direction
    e = residuals(probabilities(others, theta), y)
    slope: Array = -np.einsum("nk,nk->n", e, others @ solution.T.astype(others.dtype), dtype=np.float64)
    return slope


def _work(size: ProblemSize) -> float:
    return size.m * size.n_features * size.n_logits * (2 * size.n + 150 * size.m) * NARROW_COST


GREEDY = Method(greedy, Allocation.JOINT, Evict.ORDER, _work, needs_classes=True)

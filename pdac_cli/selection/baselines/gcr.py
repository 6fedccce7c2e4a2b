"""Gradient Coreset Replay (Tiwari et al. 2022): a few weighted rows whose gradients add up to those of all.

Σ_i g_i is matched by non-negative orthogonal matching pursuit with a ridge.

Follows algorithms 1 and 2 of the paper and `gradient_coresets_replay` of its code: ridge 0.5, each class's share of the
budget, what is short filled at random.  Departs: its loss is β·cross-entropy plus α·mean (logits − stored logits)², the
logits recorded as a row enters the buffer; here rows are chosen once, after their task, and have none, so β times the
last-layer gradient of the first is left.  Rows of earlier tasks are given up from the end of their list, where the
original matches them anew by their stored logits.  Weights are not kept.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.errors import UsageError
from pdac_cli.options.select import Allocation
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.gradients import along, pool_residuals, total_gradient
from pdac_cli.selection.interface import (
    Answer,
    Method,
    Picked,
    ProblemSize,
    ProgressSteps,
    Request,
    product_a_row,
    random_places,
    within_pools,
)

RIDGE = 0.5
BETA = 0.5


def gcr(rows: Rows, request: Request) -> Answer:
    """Match each pool's summed gradient."""
    return within_pools(match, rows, request)


def match(pool: Pool, quota: int, request: Request) -> Picked:
    """Return the rows in the order they enter the match; places left over when none helps are filled at random."""
    need = 8 * pool.count * quota
    if need > request.memory:
        raise UsageError(
            f"--method gcr keeps n x m numbers, {need:,} bytes, and --memory is {request.memory:,}; expected room for "
            "them; raise --memory, lower --budget or use --allocation per-class"
        )
    progress = ProgressSteps(request.tick, quota, quota)
    chosen = np.array(_pursue(_Gradients(pool, quota), quota, progress), np.int64)
    free = np.ones(pool.count, bool)
    free[chosen] = False
    filled = random_places(pool, free, quota - len(chosen), request)
    for _ in filled:
        progress.step()
    return Picked(np.concatenate([chosen, filled]))


class _Gradients:
    """The gradients β e ⊗ [h, 1] of a pool, known by their inner products."""

    def __init__(self, pool: Pool, quota: int) -> None:
        self.pool = pool
        self.e = BETA * np.concatenate(pool.map(lambda a, b: pool_residuals(pool, a, b)))  # (n, K)
        total = np.sum(pool.map(lambda a, b: total_gradient(pool.read(a, b), self.e[a:b])), axis=0)
        self.target = np.concatenate(
            pool.map(lambda a, b: along(pool.read(a, b), self.e[a:b], total))
        )  # (n,) ⟨g_i, Σ g⟩
        self.columns = np.empty((quota, pool.count))  # ⟨g_i, g_s⟩ of the chosen s

    def add(self, step: int, place: int) -> Array:
        """Store and return the inner products of all rows with one: (n,)."""
        h = self.pool.read(place, place + 1)[0]
        product = np.concatenate(self.pool.map(lambda a, b: self.pool.read(a, b) @ h)).astype(np.float64)
        column: Array = (self.e @ self.e[place]) * (product + 1)
        self.columns[step] = column
        return column


def _pursue(gradients: _Gradients, quota: int, progress: ProgressSteps) -> list[int]:
    """Add the row that agrees most with what is still unmatched, and solve for all weights again, until none agrees."""
    chosen: list[int] = []
    inner = np.empty((quota, quota))  # ⟨g_s, g_t⟩ of the chosen
    unmatched = gradients.target.copy()  # ⟨g_i, Σ g − Σ w_s g_s⟩
    for step in range(quota):
        unmatched[chosen] = -np.inf
        place = int(np.argmax(unmatched))
        if not unmatched[place] > 0:
            break
        column = gradients.add(step, place)
        chosen.append(place)
        inner[step, : step + 1] = inner[: step + 1, step] = column[chosen]
        w = ridge_nnls(inner[: step + 1, : step + 1], gradients.target[chosen], RIDGE)
        unmatched = gradients.target - w @ gradients.columns[: step + 1]
        progress.step()
    return chosen


def ridge_nnls(products: Array, target: Array, ridge: float) -> Array:
    """Return argmin over w ≥ 0 of ‖Σ w_s g_s − t‖² + ridge·‖w‖², from ⟨g_s, g_t⟩ (k, k) and ⟨g_s, t⟩ (k,): (k,)."""
    from scipy.linalg import cho_solve, cholesky, solve_triangular
    from scipy.optimize import nnls

    # Gradients that repeat each other, of features in small units, need a ridge that rounding does not swallow.
    ridge = max(ridge, 1e-10 * float(np.diag(products).max()))
    lower = cholesky(products + ridge * np.eye(len(products)), lower=True)
    w: Array = cho_solve((lower, True), target)
    if (w >= 0).all():
        return w
    # The same problem as a least-squares one: ‖Lᵀw − L⁻¹t‖².
    w, _ = nnls(lower.T, solve_triangular(lower, target, lower=True), maxiter=30 * len(target))
    return w


def _work(size: ProblemSize) -> float:
    m = size.m / size.pools
    return product_a_row(size) + size.pools * m**4 / 8


GCR = Method(gcr, Allocation.PER_CLASS, Evict.ORDER, _work, needs_logits=True, random=False, needs_classes=True)

"""V-optimal design: the rows from which linear regression predicts all others with the least variance.

tr(A Σ) is minimised, A = (X_SᵀX_S + λ)⁻¹ over the rows kept and Σ = E[x xᵀ] over all, x the standardised features and a
constant.  One more row lowers it by xᵀAΣAx / (1 + xᵀAx).  Labels have no say but for whose turn it is.  It is the
theory beside `least_error`, which minimises an error in place of a variance, and one term of FIRAL (arXiv 2409.07379).
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Rows
from pdac_cli.options.select import Allocation
from pdac_cli.selection.budget import turns
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import Answer, Method, ProgressSteps, Request
from pdac_cli.selection.least_error import LEAST_ERROR, RIDGE, limits
from pdac_cli.selection.moments import MomentsAndSample, moments_and_sample
from pdac_cli.selection.sampling import Ranking


def voptimal(rows: Rows, request: Request) -> Answer:
    """Choose one row after the other; the classes take turns, or compete under joint allocation."""
    quotas = np.minimum(request.counts, request.budget) if request.joint else request.quotas()
    weights = request.counts / request.counts.sum()
    seen = moments_and_sample(rows, request.counts, weights, limits(quotas, request), request.memory)
    budget = min(request.budget, int(request.counts.sum()))
    turn = np.zeros(budget, np.int64) if request.joint else turns(quotas)
    places = design(*_problem(seen), turn, request.pools(seen.codes), ProgressSteps(request.tick, budget, budget))
    return Answer(Ranking(seen.ids[places], seen.codes[places]))


def _problem(seen: MomentsAndSample) -> tuple[Array, Array, float]:
    """Return the rows, Σ and λ: (n, D + 1), (D + 1, D + 1)."""
    x = np.column_stack([seen.scale(seen.h), np.ones(len(seen.h), seen.h.dtype)])
    sigma = np.zeros((x.shape[1], x.shape[1]))
    sigma[:-1, :-1], sigma[-1, -1] = seen.second, 1.0
    return x, sigma, RIDGE * seen.scale.length


def design(x: Array, sigma: Array, ridge: float, turn: Array, pools: Array, progress: ProgressSteps) -> Array:
    """Return the rows by greedy choice, turn[i] (m,) the pool of the i-th, pools (n,) those of the rows: (m,).

    k = xᵀAx and q = xᵀAΣAx of every row are kept up: a row x taken changes A by −vvᵀ/s, v = Ax and s = 1 + xᵀv.
    """
    a, squares = np.eye(len(sigma)) / ridge, np.einsum("nd,nd->n", x, x, dtype=np.float64)
    k = squares / ridge
    q = np.einsum("nd,nd->n", x @ sigma.astype(x.dtype), x, dtype=np.float64) / ridge**2
    free, chosen = np.ones(len(x), bool), np.empty(len(turn), np.int64)
    for i, pool in enumerate(turn):
        gain = np.where(free & (pools == pool), q / (1 + k), -np.inf)
        chosen[i] = place = int(np.argmax(gain))
        free[place] = False
        row = x[place].astype(np.float64)
        v = a @ row
        s, along = 1 + float(row @ v), sigma @ v
        u, c = a @ along, float(v @ along)
        xv, xu = (x @ np.column_stack([v, u]).astype(x.dtype)).astype(np.float64).T
        k -= xv**2 / s
        q += c * (xv / s) ** 2 - 2 * xv * xu / s
        a -= np.outer(v, v) / s
        progress.step()
    return chosen


VOPTIMAL = Method(voptimal, Allocation.BALANCED, Evict.ORDER, LEAST_ERROR.work, random=False, nested=True)

"""Least error: the rows from which a ridge classifier errs least over the whole estimated density.

The classifier is linear in x, the standardised features and a constant: f(x) = Vᵀx, with V from ridge regression of
onehot(y) on the chosen rows alone.  Its mean squared error over a density of (x, y) depends on that density's moments
only: C = E[x xᵀ] and M = E[x onehot(y)ᵀ], sums over the rows that need one pass and can be added up from anywhere.
With P = λ (Σ_chosen x xᵀ + λ)⁻¹, one more row x of class y changes V by P x eᵀ / s, where e = onehot(y) − Vᵀx and
s = λ + xᵀP x, and lowers the error by

    gain(x) = 2 eᵀGᵀx / s − |e|² xᵀP C P x / s²,   G = P (M − C V).

That serves the classes at hand.  For classes still to come, which may differ in any direction, every class also keeps
its mean: beside the error stands the squared distance of the chosen rows' mean from the class's, as in herding, with
z = x / |x| and relative to the class's spread 1 − |μ|².  The classes take turns, and each takes the row after which
the sum of both is least.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy.linalg.blas import dsymv, dsyr

from pdac_cli.options.select import Allocation
from pdac_cli.selection.budget import Array, places
from pdac_cli.selection.overview import Overview, Scale, overview
from pdac_cli.selection.rows import Answer, Meter, Request, Rows
from pdac_cli.selection.sampling import Ranking

RIDGE = 1.0  # λ, and
CONSTANT = 1.0  # the square of the constant beside the features: times their mean squared length
MEAN = 1.0  # what a class's mean counts for beside its error
# Rows that may be chosen: so many in all, and at least so many for every one kept; of larger classes a part is drawn.
CANDIDATES, CANDIDATES_PER_ROW = 20_000, 10


def least_error(rows: Rows, request: Request) -> Answer:
    """Choose one row after the other, each class its share; under joint allocation classes compete for every place."""
    quotas = np.minimum(request.counts, request.budget) if request.joint else request.quotas()
    seen = overview(rows, request.counts, _weights(request), limits(quotas, request), request.memory)
    error = _Error(seen)
    classes = [_Candidates.of(seen, code, error) for code in range(len(quotas))]
    return _choose(classes, error, quotas, request)


def _weights(request: Request) -> Array:
    """Return what each class counts for in the error, as its share of the budget: (C,)."""
    shares = request.counts > 0 if request.allocation is Allocation.BALANCED else request.counts
    weights: Array = shares / shares.sum()
    return weights


def limits(quotas: Array, request: Request) -> Array:
    """Return how many rows of each class may be chosen: (C,)."""
    each = -(-CANDIDATES // max(1, int(np.count_nonzero(quotas))))
    # Where classes compete, any of them may take all places.
    wanted = np.full(len(quotas), request.budget) if request.joint else CANDIDATES_PER_ROW * quotas
    return np.where(quotas > 0, np.minimum(request.counts, np.maximum(each, wanted)), 0)


class _Error:
    """The error of the classifier trained on the rows chosen so far, by what changes it."""

    def __init__(self, seen: Overview) -> None:
        dim = len(seen.scale.factor) + 1
        self.length = seen.scale.length
        self.constant, self.ridge = np.sqrt(CONSTANT * self.length), RIDGE * self.length
        self.C, self.G = np.zeros((dim, dim), order="F"), np.empty((dim, len(seen.weights)))
        self.C[:-1, :-1] = seen.second  # standardised features have mean 0: no product with the constant is left
        self.C[-1, -1] = self.constant**2
        self.G[:-1], self.G[-1] = seen.first, self.constant * seen.weights
        self.P, self.V = np.eye(dim, order="F"), np.zeros_like(self.G)  # of P the lower half is kept up
        # Px, PCPx, s and xᵀPCPx of the latest rows chosen, as many as are cheaper to use than P and C themselves.
        self.steps: deque[tuple[Array, Array, float, float]] = deque(maxlen=dim)
        self.count = 0

    def add(self, x: Array, code: int) -> None:
        """Train on one more row."""
        v = dsymv(1.0, self.P, x, lower=1)
        s = self.ridge + float(v @ x)
        c = -(x @ self.V) / s
        c[code] += 1 / s
        Cv = dsymv(1.0, self.C, v, lower=1)
        u, q = dsymv(1.0, self.P, Cv, lower=1), float(v @ Cv)
        self.G -= np.outer(v, x @ self.G / s)
        self.G -= np.outer(u - v * (q / s), c)
        self.V += np.outer(v, c)
        self.P = dsyr(-1 / s, v, a=self.P, lower=1, overwrite_a=1)
        self.steps.append((v, u, s, q))
        self.count += 1


@dataclass
class _Candidates:
    """Rows of one class that may still be chosen, and what the steps so far have made of them."""

    ids: Array  # (n,)
    x: Array  # (n, D + 1)
    k: Array  # (n,) xᵀP x
    q: Array  # (n,) xᵀP C P x
    free: Array  # (n,) bool
    mean: _Mean
    seen: int = 0  # steps that k and q know of

    @classmethod
    def of(cls, seen: Overview, code: int, error: _Error) -> _Candidates:
        """Take the rows of a class."""
        ids, h = seen.candidates(code)
        x = _with_constant(seen.scale, h, error.constant)
        k, q = _dot(x, x), _dot(x @ error.C.astype(x.dtype), x)
        return cls(ids, x, k, q, np.ones(len(ids), bool), _Mean(x[:, :-1], float(seen.weights[code])))

    def take(self, place: int) -> Array:
        """Choose a row and return it: (D + 1,)."""
        self.free[place] = False
        self.mean.add(self.x[place, :-1], place)
        x: Array = self.x[place].astype(np.float64)
        return x

    def _unseen(self, error: _Error) -> int:
        """Return how many of the latest steps k and q do not know of, having caught up with those too old to tell."""
        missing, self.seen = error.count - self.seen, error.count
        if missing <= len(error.steps):
            return missing
        xp = self.x @ (np.tril(error.P) + np.tril(error.P, -1).T).astype(self.x.dtype)
        self.k, self.q = _dot(xp, self.x), _dot(xp @ error.C.astype(xp.dtype), xp)
        return 0

    def gains(self, error: _Error, code: int) -> Array:
        """Return by how much each row would lower error and distance of the means, −∞ for those chosen: (n,)."""
        classes = error.G.shape[1]
        new = list(islice(error.steps, len(error.steps) - self._unseen(error), None))
        missing = np.append(self.mean.missing(), 0.0)
        columns = np.column_stack([error.G, error.V, *(v for v, *_ in new), *(u for _, u, *_ in new), missing])
        product = (self.x @ columns.astype(self.x.dtype)).astype(np.float64)
        along, f = product[:, :classes], product[:, classes : 2 * classes]
        xv, xu = product[:, 2 * classes : 2 * classes + len(new)], product[:, 2 * classes + len(new) : -1]
        s, q = np.array([step[2] for step in new]), np.array([step[3] for step in new])
        self.k -= np.square(xv) @ (1 / s)
        self.q += np.square(xv) @ (q / s**2) - (xv * xu) @ (2 / s)
        e = -f
        e[:, code] += 1
        s = error.ridge + self.k
        gain: Array = 2 * _dot(along, e) / s - _dot(e, e) * self.q / s**2 + self.mean.gains(product[:, -1])
        gain[~self.free] = -np.inf
        return gain


class _Mean:
    """How far the mean of a class's chosen rows is from that of all, each row z = x / |x|."""

    def __init__(self, x: Array, weight: float) -> None:
        length = np.sqrt(_dot(x, x))
        self.inverse = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)  # (n,)
        self.mean = self.inverse @ x / max(len(x), 1)  # (D,)
        self.total, self.count = np.zeros_like(self.mean), 0
        spread = float(np.mean(self.inverse > 0) - self.mean @ self.mean) if len(x) else 0.0
        self.weight = MEAN * weight / spread if spread > 1e-6 else 0.0

    def add(self, x: Array, place: int) -> None:
        """Choose a row."""
        self.total += self.inverse[place] * x
        self.count += 1

    def missing(self) -> Array:
        """Return what the next row should be for the means to agree: (D,)."""
        missing: Array = (self.count + 1) * self.mean - self.total
        return missing

    def gains(self, along: Array) -> Array:
        """Return by how much each row brings the means together, from its products with what is missing: (n,)."""
        missing = self.missing()
        before = self.mean - self.total / max(self.count, 1)
        after = missing @ missing - 2 * self.inverse * along + (self.inverse > 0)
        gains: Array = self.weight * (before @ before - after / (self.count + 1) ** 2)
        return gains


def _choose(classes: list[_Candidates], error: _Error, quotas: Array, request: Request) -> Answer:
    """Go through the places of the list, each the turn of one class, or of all where they compete."""
    budget = min(request.budget, int(request.counts.sum()))
    turns = [range(len(classes))] * budget if request.joint else _turns(quotas)
    meter = Meter(request.tick, budget, budget)
    ids, codes = np.empty(budget, np.int64), np.empty(budget, np.int64)
    for i, turn in enumerate(turns):
        best = {code: classes[code].gains(error, code) for code in turn if classes[code].free.any()}
        code = max(best, key=lambda c: best[c].max())
        place = int(np.argmax(best[code]))
        error.add(classes[code].take(place), code)
        ids[i], codes[i] = classes[code].ids[place], code
        meter.step()
    return Answer(Ranking(ids, codes, np.full(budget, np.nan)))


def _turns(quotas: Array) -> list[list[int]]:
    """Return whose turn each place is, so that every beginning has the classes in proportion."""
    codes = np.repeat(np.arange(len(quotas)), quotas)
    where = np.concatenate([places(quota) for quota in quotas if quota])
    return [[int(code)] for code in codes[np.lexsort((codes, where))]]


def _with_constant(scale: Scale, h: Array, constant: float) -> Array:
    """Return what the classifier sees of rows: (n, D) -> (n, D + 1)."""
    return np.column_stack([scale(h), np.full(len(h), constant, h.dtype)])


def _dot(a: Array, b: Array) -> Array:
    """Return the inner products of rows, in float64: (n, D), (n, D) -> (n,)."""
    out: Array = np.einsum("nd,nd->n", a, b, dtype=np.float64)
    return out

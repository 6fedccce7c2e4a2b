"""Least error: the rows from which a ridge classifier errs least over the whole estimated density.

The classifier is linear in x, the standardised features and a constant; its error, and what one more row does to it,
are in `ridge_error`.

That serves the classes at hand.  For classes still to come, which may differ in any direction, every class also keeps
its mean: beside the error stands the squared distance of the chosen rows' mean from the class's, as in herding, with
z = x / |x| and relative to the class's spread 1 − |μ|².  The classes take turns, and each takes the row after which
the sum of both is least.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import Array, Rows
from pdac_cli.options.methods import LEAST_ERROR_CANDIDATES
from pdac_cli.options.select import Allocation
from pdac_cli.selection.budget import turns
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import Answer, Method, ProblemSize, ProgressSteps, Request
from pdac_cli.selection.moments import MomentsAndSample, Standardizer, moments_and_sample
from pdac_cli.selection.ridge_error import ErrorGains, RidgeError, dot
from pdac_cli.selection.sampling import Ranking

RIDGE = 1.0  # λ, and
CONSTANT = 1.0  # the square of the constant beside the features: times their mean squared length
MEAN = 1.0  # what a class's mean counts for beside its error
# Rows that may be chosen: so many in all, and at least so many for every one kept; of larger classes a part is drawn.
CANDIDATES, CANDIDATES_PER_ROW = LEAST_ERROR_CANDIDATES, 10


def least_error(rows: Rows, request: Request) -> Answer:
    """Choose one row after the other, each class its share; under joint allocation classes compete for every place."""
    quotas = np.minimum(request.counts, request.budget) if request.joint else request.quotas()
    seen = moments_and_sample(rows, request.counts, _weights(request), limits(quotas, request), request.memory)
    error = _error(seen)
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


def _error(seen: MomentsAndSample) -> RidgeError:
    """Return the error of a classifier that has seen no row."""
    width, length = len(seen.scale.factor) + 1, seen.scale.length
    constant = np.sqrt(CONSTANT * length)
    C, M = np.zeros((width, width)), np.empty((width, len(seen.weights)))
    C[:-1, :-1] = seen.second  # standardised features have mean 0: no product with the constant is left
    C[-1, -1] = constant**2
    M[:-1], M[-1] = seen.first, constant * seen.weights
    return RidgeError(C, M, None, RIDGE * length)


@dataclass
class _Candidates:
    """Rows of one class that may still be chosen, and what the steps so far have made of them."""

    ids: Array  # (n,)
    error: ErrorGains
    free: Array  # (n,) bool
    mean: _Mean

    @classmethod
    def of(cls, seen: MomentsAndSample, code: int, error: RidgeError) -> _Candidates:
        """Take the rows of a class."""
        ids, h = seen.candidates(code)
        x = _with_constant(seen.scale, h, np.sqrt(CONSTANT * seen.scale.length))
        mean = _Mean(x[:, :-1], float(seen.weights[code]))
        return cls(ids, ErrorGains.of(x, error), np.ones(len(ids), bool), mean)

    def take(self, place: int) -> Array:
        """Choose a row and return it: (D + 1,)."""
        self.free[place] = False
        x: Array = self.error.x[place]
        self.mean.add(x[:-1], place)
        return x.astype(np.float64)

    def gains(self, error: RidgeError, code: int) -> Array:
        """Return by how much each row would lower error and distance of the means, −∞ for those chosen: (n,)."""
        gain, along = self.error.gains(error, code, np.append(self.mean.missing(), 0.0))
        gain += self.mean.gains(along)
        gain[~self.free] = -np.inf
        return gain


class _Mean:
    """How far the mean of a class's chosen rows is from that of all, each row z = x / |x|."""

    def __init__(self, x: Array, weight: float) -> None:
        length = np.sqrt(dot(x, x))
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


def _choose(classes: list[_Candidates], error: RidgeError, quotas: Array, request: Request) -> Answer:
    """Go through the places of the list, each the turn of one class, or of all where they compete."""
    budget = min(request.budget, int(request.counts.sum()))
    whose = [range(len(classes))] * budget if request.joint else [[int(code)] for code in turns(quotas)]
    progress = ProgressSteps(request.tick, budget, budget)
    ids, codes = np.empty(budget, np.int64), np.empty(budget, np.int64)
    for i, turn in enumerate(whose):
        best = {code: classes[code].gains(error, code) for code in turn if classes[code].free.any()}
        code = max(best, key=lambda c: best[c].max())
        place = int(np.argmax(best[code]))
        error.add(classes[code].take(place), code)
        ids[i], codes[i] = classes[code].ids[place], code
        progress.step()
    return Answer(Ranking(ids, codes))


def _with_constant(scale: Standardizer, h: Array, constant: float) -> Array:
    """Return what the classifier sees of rows: (n, D) -> (n, D + 1)."""
    return np.column_stack([scale(h), np.full(len(h), constant, h.dtype)])


def _work(size: ProblemSize) -> float:
    candidates = min(size.n, CANDIDATES)
    return size.n_features * (size.n * size.n_features + size.m * (3 * size.n_features + 4 * candidates))


LEAST_ERROR = Method(
    least_error,
    Allocation.BALANCED,
    Evict.ORDER,
    _work,
    random=False,
    squares_features=True,
    needs_classes=True,
    distributed=True,
)

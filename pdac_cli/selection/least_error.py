"""Least error: the rows from which a ridge classifier errs least over the whole estimated density.

The classifier is linear in x, the standardised features and a constant: f(x) = Vᵀx, with V from ridge regression of
onehot(y) on the chosen rows alone.  Its mean squared error over a density of (x, y) depends on that density's moments
only: C = E[x xᵀ] and M = E[x onehot(y)ᵀ], sums over the rows that need one pass and can be added up from anywhere.
With P = λ (Σ_chosen x xᵀ + λ)⁻¹, one more row x of class y changes V by P x eᵀ / s, where e = onehot(y) − Vᵀx and
s = λ + xᵀP x, and lowers the error by

    gain(x) = 2 eᵀGᵀx / s − |e|² xᵀP C P x / s²,   G = P (M − C V).

The classes take turns, and each takes its row of largest gain.  Near the start that is the row nearest to its class's
mean and farthest from the others'; later it is the one that makes up for what those chosen have too much of.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from pdac_cli.errors import UsageError
from pdac_cli.options.select import Allocation
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.selection.budget import Array
from pdac_cli.selection.rows import Answer, Meter, Pool, Request, Rows, blocks
from pdac_cli.selection.sampling import Ranking

RIDGE = 1.0  # λ, and
CONSTANT = 1.0  # the square of the constant beside the features: times their mean squared length
# Rows of a class that may be chosen: drawn once where there are more; at least this many for every one kept.
CANDIDATES, CANDIDATES_PER_ROW = 2000, 10


def least_error(rows: Rows, request: Request) -> Answer:
    """Choose one row after the other, each class its share; under joint allocation classes compete for every place."""
    with rows.pools(joint=False) as pools:
        quotas = np.minimum(request.counts, request.budget) if request.joint else request.quotas()
        scale = _scale(pools, _weights(request))
        _check_memory(pools, quotas, request)
        error = _Error(pools, _weights(request), scale)
        classes = [_Candidates.of(pool, int(quota), scale, error) for pool, quota in zip(pools, quotas, strict=True)]
        return _choose(pools, classes, error, quotas, request)


def _weights(request: Request) -> Array:
    """Return what each class counts for in the error, as its share of the budget: (C,)."""
    shares = np.ones(len(request.counts)) if request.allocation is Allocation.BALANCED else request.counts
    weights: Array = np.where(request.counts > 0, shares, 0) / np.sum(np.where(request.counts > 0, shares, 0))
    return weights


def _check_memory(pools: Sequence[Pool], quotas: Array, request: Request) -> None:
    dim, width = pools[0].dim + 1, pools[0].dtype.itemsize
    kept = sum(_limit(pool, int(quota)) for pool, quota in zip(pools, quotas, strict=True))
    need = 5 * 8 * dim * dim + 2 * kept * dim * width
    if need > request.memory:
        raise UsageError(
            f"--method least-error keeps D x D numbers and {kept:,} rows to choose from, {need:,} bytes, and --memory "
            f"is {request.memory:,}; expected room for them; raise --memory, lower --budget or use --method herding"
        )


@dataclass(frozen=True)
class _Scale:
    """Makes rows what the classifier sees: standardised features and a constant."""

    mean: Array  # (D,)
    factor: Array  # (D,) 1 / standard deviation, 0 for a feature that is constant
    length: float  # the mean of |x|², without the constant

    def __call__(self, h: Array) -> Array:
        """Return (n, D) -> (n, D + 1)."""
        out = np.empty((len(h), len(self.mean) + 1), h.dtype)
        out[:, :-1] = (h - self.mean) * self.factor
        out[:, -1] = np.sqrt(CONSTANT * self.length)
        return out


def _scale(pools: Sequence[Pool], weights: Array) -> _Scale:
    """Return mean and standard deviation of every feature, the classes weighed."""
    largest = np.max([_largest(pool) for pool in pools if pool.count], axis=0)
    unit = np.where(largest > 0, largest, 1.0).astype(np.float64)  # squares of no feature overflow in it

    def mean_of(pool: Pool, centre: Array, power: int) -> Array:
        parts = pool.map(lambda a, b: (((pool.read(a, b) - centre) / unit) ** power).sum(axis=0))
        total: Array = np.sum(parts, axis=0) / max(pool.count, 1)
        return total

    mean = sum(w * mean_of(pool, np.zeros(1), 1) for w, pool in zip(weights, pools, strict=True)) * unit
    variance = sum(w * mean_of(pool, mean, 2) for w, pool in zip(weights, pools, strict=True))
    # A spread at the level of rounding is none.
    spread = np.sqrt(variance) > 8 * np.finfo(pools[0].dtype).eps
    factor = np.divide(1.0, np.sqrt(variance) * unit, out=np.zeros_like(unit), where=spread)
    return _Scale(mean, factor, float(max(spread.sum(), 1)))


def _largest(pool: Pool) -> Array:
    return np.max(pool.map(lambda a, b: np.abs(pool.read(a, b)).max(axis=0)), axis=0)  # type: ignore[no-any-return]


class _Error:
    """The error of the classifier trained on the rows chosen so far, by what changes it."""

    def __init__(self, pools: Sequence[Pool], weights: Array, scale: _Scale) -> None:
        dim = pools[0].dim + 1
        self.ridge = RIDGE * scale.length
        self.C, self.G = np.zeros((dim, dim)), np.zeros((dim, len(pools)))
        for k, (pool, w) in enumerate(zip(pools, weights, strict=True)):
            if pool.count and w > 0:
                square, total = _moments(pool, scale)
                self.C += w / pool.count * square
                self.G[:, k] = w / pool.count * total
        self.P, self.V = np.eye(dim), np.zeros_like(self.G)
        # Px, PCPx, s and xᵀPCPx of the latest rows chosen, as many as are cheaper to use than P and C themselves.
        self.steps: deque[tuple[Array, Array, float, float]] = deque(maxlen=dim)
        self.count = 0

    def add(self, x: Array, code: int) -> None:
        """Train on one more row."""
        v = self.P @ x
        s = self.ridge + float(v @ x)
        c = -(x @ self.V) / s
        c[code] += 1 / s
        Cv = self.C @ v
        u, q = self.P @ Cv, float(v @ Cv)
        self.G -= np.outer(v, x @ self.G / s)
        self.G -= np.outer(u - v * (q / s), c)
        self.V += np.outer(v, c)
        self.P -= np.outer(v, v / s)
        self.steps.append((v, u, s, q))
        self.count += 1


def _moments(pool: Pool, scale: _Scale) -> tuple[Array, Array]:
    """Return Σ x xᵀ and Σ x of a class: (D + 1, D + 1), (D + 1,)."""
    square, total = np.zeros((pool.dim + 1, pool.dim + 1)), np.zeros(pool.dim + 1)
    for start, stop in blocks(pool.count):  # one after the other: a product is D x D numbers
        x = scale(pool.read(start, stop))
        square += x.T @ x
        total += x.sum(axis=0, dtype=np.float64)
    return square, total


@dataclass
class _Candidates:
    """Rows of one class that may still be chosen, and what the steps so far have made of them."""

    places: Array  # (n,) in the pool
    x: Array  # (n, D + 1)
    k: Array  # (n,) xᵀP x
    q: Array  # (n,) xᵀP C P x
    free: Array  # (n,) bool
    seen: int = 0  # steps that k and q know of

    @classmethod
    def of(cls, pool: Pool, quota: int, scale: _Scale, error: _Error) -> _Candidates:
        """Take the class's rows, or as many as may be drawn of them, whatever the seed."""
        places = np.arange(pool.count if quota else 0)
        limit = _limit(pool, quota)
        if limit < len(places):
            places = np.sort(np.argsort(row_uniforms(0, Purpose.CANDIDATE, pool.ids, *pool.key), kind="stable")[:limit])
        x = scale(_rows(pool, places))
        product = x @ error.C.astype(x.dtype)
        return cls(places, x, _dot(x, x), _dot(product, x), np.ones(len(places), bool))

    def _unseen(self, error: _Error) -> int:
        """Return how many of the latest steps k and q do not know of, having caught up with those too old to tell."""
        missing, self.seen = error.count - self.seen, error.count
        if missing <= len(error.steps):
            return missing
        xp = self.x @ error.P.astype(self.x.dtype)
        self.k, self.q = _dot(xp, self.x), _dot(xp @ error.C.astype(xp.dtype), xp)
        return 0

    def gains(self, error: _Error, code: int) -> Array:
        """Return by how much each row would lower the error, −∞ for those chosen: (n,)."""
        classes = error.G.shape[1]
        new = list(islice(error.steps, len(error.steps) - self._unseen(error), None))
        columns = np.column_stack([error.G, error.V, *(v for v, *_ in new), *(u for _, u, *_ in new)])
        product = (self.x @ columns.astype(self.x.dtype)).astype(np.float64)
        along, f = product[:, :classes], product[:, classes : 2 * classes]
        xv, xu = product[:, 2 * classes : 2 * classes + len(new)], product[:, 2 * classes + len(new) :]
        s, q = np.array([step[2] for step in new]), np.array([step[3] for step in new])
        self.k -= np.square(xv) @ (1 / s)
        self.q += np.square(xv) @ (q / s**2) - (xv * xu) @ (2 / s)
        e = -f
        e[:, code] += 1
        s = error.ridge + self.k
        gain: Array = 2 * _dot(along, e) / s - _dot(e, e) * self.q / s**2
        gain[~self.free] = -np.inf
        return gain


def _choose(
    pools: Sequence[Pool], classes: list[_Candidates], error: _Error, quotas: Array, request: Request
) -> Answer:
    """Go through the places of the list, each the turn of one class, or of all where they compete."""
    budget = min(request.budget, int(request.counts.sum()))
    codes = np.repeat(np.arange(len(pools)), quotas)
    turns = codes[np.lexsort((codes, np.concatenate([(np.arange(q) + 0.5) / q for q in quotas if q])))]
    meter = Meter(request.tick, budget, budget)
    ids, chosen = np.empty(budget, np.int64), np.empty(budget, np.int64)
    for i in range(budget):
        candidates = range(len(pools)) if request.joint else [int(turns[i])]
        best = {c: classes[c].gains(error, c) for c in candidates if classes[c].free.any()}
        code = max(best, key=lambda c: best[c].max())
        place = int(np.argmax(best[code]))
        classes[code].free[place] = False
        error.add(classes[code].x[place].astype(np.float64), code)
        ids[i], chosen[i] = pools[code].ids[classes[code].places[place]], code
        meter.step()
    return Answer(Ranking(ids, chosen, np.full(budget, np.nan)))


def _limit(pool: Pool, quota: int) -> int:
    return min(pool.count, max(CANDIDATES, CANDIDATES_PER_ROW * quota)) if quota else 0


def _rows(pool: Pool, places: Array) -> Array:
    """Return rows of a pool, read in one go where they are many: (k, D)."""
    if len(places) == pool.count:
        return np.concatenate([np.empty((0, pool.dim), pool.dtype), *pool.map(pool.read)])
    return np.concatenate(
        pool.map(lambda a, b: pool.read(a, b)[places[np.searchsorted(places, a) : np.searchsorted(places, b)] - a])
    )


def _dot(a: Array, b: Array) -> Array:
    """Return the inner products of rows, in float64: (n, D), (n, D) -> (n,)."""
    out: Array = np.einsum("nd,nd->n", a, b, dtype=np.float64)
    return out

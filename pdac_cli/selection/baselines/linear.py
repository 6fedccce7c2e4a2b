"""A linear softmax head on features, with the derivatives and projections that bilevel selection needs.

x = [(h − mean)/scale, 1], the scale such that the mean of |h − mean|² becomes 1: the features' units do not matter.
The head is theta (K, D + 1); a row's loss is its cross-entropy, whose gradient is g_i = e_i ⊗ x_i.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pdac_cli.arrays import Array, Pool, T
from pdac_cli.selection.interface import blocks, gather

_HALVINGS = 100  # of an interval of doubles: more would change nothing


def probabilities(x: Array, theta: Array) -> Array:
    """Return softmax(x thetaᵀ): (n, D + 1), (K, D + 1) -> (n, K)."""
    scores = x @ theta.T.astype(x.dtype)
    scores -= scores.max(axis=1, keepdims=True)
    p: Array = np.exp(scores, out=scores)
    p /= p.sum(axis=1, keepdims=True)
    return p


def cross_entropy(p: Array, y: Array) -> Array:
    """Return −log p_y of every row in float64, large where p underflows: (n, K), (n,) -> (n,)."""
    loss: Array = -np.log(np.maximum(p[np.arange(len(y)), y], np.finfo(p.dtype).tiny).astype(np.float64))
    return loss


def residuals(p: Array, y: Array) -> Array:
    """Return e = p − onehot(y): (n, K), (n,) -> (n, K)."""
    e = p.copy()
    e[np.arange(len(y)), y] -= 1
    return e


def gradient(x: Array, y: Array, w: Array, theta: Array) -> Array:
    """Return Σ w_i g_i: (K, D + 1)."""
    e = residuals(probabilities(x, theta), y) * w[:, None].astype(x.dtype)
    return np.asarray(e.T @ x, np.float64)


def hessian_product(x: Array, w: Array, p: Array, direction: Array) -> Array:
    """Return the Hessian of Σ w_i loss_i times a direction: p (n, K) at theta, direction (K, D + 1) -> (K, D + 1)."""
    a = p * (x @ direction.T.astype(x.dtype))
    b = (a - p * a.sum(axis=1, keepdims=True)) * w[:, None].astype(x.dtype)
    return np.asarray(b.T @ x, np.float64)


class ScaledRows:
    """A pool's rows as the head sees them, block by block; kept in memory where they fit."""

    def __init__(self, pool: Pool, classes: int, memory: int) -> None:
        self.pool, self.classes, self.width, self.y = pool, classes, pool.n_features + 1, pool.codes
        self.mean = np.sum(pool.map(lambda a, b: pool.read(a, b).sum(axis=0, dtype=np.float64)), axis=0) / pool.count
        squares = pool.map(lambda a, b: float(np.square(pool.read(a, b) - self.mean).sum()))
        self.scale = np.sqrt(sum(squares) / pool.count) or 1.0
        fits = pool.count * self.width * pool.dtype.itemsize <= memory // 4
        self.kept = {a: self._scale(pool.read(a, b)) for a, b in blocks(pool.count)} if fits else {}
        self.squares = np.concatenate(self.map(lambda x, _a, _b: np.einsum("nd,nd->n", x, x, dtype=np.float64)))

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.pool.count

    def _scale(self, h: Array) -> Array:
        x = np.ones((len(h), self.width), self.pool.dtype)
        x[:, :-1] = (h - self.mean) / self.scale
        return x

    def take(self, places: Array) -> Array:
        """Return some rows: (k,) -> (k, D + 1)."""
        return self._scale(gather(self.pool.read, places))

    def map(self, work: Callable[[Array, int, int], T]) -> list[T]:
        """Return work(x, start, stop) of every block, in order."""
        return self.pool.map(lambda a, b: work(self.kept[a] if self.kept else self._scale(self.pool.read(a, b)), a, b))

    def gradient(self, theta: Array, w: Array) -> Array:
        """Return Σ w_i g_i: (K, D + 1)."""
        return sum_of(self.map(lambda x, a, b: gradient(x, self.y[a:b], w[a:b], theta)))

    def hessian_product(self, theta: Array, w: Array, direction: Array) -> Array:
        """Return the Hessian of Σ w_i loss_i times a direction: (K, D + 1)."""
        return sum_of(self.map(lambda x, a, b: hessian_product(x, w[a:b], probabilities(x, theta), direction)))

    def along(self, theta: Array, direction: Array) -> Array:
        """Return ⟨g_i, direction⟩ of every row: (n,)."""

        def inner(x: Array, a: int, b: int) -> Array:
            e = residuals(probabilities(x, theta), self.y[a:b])
            found: Array = np.einsum("nk,nk->n", e, x @ direction.T.astype(x.dtype), dtype=np.float64)
            return found

        return np.concatenate(self.map(inner))

    def losses(self, heads: Array) -> Array:
        """Return the mean loss over all rows of several heads: (J, K, D + 1) -> (J,)."""

        def summed(x: Array, a: int, b: int) -> Array:
            return np.array([cross_entropy(probabilities(x, theta), self.y[a:b]).sum() for theta in heads])

        return sum_of(self.map(summed)) / self.count


def sum_of(parts: list[Array]) -> Array:
    """Return the sum of arrays, in order."""
    total: Array = np.sum(parts, axis=0)
    return total


def onto_simplex(v: Array) -> Array:
    """Return the nearest w ≥ 0 with Σ w = 1 (Held, Wolfe and Crowder 1974): (n,) -> (n,)."""
    descending = np.sort(v)[::-1]
    excess = np.cumsum(descending) - 1
    last = np.flatnonzero(descending * np.arange(1, len(v) + 1) > excess)[-1]
    w: Array = np.maximum(v - excess[last] / (last + 1), 0.0)
    return w


def onto_capped_box(v: Array, total: float) -> Array:
    """Return the nearest 0 ≤ s ≤ 1 with Σ s ≤ total, by bisection of what is taken off every entry: (n,) -> (n,)."""
    clipped = np.clip(v, 0.0, 1.0)
    if clipped.sum() <= total:
        return clipped
    low, high = 0.0, float(v.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if np.clip(v - middle, 0.0, 1.0).sum() > total:
            low = middle
        else:
            high = middle
    return np.clip(v - high, 0.0, 1.0)

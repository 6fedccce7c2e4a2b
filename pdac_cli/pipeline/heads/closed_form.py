"""Heads in closed form that learn from a stream and keep no row: sums that are the same whatever the order of batches.

`NearestMeans` keeps class sums, `SharedCovariance` (streaming LDA: Hayes and Kanan 2020, with equal priors) class means
and one covariance, `StreamedRidge` the normal equations of one-hot targets, on the features or on random ones (RanPAC:
McDonnell et al. 2023, H = relu(h R)).  All sums are float64, so that another order differs in rounding only.

Ours where the originals differ: SLDA's shrinkage is 1e-4 of the mean variance, not 1e-4; the ridge has an intercept,
and its λ is chosen over all rows so far, by the squared error on a fifth of them whose sums are kept apart (RanPAC: a
fifth of the newest task); rows are told apart by their ids, so that nothing hangs on their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.rng import Purpose, generator, row_uniforms

SHRINK = 1e-4  # of SLDA's covariance towards the identity of the same mean variance
POWERS = np.arange(-8.0, 4.0)  # of ten: the λ tried, times the mean variance of a feature times the rows
_HELD_OUT = 0.2


class StreamedHead(Protocol):
    """A head that learns batch by batch."""

    def add(self, h: Array, codes: Array, ids: Array) -> None:
        """Learn from rows: (n, D), their classes (n,) and their ids (n,)."""

    def classifier(self) -> Callable[[Array], Array]:
        """Return what answers the classes of rows, among those that were seen: (n, D) -> (n,)."""

    def size(self) -> int:
        """Return the bytes of what is kept from batch to batch."""


class NearestMeans:
    """The class whose mean of unit rows has the direction nearest to the row's."""

    def __init__(self, n_features: int, classes: int) -> None:
        self.counts, self.sums = np.zeros(classes), np.zeros((classes, n_features))

    def add(self, h: Array, codes: Array, ids: Array) -> None:  # noqa: ARG002
        """Learn from rows."""
        onehot = np.eye(len(self.counts))[codes]
        self.counts += onehot.sum(axis=0)
        self.sums += onehot.T @ unit_rows(h.astype(np.float64))

    def classifier(self) -> Callable[[Array], Array]:
        """Return what answers classes."""
        seen = np.flatnonzero(self.counts)
        return _largest(unit_rows(self.sums[seen]).T, np.zeros(len(seen)), seen)

    def size(self) -> int:
        """Return the bytes kept."""
        return self.counts.nbytes + self.sums.nbytes


class SharedCovariance:
    """Gaussian classes with one covariance and equal priors: linear discriminants from running moments."""

    def __init__(self, n_features: int, classes: int) -> None:
        self.counts, self.sums = np.zeros(classes), np.zeros((classes, n_features))
        self.products = np.zeros((n_features, n_features))

    def add(self, h: Array, codes: Array, ids: Array) -> None:  # noqa: ARG002
        """Learn from rows."""
        h, onehot = h.astype(np.float64), np.eye(len(self.counts))[codes]
        self.counts += onehot.sum(axis=0)
        self.sums += onehot.T @ h
        self.products += h.T @ h

    def classifier(self) -> Callable[[Array], Array]:
        """Return what answers classes: the largest of mᵀΣ⁻¹h − ½ mᵀΣ⁻¹m."""
        seen = np.flatnonzero(self.counts)
        means = self.sums[seen] / self.counts[seen, None]
        covariance = (self.products - (means.T * self.counts[seen]) @ means) / self.counts.sum()
        level = max(float(np.trace(covariance)) / len(covariance), np.finfo(float).tiny)
        covariance = (1 - SHRINK) * covariance + SHRINK * level * np.eye(len(covariance))
        W = np.linalg.solve(covariance, means.T)  # (D, K)
        return _largest(W, -0.5 * np.einsum("kd,dk->k", means, W), seen)

    def size(self) -> int:
        """Return the bytes kept."""
        return self.counts.nbytes + self.sums.nbytes + self.products.nbytes


@dataclass
class _Sums:
    """The normal equations of some rows."""

    rows: Array  # (1,)
    h: Array  # (M,) Σ h
    y: Array  # (C,) Σ onehot(y)
    hh: Array  # (M, M) Σ h hᵀ
    hy: Array  # (M, C) Σ h onehot(y)ᵀ

    @classmethod
    def empty(cls, width: int, classes: int) -> _Sums:
        zeros = np.zeros
        return cls(zeros(1), zeros(width), zeros(classes), zeros((width, width)), zeros((width, classes)))

    def add(self, h: Array, onehot: Array) -> None:
        self.rows += len(h)
        self.h += h.sum(axis=0)
        self.y += onehot.sum(axis=0)
        self.hh += h.T @ h
        self.hy += h.T @ onehot

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))

    def about(self, mean: Array, share: Array) -> tuple[Array, Array, float]:
        """Return Σ cc ᵀ, Σ c tᵀ and Σ |t|² of rows c = h − mean and targets t = onehot(y) − share."""
        rows = float(self.rows[0])
        hh = self.hh - np.outer(self.h, mean) - np.outer(mean, self.h) + rows * np.outer(mean, mean)
        hy = self.hy - np.outer(self.h, share) - np.outer(mean, self.y) + rows * np.outer(mean, share)
        return hh, hy, rows - 2 * float(self.y @ share) + rows * float(share @ share)

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, item.name).nbytes for item in fields(self))


class StreamedRidge:
    """Least squares on one-hot classes with a ridge, from the sums of two parts of the rows."""

    def __init__(self, n_features: int, classes: int, width: int | None = None, seed: int = 0) -> None:
        """`width`: of random features; None: the features themselves."""
        self.R = None if width is None else generator(seed, Purpose.LIFT).standard_normal((n_features, width))
        self.seed, size = seed, n_features if width is None else width
        self.fitted, self.held_out = _Sums.empty(size, classes), _Sums.empty(size, classes)

    def lifted(self, h: Array) -> Array:
        """Return rows as the regression sees them: (n, D) -> (n, M)."""
        h = h.astype(np.float64)
        return h if self.R is None else np.maximum(h @ self.R, 0.0)

    def add(self, h: Array, codes: Array, ids: Array) -> None:
        """Learn from rows."""
        x, onehot = self.lifted(h), np.eye(len(self.fitted.y))[codes]
        out = row_uniforms(self.seed, Purpose.HOLD_OUT, ids) < _HELD_OUT
        self.fitted.add(x[~out], onehot[~out])
        self.held_out.add(x[out], onehot[out])

    def classifier(self) -> Callable[[Array], Array]:
        """Return what answers classes, of all rows, with the λ that was best on those held out."""
        every, seen = self.fitted + self.held_out, np.flatnonzero(self.fitted.y + self.held_out.y)
        power = self.best_power()
        W, b = solved(every, power)
        inner = _largest(W[:, seen], b[seen], seen)
        return lambda h: inner(self.lifted(h))

    def best_power(self) -> float:
        """Return the power of ten of λ with the least squared error on the rows held out."""
        if not self.fitted.rows[0] or not self.held_out.rows[0]:
            return 0.0
        mean, share = self.fitted.h / self.fitted.rows, self.fitted.y / self.fitted.rows
        hh, hy, _ = self.fitted.about(mean, share)
        values, V = np.linalg.eigh(hh)
        inside, far, squares = self.held_out.about(mean, share)
        inside, far, mine = V.T @ inside @ V, V.T @ far, V.T @ hy
        errors = []
        for ridge in _ridges(hh, POWERS):
            W = mine / (np.maximum(values, 0.0) + ridge)[:, None]
            errors.append(float(np.einsum("mk,mn,nk->", W, inside, W, optimize=True)) - 2 * float((W * far).sum()))
        return float(POWERS[int(np.argmin(np.array(errors) + squares))])

    def size(self) -> int:
        """Return the bytes kept, the random weights among them."""
        return self.fitted.nbytes + self.held_out.nbytes + (0 if self.R is None else self.R.nbytes)


def solved(sums: _Sums, power: float) -> tuple[Array, Array]:
    """Return W (M, C) and b (C,) of the ridge regression with an intercept."""
    mean, share = sums.h / sums.rows, sums.y / sums.rows
    hh, hy, _ = sums.about(mean, share)
    (ridge,) = _ridges(hh, np.array([power]))
    W = np.linalg.solve(hh + ridge * np.eye(len(hh)), hy)
    return W, share - mean @ W


def _ridges(hh: Array, powers: Array) -> Array:
    """Return λ in units of the mean squared feature, summed over the rows."""
    level = max(float(np.trace(hh)) / len(hh), np.finfo(float).tiny)
    ridges: Array = level * 10.0**powers
    return ridges


def _largest(W: Array, b: Array, codes: Array) -> Callable[[Array], Array]:
    """Return what answers the class of the largest hᵀW + b: (D, K), (K,), (K,)."""

    def answer(h: Array) -> Array:
        found: Array = codes[np.argmax(h.astype(np.float64) @ W + b, axis=1)]
        return found

    return answer


Maker = Callable[[int, int, int, int], StreamedHead]  # features, classes, random features, seed
STREAMED: Mapping[str, Maker] = {
    "ncm": lambda n_features, classes, _width, _seed: NearestMeans(n_features, classes),
    "slda": lambda n_features, classes, _width, _seed: SharedCovariance(n_features, classes),
    "ridge": lambda n_features, classes, _width, seed: StreamedRidge(n_features, classes, None, seed),
    "ranpac": StreamedRidge,
}

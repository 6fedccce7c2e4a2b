"""The density of a row relative to the other classes, Eqs. (22) and (23): r(z) = p̂(x, y) / Σ_y' p̂(x, y').

All classes share one space: rows of unit length u, a mean m_y for each class and one covariance, pooled within the
classes and shrunk.  Three corrections make r what it says where the features outnumber a class's rows:

- a row is judged by means and covariance without itself, in closed form;
- a squared distance to a mean of n rows is too long by p/n on average, which is taken off;
- in hundreds of dimensions such posteriors are far too sure, so their logs are multiplied by τ, fitted with the share
  of wrong labels ε to the labels themselves: P(label y) = (1 − ε) softmax(τ s)_y + ε/C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.common_rows import unit_rows

SHRINK = 0.3  # Σ = 0.7 S + 0.3 (tr S / D) I: within 0.01 nats of the best on held-out labels of five sets
_LEAST_SPREAD = 1e-9  # of a row's squared length: what is below it is rounding
_TAU = (3e-3, 5.0)  # where τ is looked for
_GRID, _STEPS = 16, 30
_PRECISION = 0.02  # of log τ
_EPSILON = (1e-6, 0.99)
_LEAST_GAIN = 3.0  # nats over labels at random, below which features say nothing of labels, nor of wrong ones
_LEAST_WEIGHT = 1e-12
_SMALL = 64  # matrices that are inverted at once
_LOWEST = -700.0  # log of the least r that is told from 0
_SINGLE = 1e12  # squared lengths above which distances of single precision could overflow on the way


@dataclass(frozen=True)
class ClassMoments:
    """Counts, means and pooled scatter of unit rows: sums that merge, so that parts of a set add up to the whole."""

    counts: Array  # (C,) float64
    mean: Array  # (C, D) float64
    scatter: Array  # (D, D) float64, the sum of (u − m_y)(u − m_y)ᵀ

    @classmethod
    def empty(cls, classes: int, n_features: int) -> ClassMoments:
        """Return the moments of no rows."""
        return cls(np.zeros(classes), np.zeros((classes, n_features)), np.zeros((n_features, n_features)))

    def merged(self, other: ClassMoments) -> ClassMoments:
        """Return the moments of both sets together: Chan's update, Eqs. (13) and (14), the shift of the means kept."""
        counts = self.counts + other.counts
        share = np.divide(other.counts, counts, out=np.zeros_like(counts), where=counts > 0)
        apart = other.mean - self.mean
        shift = apart * np.sqrt(self.counts * share)[:, None]
        scatter = self.scatter + other.scatter + shift.T @ shift
        return ClassMoments(counts, self.mean + apart * share[:, None], scatter)


class CommonGaussian:
    """Class means and one shrunk covariance of unit rows."""

    def __init__(self, moments: ClassMoments) -> None:
        self.counts, self.total = moments.counts, float(moments.counts.sum())
        n_features = moments.mean.shape[1]
        covariance = moments.scatter / max(self.total, 1.0)
        spread = float(np.trace(covariance))
        length = spread + float(self.counts @ np.square(moments.mean).sum(axis=1)) / max(self.total, 1.0)
        level = max(spread, _LEAST_SPREAD * length) / n_features or 1.0
        factor = np.linalg.cholesky((1 - SHRINK) * covariance + SHRINK * level * np.eye(n_features))
        self.whiten = _inverse_of_lower(factor)  # (D, D) lower: Σ⁻¹ = whitenᵀ whiten
        self.log_scale = -0.5 * n_features * np.log(2 * np.pi) - float(np.log(np.diag(factor)).sum())
        inverse_trace = float(np.einsum("ij,ij->", self.whiten, self.whiten))  # tr Σ⁻¹
        self.excess = (n_features - SHRINK * level * inverse_trace) / (1 - SHRINK)  # p = tr(Σ⁻¹ S)
        self.means = moments.mean @ self.whiten.T  # (C, D) whitened
        self.squares = np.einsum("cd,cd->c", self.means, self.means)

    def scores(self, u: Array) -> Array:
        """Return log N(u; m_k, Σ) of every class, the distances' excess taken off: (n, D) -> (n, C), u's precision."""
        return self._log_densities(self._distances(u), self.counts)

    def scores_without(self, u: Array, code: int) -> Array:
        """Return the same for counted rows of one class, each left out of that class's mean and of Σ.

        With v = u − m_y and f = n_y / (n_y − 1), the row's distance from the mean of the others is f v, and S without
        the row is S − f v vᵀ/N; Sherman and Morrison give the distances under the changed Σ.
        """
        d, count = self._distances(u), float(self.counts[code])
        own = d[:, code].astype(np.float64)
        f = count / (count - 1) if count > 1 else 1.0
        between = self.squares[code] + self.squares - 2 * (self.means @ self.means[code])
        along = d - between.astype(d.dtype)
        along += own[:, None].astype(d.dtype)  # twice vᵀ Σ⁻¹ (u − m_k)
        c = np.minimum((1 - SHRINK) * f / self.total, (1 - 1e-6) / np.maximum(own, 1e-12))
        along *= along
        along *= (c / (1 - c * own) / 4)[:, None].astype(d.dtype)
        d += along
        d[:, code] = f**2 * own / (1 - c * own)
        counts = self.counts.copy()
        counts[code] -= 1
        return self._log_densities(d, counts)

    def _distances(self, u: Array) -> Array:
        """Return the squared distances from the means: (n, D) -> (n, C).

        In the precision of the rows: there is one for every row and class, and each is gone through several times.
        """
        z = u @ self.whiten.T.astype(u.dtype)
        length = np.einsum("nd,nd->n", z, z, dtype=np.float64)
        largest = max(float(length.max(initial=0.0)), float(self.squares.max(initial=0.0)))
        d: Array = z @ self.means.T.astype(u.dtype)
        d = d.astype(u.dtype if largest < _SINGLE else np.float64, copy=False)
        d *= -2
        d += self.squares.astype(d.dtype)
        d += length[:, None].astype(d.dtype)
        return np.maximum(d, 0.0, out=d)

    def _log_densities(self, d: Array, counts: Array) -> Array:
        """Return the log-densities in place of the squared distances."""
        d *= -0.5
        d += (self.log_scale + 0.5 * self.excess / np.maximum(counts, 1)).astype(d.dtype)
        d[:, self.counts == 0] = -np.inf
        return d


def _inverse_of_lower(factor: Array) -> Array:
    """Return the inverse of a lower triangular matrix, by halves: a sixth of the work of a general inverse."""
    if len(factor) <= _SMALL:
        return np.tril(np.linalg.inv(factor))
    half, inverse = len(factor) // 2, np.zeros_like(factor)
    first, last = slice(None, half), slice(half, None)
    inverse[first, first], inverse[last, last] = map(_inverse_of_lower, (factor[first, first], factor[last, last]))
    inverse[last, first] = -inverse[last, last] @ (factor[last, first] @ inverse[first, first])
    return inverse


@dataclass(frozen=True)
class Calibration:
    """What makes the labels likeliest given the scores."""

    tau: float = 1.0
    epsilon: float = 0.0  # the share of labels that were replaced at random


@dataclass(frozen=True)
class Judged:
    """What is known of some rows."""

    log_r: Array  # (n,) log r(z), Eq. (23)
    right: Array  # (n,) the probability that the label is right
    likely: Array  # (n,) the likeliest other class
    log_p: Array  # (n,) log p̂(x | y) in the common space
    weight: Array  # (n,) what the row counts for in what is aimed at

    @classmethod
    def of_one_row(cls, rows: int, code: int, log_p: float) -> Judged:
        """Return what is known of a class's only row, which nothing can be compared with."""
        ones = np.ones(rows)
        return cls(np.zeros(rows), ones, np.full(rows, code), np.full(rows, log_p), ones)

    @classmethod
    def joined(cls, parts: Sequence[Judged]) -> Judged:
        """Return the parts as one."""
        return cls(*(np.concatenate([getattr(part, item.name) for part in parts]) for item in fields(cls)))


@dataclass(frozen=True)
class CommonSpace:
    """The density that all classes share, and what it was fitted to."""

    moments: ClassMoments
    calibration: Calibration
    normalize: bool  # rows are divided by their length
    counted: bool = True  # the rows to be judged are among those of the moments

    @cached_property
    def gaussian(self) -> CommonGaussian:
        """Means and covariance, by which rows are scored."""
        return CommonGaussian(self.moments)

    def rows(self, h: Array) -> Array:
        """Return rows as the density takes them."""
        return unit_rows(h) if self.normalize else h

    def of_classes(self, chosen: Array, counted: bool) -> CommonSpace:
        """Return the same for some of the classes, chosen (C,) bool, and rows that were counted or were not."""
        if chosen.all() and counted == self.counted:
            return self
        counts = self.moments.counts[chosen]
        share = counts.sum() / max(float(self.moments.counts.sum()), 1.0)
        moments = ClassMoments(counts, self.moments.mean[chosen], share * self.moments.scatter)
        return replace(self, moments=moments, counted=counted)

    def scores(self, u: Array, code: int) -> Array:
        """Return the scores of rows of one class, each left out where it was counted: (n, D) -> (n, C)."""
        return self.gaussian.scores_without(u, code) if self.counted else self.gaussian.scores(u)


def log_softmax(scores: Array) -> Array:
    """Return the log of the softmax of every row in float64: (n, K) -> (n, K)."""
    shifted = scores.astype(np.float64, copy=False) - scores.max(axis=1, keepdims=True)
    log_q: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return log_q


def calibrate(scores: Array, codes: Array) -> Calibration:
    """Return τ and ε of greatest likelihood, from scores that leave each row out: (n, C), (n,).

    Golden section over log τ, around the best of a grid; for each τ, EM over ε.
    """
    grid = np.linspace(np.log(_TAU[0]), np.log(_TAU[1]), _GRID)
    best = int(np.argmax([_likelihood(x, scores, codes)[0] for x in grid]))
    low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, _GRID - 1)])
    golden = (np.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = _likelihood(left, scores, codes)[0], _likelihood(right, scores, codes)[0]
    while high - low > _PRECISION:
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = _likelihood(left, scores, codes)[0]
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = _likelihood(right, scores, codes)[0]
    log_tau = (low + high) / 2
    likelihood, epsilon = _likelihood(log_tau, scores, codes)
    classes = int(np.isfinite(scores).any(axis=0).sum())
    known = len(codes) * (likelihood + np.log(classes)) > _LEAST_GAIN
    return Calibration(float(np.exp(log_tau)), epsilon if known else 0.0)


def _likelihood(log_tau: float, scores: Array, codes: Array) -> tuple[float, float]:
    """Return the mean log-likelihood of the labels at the best ε, and that ε."""
    classes = int(np.isfinite(scores).any(axis=0).sum())
    q = np.exp(log_softmax(np.exp(log_tau) * scores)[np.arange(len(codes)), codes])
    found = []
    for epsilon in (0.05, 0.5):
        for _ in range(_STEPS):
            wrong = epsilon / classes / ((1 - epsilon) * q + epsilon / classes)
            epsilon = float(np.clip(wrong.mean(), *_EPSILON))
        found.append((float(np.log((1 - epsilon) * q + epsilon / classes).mean()), epsilon))
    return max(found)


def judge(scores: Array, codes: Array | int, counts: Array, calibration: Calibration) -> Judged:
    """Return r, Eq. (23), and what follows from it, of rows with these scores (n, C) and classes (n,).

    With a share ε of the labels replaced at random, a label that says y is the row's own with probability
    ((1 − ε) + ε/C) r / ((1 − ε) r + ε/C).  A class's only row has nothing to be compared with, and counts as right.
    """
    rows, codes = np.arange(len(scores)), np.broadcast_to(codes, len(scores))
    shifted = scores * scores.dtype.type(calibration.tau)
    shifted -= shifted.max(axis=1, keepdims=True)
    log_r = shifted[rows, codes] - np.log(np.exp(shifted).sum(axis=1), dtype=np.float64)
    shifted[rows, codes] = -np.inf
    r, classes, epsilon = np.exp(np.maximum(log_r, _LOWEST)), int(np.count_nonzero(counts)), calibration.epsilon
    right = np.minimum((1 - epsilon + epsilon / classes) * r / ((1 - epsilon) * r + epsilon / classes), 1.0)
    alone = (counts[codes] < 2) | (classes < 2)
    log_r[alone], right[alone] = 0.0, 1.0
    weight = np.maximum(np.exp(log_r), _LEAST_WEIGHT)
    return Judged(log_r, right, np.argmax(shifted, axis=1), scores[rows, codes].astype(np.float64), weight)

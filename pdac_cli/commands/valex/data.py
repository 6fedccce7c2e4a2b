"""The validation experiment's data: ten Gaussians on a circle, whose density and posterior are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.rng import Purpose, generator

CLASSES = 10
_RADIUS, _VARIANCE = 3.0, 2.0
_HALF, _CELLS = 10.0, 50  # cells of side 0.4 over [−10, 10]²


@dataclass(frozen=True)
class Points:
    """Points with their labels."""

    x: Array  # (n, 2)
    y: Array  # (n,)


def means() -> Array:
    """Return (3 cos θ, 3 sin θ) at ten angles that divide the circle: (10, 2)."""
    angle = 2 * np.pi * np.arange(CLASSES) / CLASSES
    return _RADIUS * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def draw(count: int, seed: int, part: int) -> Points:
    """Draw labels uniformly and a point of each label's Gaussian."""
    rng = generator(seed, Purpose.SAMPLE_DATA, part)
    y = rng.integers(0, CLASSES, count)
    return Points(means()[y] + np.sqrt(_VARIANCE) * rng.standard_normal((count, 2)), y)


def log_likelihoods(x: Array) -> Array:
    """Return log p(x|y) for every y: (n, 2) -> (n, 10)."""
    squares = np.square(x[:, None] - means()).sum(axis=2)
    out: Array = -squares / (2 * _VARIANCE) - np.log(2 * np.pi * _VARIANCE)
    return out


def log_density(rows: Points) -> Array:
    """Return log p(z) = log p(x|y) + log p(y): (n,)."""
    out: Array = log_likelihoods(rows.x)[np.arange(len(rows.y)), rows.y] - np.log(CLASSES)
    return out


def posterior(x: Array) -> Array:
    """Return the Bayes posterior p(y|x): (n, 2) -> (n, 10)."""
    log_p = log_likelihoods(x)
    p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
    out: Array = p / p.sum(axis=1, keepdims=True)
    return out


def cells(x: Array) -> Array:
    """Return the cell each point lies in, −1 outside of the grid: (n, 2) -> (n,)."""
    place = np.floor((x + _HALF) * (_CELLS / (2 * _HALF))).astype(np.int64)
    inside = ((place >= 0) & (place < _CELLS)).all(axis=1)
    out: Array = np.where(inside, place[:, 0] * _CELLS + place[:, 1], -1)
    return out


@dataclass(frozen=True)
class Grid:
    """The cells that have both rows to draw and rows to test on."""

    train: Array  # (n,) the cell of each row, −1: none
    test: Array  # (m,)
    count: int

    @classmethod
    def of(cls, train: Points, test: Points) -> Grid:
        """Find the cells."""
        first, second = cells(train.x), cells(test.x)
        kept = np.intersect1d(first[first >= 0], second[second >= 0])
        number = np.full(_CELLS**2 + 1, -1)  # the last is that of −1
        number[kept] = np.arange(len(kept))
        return cls(number[first], number[second], len(kept))

    def probability(self, log_weight: Array) -> Array:
        """Return p_i, the share of the drawing weights (n,) that each cell has: (cells,)."""
        weight = np.exp(log_weight - log_weight.max())
        inside = self.train >= 0
        out: Array = np.bincount(self.train[inside], weight[inside], self.count) / weight.sum()
        return out

    def mean_of(self, values: Array) -> Array:
        """Return the mean of the test rows' values (…, m) in each cell: (…, cells)."""
        inside = self.test >= 0
        place, size = self.test[inside], np.bincount(self.test[inside], minlength=self.count)
        flat = values.reshape(-1, values.shape[-1])[:, inside]
        sums = np.stack([np.bincount(place, row, self.count) for row in flat])
        out: Array = (sums / size).reshape(*values.shape[:-1], self.count)
        return out

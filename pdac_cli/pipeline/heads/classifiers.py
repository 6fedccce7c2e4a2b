"""The one table of heads: each is trained on the rows kept and answers a class for every test row.

A linear head is trained on standardised features, by the mean and the standard deviation of all rows there were to
choose from; heads that go by distance take rows of unit length.  None has a constant that was tuned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import Array, Chunk
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.options.heads import Classifier
from pdac_cli.pipeline.trained_head import fit_logistic

Answer = Callable[[Array], Array]  # prepared rows (n, D) to their labels (n,)


@dataclass(frozen=True)
class FeatureScale:
    """Mean and standard deviation of all rows, by which heads are given features alike."""

    mean: Array  # (D,)
    std: Array  # (D,) none 0

    @classmethod
    def of(cls, h: Array) -> FeatureScale:
        """Return those of some rows, a feature that is constant left as it is: (n, D)."""
        std = h.std(axis=0, dtype=np.float64)
        return cls(h.mean(axis=0, dtype=np.float64), np.where(std > 0, std, 1.0))

    def standardized(self, h: Array) -> Array:
        """Return standardised rows in float32: (n, D) -> (n, D)."""
        x: Array = ((h - self.mean) / self.std).astype(np.float32)
        return x

    def unit(self, h: Array) -> Array:
        """Return rows of length 1 in float32: (n, D) -> (n, D)."""
        return unit_rows(h.astype(np.float32))


@dataclass(frozen=True)
class HeadKind:
    """One entry of the table."""

    train: Callable[[Array, Array], Answer]  # prepared rows (m, D), labels (m,)
    prepare: Callable[[FeatureScale, Array], Array]


@dataclass(frozen=True)
class TrainedHead:
    """A head that was trained on some rows."""

    answer: Answer
    prepare: Callable[[FeatureScale, Array], Array]


def logistic(x: Array, y: Array) -> Answer:
    """Fit the logistic regression that a selection is measured by everywhere: L2, C = 1."""
    W, b, labels = fit_logistic(x, y)
    return _linear(W, b, labels)


def ridge(x: Array, y: Array) -> Answer:
    """Fit one-hot targets by least squares with λ = D, the mean squared length of a standardised row.

    With rows in the place of directions where they are fewer: W = (XᵀX + λI)⁻¹XᵀT = Xᵀ(XXᵀ + λI)⁻¹T of centred X, T.
    """
    labels, codes = np.unique(y, return_inverse=True)
    targets = np.eye(len(labels))[codes]
    x_mean, t_mean = x.mean(axis=0, dtype=np.float64), targets.mean(axis=0)
    c, t = x - x_mean, targets - t_mean
    rows, n_features = c.shape
    if rows < n_features:
        W = c.T @ np.linalg.solve(c @ c.T + n_features * np.eye(rows), t)
    else:
        W = np.linalg.solve(c.T @ c + n_features * np.eye(n_features), c.T @ t)
    return _linear(W.T, t_mean - x_mean @ W, labels)


def nearest_mean(u: Array, y: Array) -> Answer:
    """Answer the class whose mean points most in the row's direction."""
    labels, codes = np.unique(y, return_inverse=True)
    sums = np.zeros((len(labels), u.shape[1]))
    np.add.at(sums, codes, u)
    return _linear(unit_rows(sums), np.zeros(len(labels)), labels)


def nearest_neighbour(u: Array, y: Array) -> Answer:
    """Answer the class of the row nearest in direction."""
    return _linear(u, np.zeros(len(u)), y)


HEADS: Mapping[Classifier, HeadKind] = {
    Classifier.LOGISTIC: HeadKind(logistic, FeatureScale.standardized),
    Classifier.RIDGE: HeadKind(ridge, FeatureScale.standardized),
    Classifier.NCM: HeadKind(nearest_mean, FeatureScale.unit),
    Classifier.NEAREST: HeadKind(nearest_neighbour, FeatureScale.unit),
}


def train_classifier(kind: Classifier, h: Array, y: Array, scale: FeatureScale) -> TrainedHead:
    """Train a head on rows as they are stored: h (m, D), y (m,)."""
    head = HEADS[kind]
    with one_blas_thread():
        return TrainedHead(head.train(head.prepare(scale, h), y), head.prepare)


def accuracies(heads: Sequence[TrainedHead], test: Iterable[Chunk], scale: FeatureScale) -> list[float]:
    """Return the share of the test rows that each head answers right; one pass for all heads."""
    right, rows = np.zeros(len(heads)), 0
    for chunk in test:
        prepared: dict[object, Array] = {}
        with one_blas_thread():
            for k, head in enumerate(heads):
                if head.prepare not in prepared:
                    prepared[head.prepare] = head.prepare(scale, chunk.h)
                right[k] += np.count_nonzero(head.answer(prepared[head.prepare]) == chunk.y)
        rows += len(chunk.y)
    return [float(share) for share in right / rows]


def _linear(W: Array, b: Array, labels: Array) -> Answer:
    """Return the head that answers the largest of W x + b: (K, D), (K,), (K,)."""
    weights, bias = W.T.astype(np.float32), b.astype(np.float32)

    def answer(x: Array) -> Array:
        found: Array = labels[np.argmax(x @ weights + bias, axis=1)]
        return found

    return answer

"""A linear head trained on features: logits where a file has none, and the measure of a selection."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np

from pdac_cli.arrays import Array, Chunk, Source
from pdac_cli.console import Console
from pdac_cli.engine.plan import Classes, Plan
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.sources import MappedSource
from pdac_cli.errors import DataError
from pdac_cli.rng import Purpose, row_uniforms

_STEPS = 200
_BLOCK = 1024  # rows whose logits are computed together; fixed, since BLAS may sum otherwise in another place


@dataclass(frozen=True)
class Head:
    """Logits h Wᵀ + b, one column for each class it has seen."""

    W: Array  # (K, D) float64
    b: Array  # (K,)
    classes: Array  # (K,) labels, ascending

    def logits(self, h: Array) -> Array:
        """Return the logits: (n, D) -> (n, K)."""
        logits: Array = h.astype(np.float64) @ self.W.T + self.b
        return logits

    def accuracy(self, h: Array, y: Array) -> float:
        """Return the share of rows whose largest logit is that of their label."""
        return float(np.mean(self.classes[self.logits(h).argmax(axis=1)] == y))


def train_head(h: Array, y: Array, mean: Array | None = None, std: Array | None = None) -> Head:
    """Fit scikit-learn's logistic regression (L2, C = 1) on standardised features: h (n, D), y (n,).

    Features are standardised by the given mean and standard deviation (D,), by default the rows' own, so that their
    units do not matter.  One class only: a head that always answers it.
    """
    classes = np.unique(y)
    if len(classes) == 1:
        return Head(np.zeros((1, h.shape[1])), np.zeros(1), classes)
    mean = h.mean(axis=0, dtype=np.float64) if mean is None else mean
    std = h.std(axis=0, dtype=np.float64) if std is None else std
    std = np.where(std > 0, std, 1.0)
    with one_blas_thread():
        W, b, _ = fit_logistic(((h - mean) / std).astype(np.float32), y)
    W = W / std
    return Head(W, b - W @ mean, classes)


def fit_logistic(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Return W (K, D), b (K,) and labels (K,) of a logistic regression (L2, C = 1) of x (m, D) float32 on y (m,).

    The weights are combinations of the rows, so fewer rows than features are turned into as many coordinates first.
    """
    labels = np.unique(y)
    if len(labels) == 1:
        return np.zeros((1, x.shape[1])), np.zeros(1), labels
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    basis = None
    if len(x) < x.shape[1]:
        basis, corner = np.linalg.qr(x.T.astype(np.float64))  # (D, m), (m, m)
        x = corner.T.astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a head good enough to rank rows by
        fitted = LogisticRegression(max_iter=_STEPS).fit(x, y)
    W, b = fitted.coef_.astype(np.float64), fitted.intercept_.astype(np.float64)
    if basis is not None:
        W = W @ basis.T
    if len(labels) == 2:  # scikit-learn gives the second class's side only
        W, b = np.concatenate([-W, W]) / 2, np.concatenate([-b, b]) / 2
    return W, b, labels


def with_head(source: Source, head: Head) -> Source:
    """Return a set with the logits of a head, a fixed number of rows at a time."""

    def change(chunk: Chunk) -> Chunk:
        return replace(chunk, logits=head.logits(chunk.h))

    return MappedSource(
        source,
        change,
        source.n_features,
        source.dtype,
        adds_logits=True,
        logit_rows=_BLOCK,
        logit_labels=head.classes,
    )


def train_on_source(source: Source, classes: Classes, plan: Plan, seed: int, console: Console) -> Source:
    """Return the set with the logits of a head trained on its own rows, a sample where memory is short, and say so."""
    if len(classes.labels) < 2:
        raise DataError(f"the rows are all of class {classes.labels[0]}; --head expects at least two classes to tell")
    rows = classes.total
    share = min(1.0, plan.memory / 4 / (rows * source.n_features * 8))
    h, y = [], []
    for chunk in source.chunks(_BLOCK):
        some = row_uniforms(seed, Purpose.HEAD, chunk.ids) < share
        h.append(chunk.h[some].astype(np.float32))
        y.append(chunk.y[some])
    labels = np.concatenate(y)
    missing = np.setdiff1d(classes.labels, labels)
    if len(missing):
        raise DataError(
            f"--head: no row of class {missing[0]} is among the {len(labels):,} that fit into --memory; raise it"
        )
    head = train_head(np.concatenate(h), labels)
    of = "" if share == 1 else f" of {rows:,}"
    console.note(f"--head: trained a linear head on {len(labels):,}{of} rows by logistic regression, for its logits")
    return with_head(source, head)

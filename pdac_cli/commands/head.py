"""A linear head trained on features: logits where a file has none, and the measure of a selection."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdac_cli.commands.offering import NamedSource
from pdac_cli.console import Console
from pdac_cli.density.blocks import Array
from pdac_cli.engine.arrays import ArrayChunk
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.source import Classes, Plan
from pdac_cli.errors import DataError
from pdac_cli.rng import Purpose, row_uniforms

_STEPS = 200
_BLOCK = 1024  # rows whose logits are computed together; fixed, since BLAS may sum otherwise in another place


@dataclass(frozen=True)
class Head:
    """Logits z = h Wᵀ + b, one column for each class it has seen."""

    W: Array  # (K, D) float64
    b: Array  # (K,)
    classes: Array  # (K,) labels, ascending

    def logits(self, h: Array) -> Array:
        """Return the logits: (n, D) -> (n, K)."""
        z: Array = h.astype(np.float64) @ self.W.T + self.b
        return z

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
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    mean = h.mean(axis=0, dtype=np.float64) if mean is None else mean
    std = h.std(axis=0, dtype=np.float64) if std is None else std
    std = np.where(std > 0, std, 1.0)
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a head good enough to rank rows by
        fitted = LogisticRegression(max_iter=_STEPS).fit(((h - mean) / std).astype(np.float32), y)
    W, b = fitted.coef_.astype(np.float64), fitted.intercept_.astype(np.float64)
    if len(classes) == 2:  # scikit-learn gives the second class's side only
        W, b = np.concatenate([-W, W]) / 2, np.concatenate([-b, b]) / 2
    W = W / std
    return Head(W, b - W @ mean, classes)


@dataclass(frozen=True)
class HeadSource:
    """A set of rows with the logits of a head; see `offering.NamedSource`."""

    source: NamedSource
    head: Head
    n: int
    dim: int
    dtype: np.dtype[Any]
    fingerprint: str
    files: tuple[str, ...]
    label_names: tuple[str, ...] | None
    has_logits: bool = True

    @classmethod
    def of(cls, source: NamedSource, head: Head) -> HeadSource:
        """Put a head beside a set."""
        names = ("n", "dim", "dtype", "fingerprint", "files", "label_names")
        return cls(source, head, **{name: getattr(source, name) for name in names})

    def chunks(self, rows: int, *, logits: bool = False) -> Iterator[ArrayChunk]:
        """Yield the usable rows; with logits a fixed number at a time."""
        for chunk in self.source.chunks(_BLOCK if logits else rows):
            yield ArrayChunk(chunk.ids, chunk.h, chunk.y, self.head.logits(chunk.h) if logits else None)

    def label_chunks(self, rows: int) -> Iterator[tuple[Array, Array]]:
        """Yield ids and labels."""
        return self.source.label_chunks(rows)


def head_source(source: NamedSource, classes: Classes, plan: Plan, seed: int, console: Console) -> HeadSource:
    """Train a head on the set's own rows and labels, a sample of them where memory is short, and say so."""
    if len(classes.labels) < 2:
        raise DataError(f"the rows are all of class {classes.labels[0]}; --head expects at least two classes to tell")
    rows = int(classes.counts.sum())
    share = min(1.0, plan.memory / 4 / (rows * source.dim * 8))
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
    return HeadSource.of(source, head)

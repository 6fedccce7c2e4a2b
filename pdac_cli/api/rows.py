"""Rows as callers have them (arrays, tensors, tables, data sets on disk, feature files) as one kind of source."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pdac_cli.api.labels import Labels, encoded
from pdac_cli.arrays import Array, Chunk, Source
from pdac_cli.console import Console
from pdac_cli.engine.sources import MemorySource
from pdac_cli.errors import DataError
from pdac_cli.files.featureset import FeatureSet
from pdac_cli.files.fingerprint import fingerprint_of, fingerprint_rows, float_dtype, nonfinite_rows
from pdac_cli.pipeline.row_access import report_unused_rows


class Sliced(Protocol):
    """An array that is read by slices and need not be in memory: of h5py, zarr or NumPy's memory maps."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __getitem__(self, rows: slice, /) -> Any:
        """Return rows."""


@dataclass(frozen=True)
class SlicedSource:
    """Rows that are read a slice at a time; see `arrays.Source`."""

    h: Sliced  # (n, D)
    y: Array  # (n,)
    logits: Sliced | None = None  # (n, K)
    fingerprint: str = ""
    files: tuple[str, ...] = ()
    label_names: tuple[str, ...] | None = None
    logit_labels: Array | None = None

    @property
    def n(self) -> int:
        """How many rows there are."""
        return int(self.h.shape[0])

    @property
    def n_features(self) -> int:
        """The number of features D."""
        return int(self.h.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """What features are given as."""
        return float_dtype(self.h.dtype)

    @property
    def has_logits(self) -> bool:
        """Whether there are logits beside the features."""
        return self.logits is not None

    def chunks(self, rows: int, *, logits: bool = False) -> Iterator[Chunk]:
        """Yield the rows, `rows` at a time."""
        for start in range(0, self.n, rows):
            stop = min(start + rows, self.n)
            h = finite(np.asarray(self.h[start:stop]).astype(self.dtype, copy=False), "X", start)
            beside = None
            if logits and self.logits is not None:
                beside = finite(np.asarray(self.logits[start:stop], float_dtype(self.logits.dtype)), "logits", start)
            yield Chunk(np.arange(start, stop), h, self.y[start:stop], beside)

    def label_chunks(self, rows: int) -> Iterator[tuple[Array, Array]]:
        """Yield ids and labels."""
        for start in range(0, self.n, rows):
            stop = min(start + rows, self.n)
            yield np.arange(start, stop), self.y[start:stop]


@dataclass(frozen=True)
class Given:
    """The caller's rows: as a source, and what the caller calls their classes."""

    source: Source
    names_of: Callable[[Array], Array]  # classes (m,) to the caller's labels (m,)


def take(source: Any, ids: Array) -> tuple[Array, Array | None]:
    """Return features (m, D) and, where there are any, logits (m, K) of rows of a source that was given."""
    if isinstance(source, FeatureSet):
        chunk = source.read_rows(ids, logits=source.has_logits)
        return chunk.h, chunk.logits
    return _pick(source.h, ids), None if source.logits is None else _pick(source.logits, ids)


def is_on_disk(X: Any) -> bool:
    """Whether rows are read a slice at a time: memory maps, and what is stored in chunks, as h5py and zarr do."""
    if isinstance(X, np.memmap):
        return True
    return not isinstance(X, np.ndarray) and all(hasattr(X, name) for name in ("shape", "dtype", "chunks"))


def is_files(X: Any) -> bool:
    """Whether rows are those of feature files."""
    return isinstance(X, FeatureSet | str | os.PathLike)


@contextmanager
def given_rows(X: Any, y: Any, logits: Any, console: Console, *, is_checked: bool = False) -> Iterator[Given]:
    """Give the rows as a source; `is_checked`: features in memory are known to be numbers, all finite."""
    if is_files(X):
        with _files(X, y, logits, console) as given:
            yield given
        return
    h: Any = X if is_on_disk(X) else feature_array(X, "X", is_checked)
    _check_shape(h, "X")
    labels = encoded(y, int(h.shape[0]))
    beside: Any = None
    if logits is not None:
        beside = logits if is_on_disk(logits) else feature_array(logits, "logits")
        _check_shape(beside, "logits")
        if beside.shape[0] != h.shape[0]:
            raise DataError(f"logits has {beside.shape[0]:,} rows, X has {h.shape[0]:,}; expected as many")
    kind = SlicedSource if is_on_disk(h) or is_on_disk(beside) else MemorySource
    source = kind(h, labels.codes, beside, fingerprint=_fingerprint(h, labels), label_names=labels.names)
    yield Given(source, labels.of)


def feature_array(X: Any, name: str, is_checked: bool = False) -> Array:
    """Return rows (n, D) in memory as floating-point numbers, copied only where they have to be."""
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise TypeError(
            f"{name} is a sparse matrix, and sparse input is not supported: densities are of dense features; "
            f"pass {name}.toarray() if it fits into memory"
        )
    if hasattr(X, "detach"):  # a tensor; whoever has one has loaded what it needs
        X = X.detach().cpu()
        X = X.float() if str(X.dtype).endswith("bfloat16") else X
    rows = np.asarray(X)
    if rows.dtype.kind == "O":
        try:
            rows = rows.astype(np.float64)
        except (TypeError, ValueError) as problem:
            raise DataError(f"{name} holds what is not a number ({problem}); expected numbers (n, D)") from problem
    if rows.dtype.kind not in "biuf":
        raise DataError(f"{name} is of type {rows.dtype}; expected real numbers (n, D)")
    _check_shape(rows, name)
    rows = rows.astype(float_dtype(rows.dtype), copy=False)
    return rows if is_checked else finite(rows, name, 0)


def finite(rows: Array, name: str, start: int) -> Array:
    """Return rows, whose first is the `start`-th of all, if all of them are finite."""
    bad = nonfinite_rows(rows)
    if bad.any():
        raise DataError(f"{name} has NaN or infinity in row {start + int(np.argmax(bad)):,}; expected finite numbers")
    return rows


def _check_shape(rows: Any, name: str) -> None:
    if len(rows.shape) != 2:
        raise DataError(f"{name} has {len(rows.shape)} dimensions {tuple(rows.shape)}; expected two, (n, D)")
    if 0 in rows.shape:
        raise DataError(f"{name} has shape {tuple(rows.shape)}; expected at least one row and one column")
    if np.dtype(rows.dtype).kind not in "biuf":
        raise DataError(f"{name} is of type {rows.dtype}; expected real numbers (n, D)")


def _fingerprint(h: Any, labels: Labels) -> str:
    """Return the fingerprint that a file of these rows has."""
    rows, n = fingerprint_rows(int(h.shape[0])), int(h.shape[0])
    some = _pick(h, rows)
    y = labels.codes[rows]
    if labels.names is not None:
        y = np.array([labels.names[code] for code in y.tolist()], object)
    return fingerprint_of(n, some.astype(float_dtype(some.dtype), copy=False), y)


def _pick(array: Any, rows: Array) -> Array:
    """Return some rows of an array, or of what is read by slices."""
    if isinstance(array, np.ndarray):
        return array[rows]
    return np.concatenate([np.asarray(array[row : row + 1]) for row in rows.tolist()])


@contextmanager
def _files(X: Any, y: Any, logits: Any, console: Console) -> Iterator[Given]:
    """Give the rows of feature files; a set that is open stays open."""
    for name, array in (("y", y), ("logits", logits)):
        if array is not None:
            raise DataError(f"{name} is given, and X is feature files, which have their own; expected one of both")
    source = X if isinstance(X, FeatureSet) else FeatureSet(X)
    try:
        names = source.label_names
        values = None if names is None else np.array(names, object)

        def names_of(codes: Array) -> Array:
            return codes if values is None else values[codes]

        yield Given(source, names_of)
        report_unused_rows(source, source.options, console)
        source.check_unchanged()
    finally:
        if source is not X:
            source.close()

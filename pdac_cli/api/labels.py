"""Labels of any kind, as the numbers of classes that the methods count with, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.errors import DataError


@dataclass(frozen=True)
class Labels:
    """The labels of some rows."""

    codes: Array  # (n,) int64, 0 or more
    names: tuple[str, ...] | None = None  # class k is called names[k]; None: the codes are the labels
    values: Array | None = None  # (K,) what the caller calls class k; None: as the codes

    def of(self, codes: Array) -> Array:
        """Return what the caller calls classes: (m,) -> (m,)."""
        return codes if self.values is None else self.values[codes]


def encoded(y: Any, rows: int) -> Labels:
    """Return labels (n,) as codes: whole numbers from 0 on are codes already, others are counted in sorted order."""
    if y is None:
        return Labels(np.zeros(rows, np.int64))
    column = label_array(y)
    if len(column) != rows:
        raise DataError(f"y has {len(column):,} labels, X has {rows:,} rows; expected as many")
    if column.dtype.kind in "iu" and (not len(column) or column.min() >= 0):
        return Labels(column.astype(np.int64))
    texts = np.array([_text(value) for value in column.tolist()], object)
    names, first, codes = np.unique(texts, return_index=True, return_inverse=True)
    return Labels(codes.reshape(-1).astype(np.int64), tuple(names.tolist()), column[first])


def label_array(y: Any) -> Array:
    """Return labels as an array (n,) of whole numbers, or of texts."""
    column = np.asarray(y.detach().cpu() if hasattr(y, "detach") else y)
    if column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    if column.ndim != 1:
        raise DataError(f"y has shape {column.shape}; expected one label per row, (n,)")
    if column.dtype.kind == "f":
        if not np.isfinite(column).all():
            raise DataError("Input y contains NaN or infinity; expected one label per row")
        if (column != np.floor(column)).any():
            raise DataError("Unknown label type: y has fractions; expected classes: whole numbers or texts")
        return column.astype(np.int64)
    if column.dtype.kind == "b":
        return column.astype(np.int64)
    if column.dtype.kind == "O":
        return _of_objects(column)
    if column.dtype.kind not in "iuSU":
        raise DataError(f"y is of type {column.dtype}; expected whole numbers or texts, one per row")
    return column.astype(column.dtype.newbyteorder("="), copy=False)


def _of_objects(column: Array) -> Array:
    """Return what a column of objects holds: whole numbers, or texts."""
    values: Sequence[Any] = column.tolist()
    if all(isinstance(value, str | bytes) for value in values):
        return column
    numbers = np.asarray(values)
    if numbers.dtype.kind in "iufb":
        return label_array(numbers)
    odd = next(value for value in values if not isinstance(value, str | bytes))
    raise DataError(f"Unknown label type: y has {odd!r}; expected whole numbers or texts, one per row")


def _text(value: Any) -> str:
    raw = value if isinstance(value, bytes) else str(value).encode("utf-8", "backslashreplace")
    return raw.decode("utf-8", "backslashreplace")

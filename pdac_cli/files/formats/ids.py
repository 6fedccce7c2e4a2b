"""What rows are called in their files: numbers or names, given as text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.formats.labels import is_text
from pdac_cli.files.formats.row_arrays import RowArray, check_width, take
from pdac_cli.storage.reading import quote, shape_text


class IdColumn:
    """The ids of one file's rows."""

    def __init__(self, array: RowArray, path: Path, key: str) -> None:
        shape, dtype = array.shape, array.dtype
        if len(shape) not in (1, 2) or shape[1:] not in ((), (1,)):
            raise DataError(f"{path}: {quote(key)} has shape {shape_text(shape)}; expected one id per row, (n,)")
        if not is_text(dtype) and dtype.kind not in "iu":
            raise DataError(f"{path}: {quote(key)} is of type {dtype}; expected whole numbers or strings, one per row")
        if dtype.kind in "SU":
            check_width(dtype.itemsize, path, key)
        self.rows = shape[0]
        self._array = array

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The ids of the given rows as they are stored, (m,)."""
        return take(self._array, rows).reshape(-1)

    def texts(self, rows: NDArray[np.int64]) -> list[str]:
        """The ids of the given rows; a path that is no UTF-8 comes back as the same bytes."""
        return [id_text(value) for value in self.take(rows).tolist()]


def fits_ids(array: RowArray, rows: int) -> bool:
    """Whether an array that nobody named may be the ids: one number or name for each row."""
    kind = is_text(array.dtype) or array.dtype.kind in "iu"
    return kind and array.shape in ((rows,), (rows, 1))


def id_text(value: Any) -> str:
    """An id as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return str(value).encode("utf-8", "backslashreplace").decode()

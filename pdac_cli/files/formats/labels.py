"""Labels as they are found in files, made into int64 class numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.formats.row_arrays import RowArray, check_width, take
from pdac_cli.storage.reading import quote, shape_text

_PASS_ROWS = 1 << 12  # names read at once, of up to 4 kB each
_MAX_NAMES, _MAX_LETTERS = 1 << 22, 1 << 26  # of all classes


@dataclass(frozen=True)
class Coding:
    """How what is stored becomes class numbers."""

    names: tuple[str, ...] | None  # class k is called names[k]
    codes: Mapping[str, int] | None  # the class of each stored name; None: numbers are stored
    ignore: int | None  # the class to leave out


@dataclass(frozen=True)
class Seen:
    """Rows of a single file that have been read before and need not be looked at for names of classes again."""

    rows: int = 0  # the first of the file
    names: tuple[str, ...] = ()  # found in them


NOTHING_SEEN = Seen()


def find_coding(
    columns: Sequence[LabelColumn],
    given: Sequence[tuple[str, ...] | None],
    ignore: int | None,
    seen: Seen = NOTHING_SEEN,
) -> Coding:
    """Stored names count in sorted order; stored numbers are the classes, named as the files say if they agree."""
    if columns[0].text:
        found = set(seen.names).union(*(column.names(seen.rows) for column in columns))
        names = tuple(sorted(found - {str(ignore)}))  # an ignored name has no number, so classes stay 0 to K − 1
        return Coding(names, {name: code for code, name in enumerate(names)}, -1)
    return Coding(given[0] if len(set(given)) == 1 else None, None, ignore)


class LabelColumn:
    """The labels of one file, whose first row is row ``offset`` of the whole set."""

    def __init__(self, array: RowArray, path: Path, key: str, offset: int) -> None:
        self.rows = _check_shape(array, path, key)
        self.text = _check_kind(array.dtype, path, key)
        if array.dtype.kind in "SU":
            check_width(array.dtype.itemsize, path, key)
        self._array, self._path, self._key, self._offset = array, path, key, offset

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Labels of the file's rows start to stop: int64, or str objects for labels that are names."""
        return self._decode(self._array.read(start, stop), np.arange(start, stop))

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Labels of the given rows of the file, (m,)."""
        return self._decode(take(self._array, rows), rows)

    def names(self, first: int = 0) -> set[str]:
        """All distinct names from row ``first`` on, found in one pass of bounded memory."""
        found: set[str] = set()
        letters = 0
        for start in range(first, self.rows, _PASS_ROWS):
            new = set(self.read(start, min(self.rows, start + _PASS_ROWS))) - found
            letters += sum(map(len, new))
            found |= new
            _check_names(len(found), letters, self._path, self._key)
        return found

    def encode(self, raw: NDArray[Any], rows: NDArray[np.int64], coding: Coding) -> NDArray[np.int64]:
        """Class numbers of what :meth:`read` or :meth:`take` gave; −1 for a stored name to be left out."""
        if coding.codes is not None:
            return np.array([coding.codes.get(name, -1) for name in raw], np.int64)
        labels: NDArray[np.int64] = raw
        used = np.ones(len(labels), bool) if coding.ignore is None else labels != coding.ignore
        why = "expected 0 or more; leave rows without a class out with --ignore-label"
        self._refuse(raw, (labels < 0) & used, rows, f"{why} -1")
        if coding.names is not None:
            why = f"expected at most {len(coding.names) - 1}, for {len(coding.names)} classes have names"
            self._refuse(raw, (labels >= len(coding.names)) & used, rows, why)
        return labels

    def _decode(self, values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
        values = values.reshape(-1)
        if self.text:
            return _names(values)
        if values.dtype.kind == "u" and values.dtype.itemsize == 8:
            self._refuse(values, values > np.uint64(2**63 - 1), rows, "expected at most 2^63 - 1")
        if values.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                whole = (np.floor(values) == values) & (np.abs(values) < 2.0**63)
            self._refuse(values, ~whole, rows, "expected whole numbers")
        return values.astype(np.int64)

    def _refuse(self, values: NDArray[Any], bad: NDArray[np.bool_], rows: NDArray[np.int64], why: str) -> None:
        if bad.any():
            first = int(np.argmax(bad))
            where = row_text(int(rows[first]), self._offset)
            raise DataError(f"{self._path}: {quote(self._key)} is {values[first]} in {where}; {why}")


def read_names(array: RowArray, path: Path, key: str) -> tuple[str, ...]:
    """Names that a file gives to its classes: (K,) strings, name k for class k."""
    if len(array.shape) != 1 or not is_text(array.dtype):
        raise DataError(f"{path}: {quote(key)} is no list of strings; expected (K,), one name per class")
    if array.dtype.kind in "SU":
        check_width(array.dtype.itemsize, path, key)
    names: dict[str, None] = {}
    letters = 0
    for start in range(0, array.shape[0], _PASS_ROWS):
        found = _names(array.read(start, min(array.shape[0], start + _PASS_ROWS)))
        expected = len(names) + len(found)
        letters += sum(map(len, found))
        names |= dict.fromkeys(found)
        if len(names) < expected:
            raise DataError(f"{path}: {quote(key)} names two classes alike; expected distinct names")
        _check_names(len(names), letters, path, key)
    return tuple(names)


def _check_names(count: int, letters: int, path: Path, key: str) -> None:
    """Refuse names of classes that together take more memory than any classes' do."""
    if count > _MAX_NAMES or letters > _MAX_LETTERS:
        raise DataError(
            f"{path}: {quote(key)} has {count:,} names or more, of {letters:,} letters; "
            "expected names of classes; give each class a number, or a shorter name"
        )


def row_text(row: int, offset: int) -> str:
    """How a row is named: its number in the set and, where that differs, in its file."""
    return f"row {row + offset:,}" + (f" (row {row:,} of this file)" if offset else "")


def is_text(dtype: np.dtype[Any]) -> bool:
    """Whether values are strings, of fixed or variable length."""
    return dtype.kind in "SU" or (dtype.kind == "O" and h5py.check_string_dtype(dtype) is not None)


def _check_shape(array: RowArray, path: Path, key: str) -> int:
    shape = array.shape
    if len(shape) == 2 and shape[1] > 1:
        raise DataError(
            f"{path}: {quote(key)} has shape {shape_text(shape)}, as one-hot labels have; expected one label per "
            "row, (n,); save labels.argmax(axis=1)"
        )
    if len(shape) not in (1, 2) or shape[1:] == (0,):
        raise DataError(f"{path}: {quote(key)} has shape {shape_text(shape)}; expected one label per row, (n,)")
    return shape[0]


def _check_kind(dtype: np.dtype[Any], path: Path, key: str) -> bool:
    if is_text(dtype):
        return True
    if dtype.kind not in "biuf":
        kind = "of variable length or objects" if dtype.kind == "O" else f"of type {dtype}"
        raise DataError(f"{path}: {quote(key)} is {kind}; expected integers or strings, one per row")
    return False


def _names(values: NDArray[Any]) -> NDArray[Any]:
    """Strings of any storage as str objects; bytes that are no UTF-8 are escaped, so names stay distinct."""
    known: dict[Any, str] = {}
    out = np.empty(len(values), object)
    for i, value in enumerate(values.tolist()):
        name = known.get(value)
        if name is None:
            raw = value if isinstance(value, bytes) else str(value).encode("utf-8", "backslashreplace")
            name = raw.decode("utf-8", "backslashreplace")
            known[value] = name
        out[i] = name
    return out

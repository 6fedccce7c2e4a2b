"""Parquet and Arrow files, and folders of them: columns by name, read by row groups or record batches.

pyarrow is an extra, ``pip install 'pdac-cli[parquet]'``.  A group of rows is unpacked as it is read, a little at a
time; going back in it begins it again.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.formats.named_arrays import JoinedArray, NamedArrays
from pdac_cli.files.formats.row_arrays import RowArray, check_row_bytes
from pdac_cli.storage.reading import quote, reading

PARQUET, ARROW = b"PAR1", b"ARROW1"
SUFFIXES = (".parquet", ".pq", ".arrow", ".feather")
_AT_ONCE = 4096  # rows unpacked together
_MAX_BATCH_BYTES = 1 << 30  # of a record batch, which is read whole


def open_parquet(path: Path) -> NamedArrays:
    """The columns of a Parquet or Arrow file."""
    pyarrow = load_pyarrow(path)
    with path.open("rb") as stream:
        is_arrow = stream.read(6) == ARROW
    with reading(path, "the file"):
        groups = _ArrowGroups(path) if is_arrow else _ParquetGroups(path)
        schema = groups.schema
    arrays: dict[str, Callable[[], RowArray]] = {}
    for field in schema:
        arrays[field.name] = partial(_Column, groups, path, field, pyarrow)
    return NamedArrays(path, [path], arrays, groups.close)


def open_parquet_folder(path: Path, files: Sequence[Path]) -> NamedArrays:
    """The columns that all files of a folder have, one file after the other."""
    parts = [open_parquet(file) for file in files]
    common = [name for name in parts[0].names() if all(name in part.names() for part in parts[1:])]

    def close() -> None:
        for part in parts:
            part.close()

    return NamedArrays(path, files, {name: partial(_joined, parts, files, name) for name in common}, close)


def _joined(parts: Sequence[NamedArrays], files: Sequence[Path], name: str) -> RowArray:
    return JoinedArray([part.get(name) for part in parts], files, name)


def load_pyarrow(path: Path) -> Any:
    """The library, or what to install."""
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            f"{path}: is a Parquet or Arrow file, and pyarrow is not installed; expected it to read them; "
            "pip install 'pdac-cli[parquet]'"
        ) from None
    return pyarrow


class _ParquetGroups:
    """A Parquet file's row groups."""

    def __init__(self, path: Path) -> None:
        from pyarrow import parquet

        self.path = path
        self._file = parquet.ParquetFile(path, memory_map=False, buffer_size=1 << 20, pre_buffer=False)
        self.schema = self._file.schema_arrow
        facts = self._file.metadata
        self.rows = [facts.row_group(k).num_rows for k in range(facts.num_row_groups)]

    def batches(self, group: int, name: str) -> Iterator[Any]:
        """A column of a group, some rows at a time."""
        for batch in self._file.iter_batches(_AT_ONCE, row_groups=[group], columns=[name], use_threads=False):
            yield batch.column(0)

    def close(self) -> None:
        self._file.close()


class _ArrowGroups:
    """An Arrow file's record batches."""

    def __init__(self, path: Path) -> None:
        import pyarrow

        self.path = path
        self._source = pyarrow.OSFile(str(path))
        self._file = pyarrow.ipc.open_file(self._source)
        self.schema = self._file.schema
        if path.stat().st_size > _MAX_BATCH_BYTES and self._file.num_record_batches == 1:
            raise DataError(
                f"{path}: is one record batch of {path.stat().st_size:,} bytes, which is read whole; expected batches "
                f"of less than {_MAX_BATCH_BYTES:,}; write it in smaller ones, or as Parquet"
            )
        self.rows = [self._file.get_batch(k).num_rows for k in range(self._file.num_record_batches)]

    def batches(self, group: int, name: str) -> Iterator[Any]:
        """A column of a batch."""
        yield self._file.get_batch(group).column(self.schema.get_field_index(name))

    def close(self) -> None:
        self._source.close()


class _Column:
    """A column as an array (n,), or (n, D) of lists of numbers that are all as long as the first."""

    def __init__(self, groups: _ParquetGroups | _ArrowGroups, path: Path, field: Any, pyarrow: Any) -> None:
        self._groups, self._path, self._key, self._pyarrow = groups, path, field.name, pyarrow
        self._ends = list(accumulate(groups.rows, initial=0))
        self._lock = threading.Lock()
        self._at, self._left = 0, np.empty(0)
        self._pieces: Iterator[Any] = self._from(0)
        kind, types = field.type, pyarrow.types
        if types.is_dictionary(kind):
            kind = kind.value_type
        self._width: int | None = None
        if types.is_fixed_size_list(kind):
            self._width, kind = kind.list_size, kind.value_type
        elif types.is_list(kind) or types.is_large_list(kind):
            kind = kind.value_type
            self._width = self._first_width()
        is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
        if is_text and self._width is None:
            self.dtype: np.dtype[Any] = h5py.string_dtype()
        elif types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind):
            self.dtype = np.dtype(kind.to_pandas_dtype())
        else:
            raise DataError(
                f"{path}: {quote(self._key)} is of type {str(field.type)[:60]}; expected numbers, names, or lists of "
                "numbers; name another column"
            )
        self.shape = (self._ends[-1],) if self._width is None else (self._ends[-1], self._width)
        check_row_bytes((self._width or 1) * self.dtype.itemsize, path, quote(self._key))
        self.step = _AT_ONCE

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …)."""
        with self._lock:
            found = list(self._pieces_of(start, stop))
        if len(found) == 1:
            return found[0].copy()
        return np.concatenate(found) if found else np.empty((0, *self.shape[1:]), self.dtype)

    def _pieces_of(self, start: int, stop: int) -> Iterator[NDArray[Any]]:
        if not self._at <= start <= self._at + len(self._left):
            self._seek(bisect_right(self._ends, start) - 1)
        at = start
        while at < stop:
            while at >= self._at + len(self._left):
                self._next()
            piece = self._left[at - self._at : stop - self._at]
            yield piece
            at += len(piece)

    def _seek(self, group: int) -> None:
        """Begin a group."""
        self._at, self._left, self._pieces = self._ends[group], np.empty((0, *self.shape[1:])), self._from(group)

    def _from(self, group: int) -> Iterator[Any]:
        for k in range(group, len(self._groups.rows)):
            yield from self._groups.batches(k, self._key)

    def _next(self) -> None:
        self._at += len(self._left)
        with reading(self._path, f"{quote(self._key)} from row {self._at:,} on"):
            piece = next(self._pieces, None)
        if piece is None:
            raise DataError(f"{self._path}: {quote(self._key)} ends at row {self._at:,}; expected {self.shape[0]:,}")
        with reading(self._path, f"{quote(self._key)} from row {self._at:,} on"):
            self._left = self._values(piece)

    def _values(self, piece: Any) -> NDArray[Any]:
        """A piece of the column as NumPy has it."""
        types = self._pyarrow.types
        if types.is_dictionary(piece.type):
            piece = piece.dictionary_decode()
        if piece.null_count:
            row = self._at + int(np.argmax(piece.is_null().to_numpy(zero_copy_only=False)))
            raise ValueError(f"row {row:,} has no value")
        if self._width is None:
            if self.dtype.kind == "O":
                return np.array([*piece.to_pylist(), None], object)[:-1]
            values: NDArray[Any] = piece.to_numpy(zero_copy_only=False)
            return values
        if not types.is_fixed_size_list(piece.type):
            lengths = np.diff(piece.offsets.to_numpy())
            if (lengths != self._width).any():
                k = int(np.argmax(lengths != self._width))
                raise ValueError(f"row {self._at + k:,} has {lengths[k]:,} numbers; the first has {self._width:,}")
        flat = piece.flatten()
        if flat.null_count:
            raise ValueError("a row holds a null")
        found: NDArray[Any] = flat.to_numpy(zero_copy_only=False).reshape(len(piece), self._width)
        return found

    def _first_width(self) -> int:
        """The length of the first row's list."""
        with reading(self._path, quote(self._key)):
            for piece in self._from(0):
                if len(piece):
                    return len(piece[0].as_py() or ())
        return 0

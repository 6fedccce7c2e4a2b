"""Arrays on disk, read by rows: HDF5 datasets, ``.npy`` files and members of ``.npz`` archives alike."""

from __future__ import annotations

import io
import math
import os
import struct
import threading
import weakref
import zipfile
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.formats.hdf5_chunks import ChunkCheck, packing_of
from pdac_cli.storage.reading import opened, quote, reading, shape_text

_SPAN_BYTES = 1 << 18  # wanted rows closer than this are read in one go
_MAX_ROW_BYTES = 1 << 28
_MAX_HEADER_BYTES = 1 << 16  # of an .npy file
_MAX_TEXT_BYTES = 4096  # of a class's or a sample's name
_TEXT_BLOCK_BYTES = 1 << 24
# https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html: length, and where in the file's heap it lies
_TEXT_REFERENCE = np.dtype([("length", "<u4"), ("place", "V12")])


class RowArray(Protocol):
    """An array of shape (n, …) on disk; only the rows asked for come into memory."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, …)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """As stored, in the byte order stored."""

    @property
    def step(self) -> int:
        """Rows lying so close that they are read together when only some of them are wanted."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …), as a new array."""


class Hdf5Array:
    """A dataset that :func:`pdac_cli.files.formats.hdf5_datasets.get_dataset` has checked."""

    def __init__(self, dataset: h5py.Dataset, path: Path, key: str) -> None:
        self._dataset, self._path, self._key = dataset, path, key
        with reading(path, quote(key)):
            self.shape: tuple[int, ...] = dataset.shape
            self.dtype: np.dtype[Any] = dataset.dtype
        self.step = _span(self.shape, self.dtype, path, quote(key))
        self._chunks = ChunkCheck(dataset, packing_of(dataset, path, key), path, key)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …)."""
        self._chunks.check(start, stop)
        if self.dtype.kind == "O":
            return self._read_texts(start, stop)
        return self._read(start, stop)

    def _read(self, start: int, stop: int) -> NDArray[Any]:
        with reading(self._path, f"{quote(self._key)} from row {start:,} to {stop:,}"):
            rows: NDArray[Any] = self._dataset[start:stop]
            return rows

    def _read_texts(self, start: int, stop: int) -> NDArray[Any]:
        """Strings of variable length, so many at a time that all may be one large one that many rows point at."""
        out = np.empty((stop - start, *self.shape[1:]), object)
        for first in range(start, stop, self._texts_at_once):
            last = min(stop, first + self._texts_at_once)
            out[first - start : last - start] = texts = self._read(first, last)
            longest = max(map(_length, texts.reshape(-1).tolist()), default=0)
            check_width(longest, self._path, self._key)
        return out

    @cached_property
    def _texts_at_once(self) -> int:
        longest = self._longest_text()
        check_width(longest if longest is not None else 0, self._path, self._key)
        return max(1, _TEXT_BLOCK_BYTES // max(16, longest or self._path.stat().st_size))

    def _longest_text(self) -> int | None:
        """Bytes of the longest string, from the references that HDF5 stores; None where these cannot be looked at."""
        with reading(self._path, quote(self._key)):
            start, sizes = self._dataset.id.get_offset(), self._dataset.file.id.get_create_plist().get_sizes()
            block = self._dataset.file.userblock_size
        if start is None or sizes != (8, 8) or block or Path(self._dataset.file.filename) != self._path:
            return None
        longest = 0
        with reading(self._path, quote(self._key)), self._path.open("rb") as stream:
            stream.seek(start)
            for first in range(0, self.shape[0], _TEXT_BLOCK_BYTES // 16):
                count = min(self.shape[0] - first, _TEXT_BLOCK_BYTES // 16) * math.prod(self.shape[1:])
                found = np.frombuffer(stream.read(16 * count), _TEXT_REFERENCE)
                longest = max(longest, int(found["length"].max(initial=0)))
        return longest


class FileArray:
    """A ``.npy`` file, or one stored uncompressed in an archive, whose values begin at ``offset`` of ``path``.

    It is read and not mapped: the pages of a mapped file that is cut off meanwhile end the process by SIGBUS.
    """

    def __init__(self, path: Path, header: Header, offset: int) -> None:
        self.shape, self.dtype = header.shape, header.dtype
        self._path, self._offset, self._fortran = path, offset, header.fortran and len(header.shape) > 1
        self.step = _span(self.shape, self.dtype, path, "the array")
        with reading(path, "the array"):
            self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, os.close, self._file)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …)."""
        rows, columns = stop - start, math.prod(self.shape[1:])
        size = self.dtype.itemsize
        data = np.empty(rows * columns * size, np.uint8)
        if not self._fortran:
            self._fill(data.data, start * columns * size)
            return self._shaped(data, (rows, *self.shape[1:]))
        for column in range(columns):
            part = data[column * rows * size : (column + 1) * rows * size]
            self._fill(part.data, (column * self.shape[0] + start) * size)
        return self._shaped(data, (rows, *self.shape[1:]), "F").copy(order="C")

    def _shaped(self, data: NDArray[np.uint8], shape: tuple[int, ...], order: Literal["C", "F"] = "C") -> NDArray[Any]:
        found: NDArray[Any] = data.view(self.dtype).reshape(shape, order=order)
        return found

    def _fill(self, into: memoryview, at: int) -> None:
        while into:
            with reading(self._path, "the array"):
                count = os.preadv(self._file, [into], self._offset + at)
            if not count:
                raise DataError(
                    f"{self._path}: ends {len(into):,} bytes too early, though it had them when it was opened; "
                    "expected it to stay as it was; run again on the complete file"
                )
            into, at = into[count:], at + count


class PackedArray:
    """A compressed member of an ``.npz`` archive, unpacked as it is read; going back starts again."""

    def __init__(self, archive: zipfile.ZipFile, member: str, path: Path, header: Header) -> None:
        if header.fortran:
            raise DataError(
                f"{path}: {quote(member)} is compressed column by column; expected rows; "
                "save np.ascontiguousarray of it"
            )
        self._archive, self._member, self._path, self._start = archive, member, path, header.size
        self.shape, self.dtype = header.shape, header.dtype
        self._row = math.prod(self.shape[1:]) * self.dtype.itemsize
        self.step = _span(self.shape, self.dtype, path, quote(member))
        self._stream: IO[bytes] | None = None
        self._lock = threading.Lock()  # one position for all readers

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …)."""
        with self._lock, reading(self._path, f"{quote(self._member)} from row {start:,} to {stop:,}"):
            if self._stream is None:
                self._stream = self._archive.open(self._member)
            self._stream.seek(self._start + start * self._row)
            data = self._stream.read((stop - start) * self._row)
        if len(data) < (stop - start) * self._row:
            raise DataError(f"{self._path}: {quote(self._member)} ends too early; expected all its rows; copy it again")
        return np.frombuffer(data, self.dtype).reshape(stop - start, *self.shape[1:]).copy()


class MemoryArray:
    """An array in memory."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values, self.shape, self.dtype, self.step = values, values.shape, values.dtype, 1 << 12

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …)."""
        return self._values[start:stop].copy()


class Header:
    """What an ``.npy`` file says of itself: shape, dtype, order, and the header's own size in bytes."""

    def __init__(self, stream: IO[bytes], path: Path, what: str) -> None:
        form: Any = np.lib.format
        with reading(path, what):
            start = stream.read(12)
            version = form.read_magic(io.BytesIO(start))
        if version not in ((1, 0), (2, 0)):
            raise DataError(f"{path}: {what} has format {version}; expected version 1 or 2 of .npy")
        length = int.from_bytes(start[8:10] if version == (1, 0) else start[8:12], "little")
        if length > _MAX_HEADER_BYTES:
            raise DataError(f"{path}: {what} has a header of {length:,} bytes; expected a few hundred; write it again")
        with reading(path, what):
            head = io.BytesIO(start + stream.read(length))
            form.read_magic(head)
            read = form.read_array_header_1_0 if version == (1, 0) else form.read_array_header_2_0
            self.shape, self.fortran, self.dtype = read(head)
        self.size = head.tell()
        if self.dtype.hasobject:
            raise DataError(
                f"{path}: {what} holds pickled objects, which may run code; expected numbers or fixed strings"
            )
        self.bytes = self.size + math.prod(self.shape) * self.dtype.itemsize
        if any(length < 0 for length in self.shape) or self.bytes >= 2**63:
            raise DataError(f"{path}: {what} has the impossible shape {shape_text(self.shape)}; write it again")
        if self.dtype.itemsize == 0:
            raise DataError(f"{path}: {what} has values of no bytes; expected numbers or strings; write it again")

    @classmethod
    def of(cls, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Header:
        """The header of an array of known shape, row after row, where none is stored."""
        made = cls.__new__(cls)
        made.shape, made.fortran, made.dtype, made.size = shape, False, dtype, 0
        made.bytes = math.prod(shape) * dtype.itemsize
        return made


def open_npy(path: Path) -> FileArray:
    """A ``.npy`` file whose size fits its header."""
    with opened(path) as stream:
        header = Header(stream, path, "the array")
    return _file_array(path, header, 0, path.stat().st_size, "the file")


def open_member(archive: zipfile.ZipFile, member: str, path: Path) -> RowArray:
    """A member of an ``.npz`` archive: read in its place if it is stored as it is, else unpacked while reading."""
    with reading(path, quote(member)):
        info = archive.getinfo(member)
        stream = archive.open(info)
    with stream:
        header = Header(stream, path, quote(member))
    if info.compress_type != zipfile.ZIP_STORED:
        _check_size(path, header, info.file_size, quote(member))
        return PackedArray(archive, member, path, header)
    with reading(path, quote(member)), path.open("rb") as file:
        file.seek(info.header_offset + 26)  # the local header repeats the name and may hold more than the directory
        lengths = struct.unpack("<2H", file.read(4))
    return _file_array(path, header, info.header_offset + 30 + sum(lengths), info.file_size, quote(member))


def _file_array(path: Path, header: Header, offset: int, size: int, what: str) -> FileArray:
    _check_size(path, header, size, what)
    if 0 in header.shape or header.shape == ():
        raise DataError(f"{path}: {what} has shape {shape_text(header.shape)}; expected at least one row")
    return FileArray(path, header, offset + header.size)


def _check_size(path: Path, header: Header, size: int, what: str) -> None:
    if size < header.bytes:
        raise DataError(f"{path}: {what} is truncated: expected {header.bytes:,} bytes, has {size:,}; copy it again")


def check_width(width: int, path: Path, key: str) -> None:
    """Refuse strings of more bytes than a name has."""
    if width > _MAX_TEXT_BYTES:
        raise DataError(
            f"{path}: {quote(key)} has strings of {width:,} bytes; expected names of at most {_MAX_TEXT_BYTES:,}"
        )


def _length(text: object) -> int:
    return len(text) if isinstance(text, bytes | str) else 0


def check_row_bytes(row: int, path: Path, what: str) -> None:
    """Refuse rows too large to be read one at a time."""
    if row > _MAX_ROW_BYTES:
        raise DataError(f"{path}: one row of {what} has {row:,} bytes; expected at most {_MAX_ROW_BYTES:,}")


def _span(shape: tuple[int, ...], dtype: np.dtype[Any], path: Path, what: str) -> int:
    """Rows that are read together, at least one: which must therefore be of a size that can be."""
    row = math.prod(shape[1:]) * dtype.itemsize
    check_row_bytes(row, path, what)
    return max(1, _SPAN_BYTES // max(1, row))


def take(array: RowArray, rows: NDArray[np.int64]) -> NDArray[Any]:
    """The given rows (m,), any order, duplicates allowed: (m, …)."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and np.all(rows[1:] - rows[:-1] == 1):
        return array.read(int(rows[0]), int(rows[-1]) + 1)
    distinct, back = np.unique(rows, return_inverse=True)
    out = np.empty((len(distinct), *array.shape[1:]), array.dtype)
    edges = np.flatnonzero(np.diff(distinct // array.step)) + 1
    for part in np.split(np.arange(len(distinct)), edges):
        if len(part):
            first, last = int(distinct[part[0]]), int(distinct[part[-1]])
            out[part] = array.read(first, last + 1)[distinct[part] - first]
    return out[back]

"""Arrays on disk, read by rows: HDF5 datasets, ``.npy`` files and members of ``.npz`` archives alike."""

from __future__ import annotations

import math
import threading
import zipfile
from pathlib import Path
from typing import IO, Any, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.messages import quote, reading, shape_text

_SPAN_BYTES = 1 << 18  # wanted rows closer than this are read in one go


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
    """A dataset that :func:`pdac_cli.files.datasets.get_dataset` has checked."""

    def __init__(self, dataset: h5py.Dataset, path: Path, key: str) -> None:
        self._dataset, self._path, self._key = dataset, path, key
        with reading(path, quote(key)):
            self.shape: tuple[int, ...] = dataset.shape
            self.dtype: np.dtype[Any] = dataset.dtype
        self.step = _span(self.shape, self.dtype)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …)."""
        with reading(self._path, f"{quote(self._key)} from row {start:,} to {stop:,}"):
            rows: NDArray[Any] = self._dataset[start:stop]
            return rows


class MappedArray:
    """A memory-mapped ``.npy`` file, or one stored uncompressed in an archive, at ``offset`` of ``path``."""

    def __init__(self, path: Path, header: Header, offset: int) -> None:
        self.shape, self.dtype = header.shape, header.dtype
        order: Any = "F" if header.fortran else "C"
        with reading(path, "the array"):
            self._map = np.memmap(path, header.dtype, "r", offset, header.shape, order)
        self.step = _span(self.shape, self.dtype)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …)."""
        return np.array(self._map[start:stop], order="C", subok=False)


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
        self.step = _span(self.shape, self.dtype)
        self._stream: IO[bytes] | None = None
        self._lock = threading.Lock()  # one position for all readers

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …)."""
        with self._lock, reading(self._path, f"{quote(self._member)} from row {start:,} to {stop:,}"):
            if self._stream is None:
                self._stream = self._archive.open(self._member)
            self._stream.seek(self._start + start * self._row)
            data = self._stream.read((stop - start) * self._row)
            return np.frombuffer(data, self.dtype).reshape(stop - start, *self.shape[1:]).copy()


class Header:
    """What an ``.npy`` file says of itself: shape, dtype, order, and the header's own size in bytes."""

    def __init__(self, stream: IO[bytes], path: Path, what: str) -> None:
        form: Any = np.lib.format
        with reading(path, what):
            version = form.read_magic(stream)
            if version not in ((1, 0), (2, 0)):
                raise DataError(f"{path}: {what} has format {version}; expected version 1 or 2 of .npy")
            read = form.read_array_header_1_0 if version == (1, 0) else form.read_array_header_2_0
            self.shape, self.fortran, self.dtype = read(stream)
            self.size = stream.tell()
        if self.dtype.hasobject:
            raise DataError(
                f"{path}: {what} holds pickled objects, which may run code; expected numbers or fixed strings"
            )
        self.bytes = self.size + math.prod(self.shape) * self.dtype.itemsize
        if any(length < 0 for length in self.shape) or self.bytes >= 2**63:
            raise DataError(f"{path}: {what} has the impossible shape {shape_text(self.shape)}; write it again")


def open_npy(path: Path) -> MappedArray:
    """A memory-mapped ``.npy`` file whose size fits its header."""
    with reading(path, "the file"), path.open("rb") as stream:
        header = Header(stream, path, "the array")
    return _mapped(path, header, 0, path.stat().st_size, "the file")


def open_member(archive: zipfile.ZipFile, member: str, path: Path) -> RowArray:
    """A member of an ``.npz`` archive: mapped if it is stored as it is, else unpacked while reading."""
    with reading(path, quote(member)):
        info = archive.getinfo(member)
        with archive.open(info) as stream:
            header = Header(stream, path, quote(member))
        if info.compress_type != zipfile.ZIP_STORED:
            _check_size(path, header, info.file_size, quote(member))
            return PackedArray(archive, member, path, header)
        with path.open("rb") as stream:  # the local header repeats the name and may hold more than the directory
            stream.seek(info.header_offset + 26)
            lengths = np.frombuffer(stream.read(4), "<u2")
        offset = info.header_offset + 30 + int(lengths.sum())
        return _mapped(path, header, offset, info.file_size, quote(member))


def _mapped(path: Path, header: Header, offset: int, size: int, what: str) -> MappedArray:
    _check_size(path, header, size, what)
    if 0 in header.shape or header.shape == ():
        raise DataError(f"{path}: {what} has shape {shape_text(header.shape)}; expected at least one row")
    return MappedArray(path, header, offset + header.size)


def _check_size(path: Path, header: Header, size: int, what: str) -> None:
    if size < header.bytes:
        raise DataError(f"{path}: {what} is truncated: expected {header.bytes:,} bytes, has {size:,}; copy it again")


def _span(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    return max(1, _SPAN_BYTES // max(1, math.prod(shape[1:]) * dtype.itemsize))


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

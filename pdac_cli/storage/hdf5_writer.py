"""Writing HDF5 so that a full disk or a signal is an ordinary error.

When one of HDF5's own writes fails, or an exception rises through them, the file cannot be closed any more and the
process ends in a segmentation fault: https://github.com/h5py/h5py/issues/914, and for file objects .../issues/2160.
So small files are built in memory; large ones are written through a file object that never fails but keeps what the
disk refused, and signals wait until HDF5 has returned.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pdac_cli.storage.atomic import atomic_path, write_bytes
from pdac_cli.storage.signals import deferred_signals


def write_hdf5(path: Path, fill: Callable[[h5py.File], None], force: bool) -> None:
    """Write what ``fill`` puts into a new file; it appears complete or not at all.  For what fits in memory."""
    write_bytes(path, hdf5_bytes(fill), force)


def hdf5_bytes(fill: Callable[[h5py.File], None]) -> bytes:
    """Return the bytes of a file with what ``fill`` puts into it; signals wait until it is closed."""
    memory = io.BytesIO()
    with deferred_signals(), h5py.File(memory, "w") as file:
        fill(file)
    return memory.getvalue()


def text_dtype(values: Sequence[bytes]) -> np.dtype[Any]:
    """The fixed-length UTF-8 type that holds all ``values``.

    Damaged strings of variable length make the HDF5 library loop for ever or crash, so we write none.
    """
    dtype: np.dtype[Any] = h5py.string_dtype("utf-8", max([1, *map(len, values)]))
    return dtype


class GrowingFile:
    """A new HDF5 file that is written bit by bit."""

    def __init__(self, disk: _PatientFile) -> None:
        self._disk = disk
        self._file: h5py.File | None = None

    def open(self) -> None:
        """Begin the file."""
        with deferred_signals():
            self._file = h5py.File(self._disk, "w")

    @contextmanager
    def writing(self) -> Iterator[h5py.File]:
        """The file, to write to; signals and the disk's errors are raised at the end of the block."""
        with deferred_signals():
            yield self._file
        if self._disk.error is not None:
            raise self._disk.error

    def close(self) -> None:
        """End the file, if it was begun; once more is no harm."""
        with self.writing() as file:
            if file is not None:
                file.close()


@contextmanager
def growing_hdf5(path: Path, force: bool) -> Iterator[GrowingFile]:
    """Write a new file of any size; it appears at ``path`` when the block ends well."""
    with atomic_path(path, force) as temporary, _PatientFile(temporary) as disk:
        growing = GrowingFile(disk)
        try:
            growing.open()
            yield growing
        finally:
            try:
                growing.close()
            except Exception:
                raise
            except BaseException:  # a signal, just before it could be made to wait: there is only one
                growing.close()
                raise


class _PatientFile(io.RawIOBase):
    """A file whose operations always succeed: from the first failure on, writes are kept in memory."""

    def __init__(self, path: Path) -> None:
        self._raw = path.open("r+b", buffering=0)
        self._position = 0
        self._kept: list[tuple[int, bytes]] = []  # offset and bytes, oldest first
        self.error: OSError | None = None

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move; HDF5 asks for the end to learn the size."""
        if whence == io.SEEK_END:
            offset += max([self._raw.seek(0, io.SEEK_END), *(at + len(data) for at, data in self._kept)])
        self._position = offset
        return offset

    def tell(self) -> int:
        """The position."""
        return self._position

    def write(self, data: Any) -> int:
        """Write all of ``data`` to the disk or, once that has failed, keep it."""
        view = memoryview(data).cast("B")
        if self.error is None:
            try:
                self._raw.seek(self._position)
                left = view
                while left:
                    left = left[self._raw.write(left) :]
            except OSError as problem:
                self.error = problem
        if self.error is not None:
            self._kept.append((self._position, bytes(view)))
        self._position += len(view)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer`` with what was written there, wherever it is."""
        view = memoryview(buffer).cast("B")
        start, stop = self._position, self._position + len(view)
        self._raw.seek(start)
        self._raw.readinto(view)
        for at, data in self._kept:
            low, high = max(start, at), min(stop, at + len(data))
            if low < high:
                view[low - start : high - start] = data[low - at : high - at]
        self._position = stop
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Cut or extend the file on the disk, unless that has failed before."""
        size = self._position if size is None else size
        if self.error is None:
            try:
                self._raw.truncate(size)
            except OSError as problem:
                self.error = problem
        return size

    def close(self) -> None:
        """Close the file on the disk."""
        self._raw.close()
        super().close()

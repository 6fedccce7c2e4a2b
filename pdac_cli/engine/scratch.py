"""Room beyond memory: files without a name, so that nothing is left of them however the process ends."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import IO

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.blocks import Allocate
from pdac_cli.errors import StorageError


@contextmanager
def scratch_file(size: int) -> Iterator[IO[bytes]]:
    """Open a scratch file for about `size` bytes, in TMPDIR."""
    _check_room(size)
    with tempfile.TemporaryFile(prefix="pdac-") as file:
        yield file


def write_at(file: IO[bytes], data: memoryview, at: int) -> None:
    """Write all of `data` at that place of a scratch file."""
    try:
        while data:
            done = os.pwrite(file.fileno(), data, at)
            data, at = data[done:], at + done
    except OSError as error:
        raise _refused(error) from error


def read_at(file: IO[bytes], into: memoryview, at: int) -> None:
    """Fill `into` from that place of a scratch file."""
    while into:
        done = os.preadv(file.fileno(), [into], at)
        into, at = into[done:], at + done


def allocator(limit: int) -> Allocate:
    """Return a function that makes zeros in memory up to `limit` bytes and in a scratch file above."""

    def allocate(shape: tuple[int, ...]) -> Array:
        size = prod(shape) * 8
        if size <= limit:
            return np.zeros(shape)
        _check_room(size)
        with tempfile.TemporaryFile(prefix="pdac-") as file:  # the mapping outlives the file object
            try:  # now, for a disk that is full when a page of it is written ends the process
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                raise _refused(error) from error
            return np.memmap(file, np.float64, "r+", shape=shape)

    return allocate


def _refused(error: OSError) -> StorageError:
    return StorageError(
        f"the scratch file in {tempfile.gettempdir()}: {os.strerror(error.errno or 0).lower()}; "
        "set TMPDIR to a larger disk or raise --memory"
    )


def _check_room(size: int) -> None:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if size > free:
        raise StorageError(
            f"the scratch file needs {size:,} bytes and {folder} has {free:,} free; "
            "set TMPDIR to a larger disk or raise --memory"
        )

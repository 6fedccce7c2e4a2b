"""What input files have in common when they are wrong: how a name is shown, how a damage is said."""

from __future__ import annotations

import lzma
import re
import stat
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pdac_cli.errors import DataError, StorageError

# What h5py, zipfile and numpy raise on content that is not what it says it is.  Only their calls belong into a block
# that catches these: around code of ours they would make bad data of its bugs.
LIBRARY_ERRORS: tuple[type[Exception], ...] = (
    OSError, RuntimeError, ValueError, LookupError, TypeError, OverflowError, EOFError, MemoryError,
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error,
    SyntaxError, tokenize.TokenError,  # of an array's header, which NumPy parses
)  # fmt: skip


def quote(name: str, limit: int = 60) -> str:
    """A name out of a file, safe to print: control characters escaped, long ones cut in the middle."""
    if len(name) > limit:
        name = f"{name[: limit // 2]}…{name[-limit // 3 :]}"
    return repr(name)


def plain(problem: BaseException, limit: int = 100) -> str:
    """The reason inside a library's message, on one line and without control characters."""
    text = str(problem)
    inner = re.search(r"\((.*)\)", text, re.DOTALL)  # HDF5's own reason stands in brackets
    text = " ".join((inner[1] if inner else text).split())
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text[:limit] or type(problem).__name__


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape with digit groups: ``(5,000, 512)``."""
    return f"({', '.join(f'{size:,}' for size in shape)})"


def check_readable(path: Path, expected: str) -> None:
    """Refuse a path that is not there, not a regular file (a pipe would block us) or empty."""
    try:
        info = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path}: not found; expected {expected}; check the path") from None
    except (OSError, ValueError) as problem:
        raise StorageError(f"{path}: cannot be read ({plain(problem)}); expected {expected}") from problem
    if stat.S_ISDIR(info.st_mode):
        raise DataError(f"{path}: is a folder; expected {expected}; name one inside, or a pattern in quotes")
    if not stat.S_ISREG(info.st_mode):
        raise DataError(f"{path}: is not a regular file; expected {expected} on disk; save it first")
    if info.st_size == 0:
        raise DataError(f"{path}: is empty; expected {expected}; write it again")


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn whatever a library raises on damaged content into a :class:`DataError` saying what was read.

    The block holds calls of the library and nothing else.
    """
    try:
        yield
    except PermissionError as problem:
        raise StorageError(f"{path}: permission denied; expected a file you may read") from problem
    except LIBRARY_ERRORS as problem:
        raise DataError(
            f"{path}: {what} cannot be read ({plain(problem)}); expected undamaged data; write the file again"
        ) from problem


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The file, open for reading; only the opening's errors are the file's, those of the block are its own."""
    with reading(path, "the file"):
        stream = path.open("rb")
    with stream:
        yield stream


def state_of(path: Path) -> tuple[int, ...]:
    """What tells a file from the one that replaces it, or from itself after a change; () for none."""
    try:
        info = path.stat()
    except OSError:
        return ()
    return info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns

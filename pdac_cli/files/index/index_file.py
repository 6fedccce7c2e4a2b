"""Index files: which rows of which feature files are kept, as text, ``.npy``, JSON or HDF5.

JSON and HDF5 carry everything and can be read back as a buffer; text and ``.npy`` carry the row numbers.
"""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.formats.row_arrays import open_npy
from pdac_cli.files.index.hdf5_index import index_from_hdf5, index_to_hdf5
from pdac_cli.files.index.index_schema import Index, IndexSource, SuspectRows, find_problem, first_repeat
from pdac_cli.files.index.json_index import index_from_json, index_to_json
from pdac_cli.storage.atomic import is_special, write_bytes
from pdac_cli.storage.reading import check_readable, opened, quote, reading, shape_text

__all__ = [
    "Index", "IndexSource", "SuspectRows", "format_text", "index_suffix", "read_index", "read_rows", "write_index",
]  # fmt: skip

SUFFIXES = (".txt", ".npy", ".json", ".h5")
_EXPECTED = "an index file of pdac select"


def index_suffix(path: Path, others: tuple[str, ...] = ()) -> str:
    """Which of the four forms a path asks for, to be checked before long work; devices and pipes get text."""
    if path.suffix in SUFFIXES:
        return path.suffix
    if is_special(path):
        return ".txt"
    found = f"ends in {path.suffix}" if path.suffix else "has no suffix"
    raise UsageError(f"{path}: {found}; expected {', '.join((*SUFFIXES, *others)[:-1])} or {(*SUFFIXES, *others)[-1]}")


def write_index(index: Index, path: Path, force: bool, by_id: bool = False) -> None:
    """Write the form that the suffix asks for, text by rows' ids where asked; the same index gives the same bytes."""
    suffix = index_suffix(path)
    problem = find_problem(index)
    if problem:
        raise ValueError(problem)
    forms: Mapping[str, Callable[[Index], bytes]] = {
        ".txt": lambda index: format_text(index, by_id).encode("utf-8", "surrogateescape"),
        ".npy": _to_npy,
        ".json": index_to_json,
        ".h5": index_to_hdf5,
    }
    write_bytes(path, forms[suffix](index), force)


def format_text(index: Index, by_id: bool = False) -> str:
    """One row index, or id, a line; with several sources after its task and a tab."""
    rows = _ids_a_line(index) if by_id else map(str, index.row.tolist())
    if len(index.sources) == 1:
        return "".join(f"{row}\n" for row in rows)
    return "".join(f"{task}\t{row}\n" for task, row in zip(index.task.tolist(), rows, strict=True))


def _ids_a_line(index: Index) -> tuple[str, ...]:
    """The ids, if each is there and one line: what others wrote must not break lines or drive a terminal."""
    for k, text in enumerate(index.ids or ()):
        if not text or any(unicodedata.category(letter) == "Cc" for letter in text):
            found = f"is called {quote(text)}" if text else "has no id"
            where = ", ".join(index.sources[index.source[k]].files[:1])
            raise DataError(
                f"{where}: row {index.row[k]:,} {found}; expected text of one line to print; "
                "print row numbers, or write .json"
            )
    if index.ids is None:
        where = ", ".join(index.sources[-1].files[:1])
        raise DataError(f"{where}: says nothing of what its rows are called; expected ids; name them with --ids-key")
    return index.ids


def _to_npy(index: Index) -> bytes:
    """int64 (m,), or (m, 2) of task and row with several sources."""
    array = index.row if len(index.sources) == 1 else np.stack([index.task, index.row], axis=1)
    memory = io.BytesIO()
    np.lib.format.write_array(memory, np.ascontiguousarray(array, "<i8"), version=(1, 0), allow_pickle=False)
    return memory.getvalue()


def read_index(path: Path) -> Index:
    """Read everything an index file in JSON or HDF5 carries, checked."""
    form = _form(path)
    if form == ".h5":
        return index_from_hdf5(path)
    if form == ".json":
        return index_from_json(path)
    raise DataError(
        f"{path}: holds row numbers only; expected an index in JSON or HDF5, which also name their feature files; "
        "write it with -o and a name ending in .json or .h5"
    )


def read_rows(path: Path, n: int | None) -> NDArray[np.int64]:
    """Row numbers (m,) of one feature set, from any of the four forms: distinct, from 0 to n − 1 if n is known."""
    form = _form(path)
    if form in (".json", ".h5"):
        index = read_index(path)
        _refuse_several(len(index.sources) > 1, path)
        rows = index.row
    else:
        rows = _rows_of_npy(path) if form == ".npy" else _rows_of_text(path)
    outside = (rows < 0) | (rows >= (2**63 - 1 if n is None else n))
    if outside.any():
        limit = "0 or more" if n is None else f"0 to {n - 1:,}, for there are {n:,} rows"
        raise DataError(f"{path}: row {rows[np.argmax(outside)]:,} is out of range; expected {limit}")
    repeat = first_repeat(rows)
    if repeat is not None:
        raise DataError(f"{path}: row {rows[repeat]:,} is listed twice; expected each row once")
    return rows


def _form(path: Path) -> str:
    """The form a file is in, by its content."""
    check_readable(path, _EXPECTED)
    with reading(path, "the file"), path.open("rb") as stream:
        start = stream.read(4096)
    if start[:6] == b"\x93NUMPY":
        return ".npy"
    if start[:8] == b"\x89HDF\r\n\x1a\n" or path.suffix == ".h5" or h5py.is_hdf5(path):
        return ".h5"
    return ".json" if start.lstrip()[:1] == b"{" or path.suffix == ".json" else ".txt"


def _refuse_several(several: bool, path: Path) -> None:
    if several:
        raise DataError(f"{path}: holds rows of several feature sets; expected those of one; choose them by task")


def _rows_of_npy(path: Path) -> NDArray[np.int64]:
    array = open_npy(path)
    _refuse_several(len(array.shape) == 2 and array.shape[1] == 2, path)
    if len(array.shape) != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"{path}: holds {array.dtype} of shape {shape_text(array.shape)}; expected integers, one row number each"
        )
    values: NDArray[Any] = array.read(0, array.shape[0])
    if array.dtype.kind == "u" and (values > np.uint64(2**63 - 1)).any():
        raise DataError(f"{path}: row {values.max():,} is out of range; expected less than 2^63")
    return values.astype(np.int64)


def _rows_of_text(path: Path) -> NDArray[np.int64]:
    """One number a line; blank lines are skipped."""
    rows: list[int] = []
    with opened(path) as stream:
        while line := _line(stream, path):
            text = line.strip().decode("utf-8", "backslashreplace")
            _refuse_several(re.fullmatch(r"\d{1,18}\t\d{1,18}", text) is not None, path)
            if text and not re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
                raise DataError(f"{path}: {quote(text)} is no row number; expected one whole number a line")
            if text:
                rows.append(int(text))
    if not rows:
        raise DataError(f"{path}: holds no row numbers; expected one whole number a line")
    return np.array(rows, np.int64)


def _line(stream: IO[bytes], path: Path) -> bytes:
    with reading(path, "the file"):
        return stream.readline(4096)

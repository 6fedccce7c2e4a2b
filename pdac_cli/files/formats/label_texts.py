"""Labels, and perhaps ids, in text files: one label a line, or a table with commas or tabs and a line of titles."""

from __future__ import annotations

import csv
import itertools
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.formats.keys import ID_NAMES, LABEL_NAMES
from pdac_cli.files.formats.row_arrays import check_width
from pdac_cli.storage.reading import opened, quote, reading

SEPARATORS = {".txt": "", ".csv": ",", ".tsv": "\t"}  # by suffix
_MAX_LINE_BYTES = 1 << 16
_MAX_NAMES = 1 << 22
_WHOLE = re.compile(r"-?\d{1,18}(\.0*)?", re.ASCII)
_STEP = 1 << 12


@dataclass(frozen=True)
class TextColumns:
    """What a text file says of its rows."""

    labels: NumberedTexts
    key: str  # the labels' title
    ids: PackedTexts | None
    ids_key: str


class NumberedTexts:
    """Texts of which there are few different ones: a number for each row, and the text of each number."""

    def __init__(self, codes: array[int], texts: Sequence[str]) -> None:
        self._codes, self.step = np.frombuffer(codes, np.int64), _STEP
        whole = all(_WHOLE.fullmatch(text) for text in texts)
        values = [int(text.partition(".")[0]) for text in texts] if whole else list(texts)
        self.dtype: np.dtype[Any] = np.dtype(np.int64) if whole else h5py.string_dtype()
        self._values = np.array(values, np.int64 if whole else object)
        self.shape = self._codes.shape

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start,)."""
        found: NDArray[Any] = self._values[self._codes[start:stop]]
        return found


class PackedTexts:
    """Texts one after the other, with where each ends: no longer in memory than in their file."""

    def __init__(self) -> None:
        self._raw, self._ends, self.step = bytearray(), array("q", [0]), _STEP
        self.dtype: np.dtype[Any] = h5py.string_dtype()

    @property
    def shape(self) -> tuple[int]:
        """(n,)."""
        return (len(self._ends) - 1,)

    def append(self, text: str) -> None:
        """Add a row."""
        self._raw += text.encode("utf-8", "surrogateescape")
        self._ends.append(len(self._raw))

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start,)."""
        out = np.empty(stop - start, object)
        for k in range(start, stop):
            out[k - start] = bytes(self._raw[self._ends[k] : self._ends[k + 1]])
        return out


def read_texts_file(path: Path, key: str | None) -> TextColumns:
    """All labels of a text file, in one pass; ``key`` is the title of the labels' column."""
    separator = SEPARATORS[path.suffix]
    with opened(path) as stream:
        rows = _table(stream, separator, path) if separator else ([line] for line in _lines(stream, path))
        return _columns(rows, path, key, titled=bool(separator))


def _columns(rows: Iterator[list[str]], path: Path, key: str | None, titled: bool) -> TextColumns:
    first = next(rows, None)
    if first is None:
        raise DataError(f"{path}: holds no labels; expected one a line")
    at, ids_at, has_titles = _places(first, path, key, titled)
    codes, numbers, ids = array("q"), dict[str, int](), PackedTexts() if ids_at is not None else None
    titles = first if has_titles else []
    for line, row in enumerate(rows if has_titles else itertools.chain([first], rows), 1):
        if len(row) != len(first):
            raise DataError(f"{path}: row {line:,} has {len(row)} fields; expected {len(first)}, as the first line has")
        text = row[at].strip()
        if text == "":
            raise DataError(f"{path}: row {line:,} has no label; expected one a line")
        code = numbers.get(text)
        if code is None:
            check_width(len(text), path, titles[at] if titles else "labels")
            code = numbers[text] = len(numbers)
            if code == _MAX_NAMES:
                raise DataError(f"{path}: has more than {_MAX_NAMES:,} different labels; expected classes")
        codes.append(code)
        if ids is not None and ids_at is not None:
            ids.append(row[ids_at])
    if not codes:
        raise DataError(f"{path}: holds no labels below its titles; expected one a line")
    labels = NumberedTexts(codes, list(numbers))
    name = titles[at] if titles else "labels"
    return TextColumns(labels, name, ids, titles[ids_at] if titles and ids_at is not None else "")


def _places(first: list[str], path: Path, key: str | None, titled: bool) -> tuple[int, int | None, bool]:
    """Which column holds the labels, which the ids, and whether the first line is one of titles."""
    names = [name.strip() for name in first]
    shown = ", ".join(quote(name) for name in names[:12])
    if key is not None:
        if not titled or key not in names:
            what = f"its first line has {shown}" if titled else "it is one label a line"
            raise DataError(f"{path}: has no column {quote(key)}; expected a title of that name; {what}")
        at = names.index(key)
    else:
        known = [names.index(name) for name in LABEL_NAMES if name in names] if titled else []
        if not known and len(names) == 1:
            return 0, None, False
        if not known:
            raise DataError(
                f"{path}: has no column called {', '.join(LABEL_NAMES)}; expected titles in its first line, which has "
                f"{shown}; name the column with --labels {path}:NAME"
            )
        at = known[0]
    ids = [names.index(name) for name in ID_NAMES if name in names and names.index(name) != at]
    return at, (ids[0] if ids else None), True


def _table(stream: IO[bytes], separator: str, path: Path) -> Iterator[list[str]]:
    rows = csv.reader(_lines(stream, path, ends=True), delimiter=separator)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as problem:
            raise DataError(f"{path}: line {rows.line_num:,} is no table row ({problem}); write it again") from None
        if row is None:
            return
        if row:
            yield row


def _lines(stream: IO[bytes], path: Path, ends: bool = False) -> Iterator[str]:
    """The lines, without their ends unless asked for; empty ones at the end are left out."""
    blank, number = 0, 0
    while True:
        with reading(path, "the file"):
            raw = stream.readline(_MAX_LINE_BYTES)
        if not raw:
            return
        number += 1
        if len(raw) == _MAX_LINE_BYTES:
            raise DataError(f"{path}: line {number:,} has {_MAX_LINE_BYTES:,} bytes or more; expected a label a line")
        if b"\0" in raw:
            raise DataError(f"{path}: line {number:,} holds a zero byte; expected text; write it again")
        text = raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
        if not ends and not text.strip():
            blank += 1
            continue
        for _ in range(blank):
            yield ""
        blank = 0
        yield text if ends else text.rstrip("\r\n")

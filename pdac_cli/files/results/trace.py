"""Trace files: a line of numbers every so many rows of a stream, to be plotted."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pdac_cli.errors import DataError
from pdac_cli.storage.atomic import storage_errors, write_bytes
from pdac_cli.storage.reading import check_readable, plain, reading

COLUMNS = (
    "rows", "seconds", "rows_per_second", "kept", "replaced", "turnover", "classes_seen", "classes_kept",
    "mean_log_density", "class_counts",
)  # fmt: skip


class TraceFile:
    """A CSV file whose first column counts rows; it is complete up to the last line at any moment."""

    def __init__(self, path: Path, columns: Sequence[str], upto: int, force: bool) -> None:
        """Begin the file or, to go on after row `upto`, drop what lies beyond that row."""
        self._path, self._columns = path, tuple(columns)
        kept = [",".join(columns)]
        if upto and path.exists():
            with storage_errors(path):
                lines = path.read_text("utf-8", "replace").splitlines()
            kept += [line for line in lines[1:] if _first(line, len(columns)) <= upto]
        self._last = next(csv.reader(kept[-1:])) if kept[1:] else None
        write_bytes(path, ("\n".join(kept) + "\n").encode(), force=force or upto > 0)

    def last(self, column: str) -> int:
        """The number in a column of the last line; 0 where there is none."""
        with suppress(ValueError, OverflowError):
            return int(float(self._last[self._columns.index(column)])) if self._last else 0
        return 0

    def add(self, values: Sequence[object]) -> None:
        """Append a line."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(values)
        with storage_errors(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(text.getvalue())


def _first(line: str, columns: int) -> float:
    """The first number of a whole line, infinity for one that was cut off."""
    with suppress(ValueError, StopIteration, csv.Error):
        cells = next(csv.reader([line]))
        if len(cells) == columns:
            return float(cells[0])
    return float("inf")


def read_trace(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a trace: numbers, NaN where there is none; of the last, rows by class."""
    check_readable(path, "a trace of pdac stream")
    with reading(path, "the file"):
        text = path.read_text("utf-8", "replace")
    lines = list(csv.reader(io.StringIO(text.replace("\0", ""))))
    if not lines or tuple(lines[0]) != COLUMNS:
        raise DataError(f"{path}: is not a trace of pdac stream; expected the columns {', '.join(COLUMNS)}")
    found: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for line in lines[1:]:
        if len(line) != len(COLUMNS):
            raise DataError(f"{path}: line {len(found['rows']) + 2:,} has {len(line)} cells; expected {len(COLUMNS)}")
        try:
            for name, cell in zip(COLUMNS[:-1], line[:-1], strict=True):
                found[name].append(float(cell) if cell else math.nan)
            pairs = [pair.split(":") for pair in line[-1].split()]
            found[COLUMNS[-1]].append({int(label): int(count) for label, count in pairs})
        except ValueError as problem:
            raise DataError(
                f"{path}: line {len(found[COLUMNS[-1]]) + 2:,} holds other things than numbers ({plain(problem)}); "
                "expected a trace of pdac stream"
            ) from problem
    return found

"""The one type of table: for people as aligned text, for programs as comma-separated values."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.console import printable

Cell = object  # a text, a number or None

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # with which a spreadsheet takes a text for something to compute
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)")


@dataclass(frozen=True)
class Table:
    """Named columns and rows of cells; text in them may come from anybody's file, and is escaped wherever it goes."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""  # said above it
    left: tuple[str, ...] = ()  # columns that are aligned to the left; the others are numbers

    @classmethod
    def of(
        cls, columns: Iterable[str], rows: Iterable[Sequence[Cell]], title: str = "", left: Iterable[str] = ()
    ) -> Table:
        """Return a table of rows that have a cell for every column."""
        return cls(tuple(columns), tuple(tuple(row) for row in rows), title, tuple(left))

    @classmethod
    def of_records(cls, records: Sequence[Mapping[str, Any]]) -> Table:
        """Return a table of records, which may lack some of the columns."""
        columns = tuple(dict.fromkeys(name for record in records for name in record))
        return cls(columns, tuple(tuple(record.get(name) for name in columns) for record in records))

    def text(self, *, ruled: bool = False) -> str:
        """Return aligned columns, never cut, under the title if there is one; `ruled`: a line below the names."""
        rows = [[printable(_shown(cell)) for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
        gap = "   " if ruled else "  "
        lines = [("  " + gap.join(self._aligned(row, widths))).rstrip() for row in rows]
        if ruled:
            rule = " " + "─" * (sum(widths) + 3 * len(widths) - 1)
            lines = ["", lines[0], rule, *lines[1:], ""]
        return "\n".join([*([printable(self.title)] if self.title else []), *lines])

    def csv(self) -> str:
        """Return comma-separated values; a text that a spreadsheet would compute begins with an apostrophe."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([_harmless(cell) for cell in row] for row in (self.columns, *self.rows))
        return out.getvalue()

    def _aligned(self, row: Sequence[str], widths: Sequence[int]) -> list[str]:
        pads = [" " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)]
        sides = [name in self.left for name in self.columns]
        return [cell + pad if left else pad + cell for cell, pad, left in zip(row, pads, sides, strict=True)]


def facts(pairs: Mapping[str, str]) -> str:
    """Return names and values, one a line."""
    width = max(map(_width, pairs))
    return "\n".join(f"{name}{' ' * (width - _width(name))}  {printable(value)}" for name, value in pairs.items())


def spread(values: Sequence[float] | Array) -> str:
    """Return mean ± standard deviation (n − 1)."""
    mean = float(np.mean(values))
    return f"{mean:.2f}" if len(values) < 2 else f"{mean:.2f} ± {float(np.std(values, ddof=1)):.2f}"


def interval_text(found: Mapping[str, Any] | None) -> str:
    """Return a difference and its interval for people."""
    if not found:
        return ""
    if found["low"] is None:
        return f"{found['mean']:+.2f}"
    return f"{found['mean']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"


def _shown(cell: Cell) -> str:
    return "" if cell is None else str(cell)


def _harmless(cell: Cell) -> Cell:
    if not isinstance(cell, str):
        return cell
    text = printable(cell)
    return f"'{text}" if cell.startswith(_FORMULA) and not _NUMBER.fullmatch(cell) else text


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)

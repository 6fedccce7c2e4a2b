"""The replay buffer of a stream: at most N rows, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import Array

COLUMNS: Mapping[str, type] = {"source": np.int64, "row": np.int64, "label": np.int64, "log_density": np.float64}


@dataclass
class Buffer:
    """At most `budget` rows of the stream, and how many it has seen."""

    budget: int
    columns: dict[str, Array]  # those of COLUMNS and the method's own, (m, …) each, m ≤ budget
    seen: int = 0
    replaced: int = 0  # rows that have entered in the place of another

    @classmethod
    def empty(cls, budget: int, more: Mapping[str, Array] | None = None) -> Buffer:
        """Return a buffer of no rows; `more` are the method's own columns, without rows."""
        return cls(budget, {**{name: np.empty(0, kind) for name, kind in COLUMNS.items()}, **(more or {})})

    @property
    def size(self) -> int:
        """How many rows are kept."""
        return len(self.columns["row"])

    def slot_of(self, source: int, row: int) -> int | None:
        """Return where a row of a source is stored, if it is."""
        found = np.flatnonzero((self.columns["row"] == row) & (self.columns["source"] == source))
        return int(found[0]) if len(found) else None

    def fill(self, rows: Mapping[str, Array]) -> int:
        """Append rows as far as there is room; return how many: columns (n, …)."""
        room = min(self.budget - self.size, len(rows["row"]))
        empty = self.size == 0  # the first rows say how wide a column is
        for name, column in self.columns.items() if room else ():
            more = rows[name][:room].astype(column.dtype)
            self.columns[name] = more if empty else np.concatenate([column, more])
        return room

    def put(self, slots: Array, rows: Mapping[str, Array], which: Array) -> None:
        """Put `which` (k,) of the rows into `slots` (k,); of several into one slot, the last stays."""
        self.replaced += len(slots)
        for name, column in self.columns.items():
            column[slots] = rows[name][which]

"""Rows divided by their length, as a source of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdac_cli.density.blocks import Array, work_dtype
from pdac_cli.engine.arrays import ArrayChunk
from pdac_cli.engine.source import Source
from pdac_cli.selection.unit import unit_rows


@dataclass(frozen=True)
class UnitSource:
    """All rows of another source, each of length 1; see `source.Source`."""

    source: Source

    @property
    def n(self) -> int:
        """How many rows there are, unusable ones included."""
        return self.source.n

    @property
    def dim(self) -> int:
        """The number of features D."""
        return self.source.dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the rows are given as."""
        return work_dtype(self.source.dtype)

    def chunks(self, rows: int) -> Iterator[ArrayChunk]:
        """Yield the usable rows, about `rows` at a time."""
        for chunk in self.source.chunks(rows):
            yield ArrayChunk(chunk.ids, unit_rows(chunk.h), chunk.y)

    def label_chunks(self, rows: int) -> Iterator[tuple[Array, Array]]:
        """Yield ids and labels of the usable rows."""
        return self.source.label_chunks(rows)


def measured_rows(source: Source, normalize: bool) -> Source:
    """Return the rows as the density takes them."""
    return UnitSource(source) if normalize else source

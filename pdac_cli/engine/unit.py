"""Rows divided by their length, as a source of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdac_cli.density.blocks import Array, work_dtype
from pdac_cli.engine.arrays import ArrayChunk
from pdac_cli.engine.source import Source


def unit_rows(h: Array) -> Array:
    """Return rows divided by their length, rows of zeros as they are: (n, D) -> (n, D)."""
    h = h.astype(work_dtype(h.dtype), copy=False)
    largest = np.abs(h).max(axis=1, keepdims=True, initial=0)
    h = np.divide(h, largest, out=np.zeros_like(h), where=largest > 0)  # squares of no row overflow
    length = np.sqrt(np.einsum("nd,nd->n", h, h, dtype=np.float64))[:, None].astype(h.dtype)
    unit: Array = np.divide(h, length, out=h, where=length > 0)
    return unit


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

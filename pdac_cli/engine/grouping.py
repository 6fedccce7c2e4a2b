"""Rows in any order, gathered by class: in memory where they fit, in a scratch file where not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Protocol

import numpy as np

from pdac_cli.density.blocks import Array, ClassRows
from pdac_cli.engine.scratch import read_at, scratch_file, write_at
from pdac_cli.engine.source import Chunk, Classes, Plan, Source, Tick, ignore


class GroupedRows(ClassRows, Protocol):
    """The rows of one class, with their ids."""

    def ids(self, start: int, stop: int) -> Array:
        """Return the global ids of rows start to stop: (stop − start,)."""


@dataclass(frozen=True)
class StoredRows:
    """The rows of one class in memory; see `density.blocks.ClassRows`."""

    label: int
    rows: Array  # (n_y, D)
    row_ids: Array  # (n_y,)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.rows)

    @property
    def dim(self) -> int:
        """The number of features D."""
        return int(self.rows.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the rows are stored as."""
        return self.rows.dtype

    def read(self, start: int, stop: int) -> Array:
        """Return rows start to stop."""
        return self.rows[start:stop]

    def ids(self, start: int, stop: int) -> Array:
        """Return the global ids of rows start to stop."""
        return self.row_ids[start:stop]


@dataclass(frozen=True)
class ScratchRows:
    """The rows of one class in a scratch file; see `density.blocks.ClassRows`."""

    label: int
    count: int
    dim: int
    dtype: np.dtype[Any]
    file: IO[bytes]
    offset: int  # of the class's first row, in bytes
    ids_offset: int  # of its first id

    def read(self, start: int, stop: int) -> Array:
        """Return rows start to stop."""
        out = np.empty((stop - start, self.dim), self.dtype)
        read_at(self.file, _bytes_of(out), self.offset + start * self.dim * self.dtype.itemsize)
        return out

    def ids(self, start: int, stop: int) -> Array:
        """Return the global ids of rows start to stop."""
        out = np.empty(stop - start, np.int64)
        read_at(self.file, _bytes_of(out), self.ids_offset + start * out.itemsize)
        return out


@contextmanager
def grouped(source: Source, classes: Classes, plan: Plan, tick: Tick = ignore) -> Iterator[Sequence[GroupedRows]]:
    """Read the source once and give its rows class by class, each class's in order of the ids."""
    starts = np.concatenate([[0], np.cumsum(classes.counts)])
    total, ends = int(starts[-1]), starts[1:]
    if plan.in_memory:
        rows, ids = np.empty((total, source.dim), source.dtype), np.empty(total, np.int64)
        for chunk, places in _placed(source, classes, plan, starts):
            rows[places], ids[places] = chunk.h, chunk.ids
            tick(len(places))
        yield [
            StoredRows(int(label), rows[start:end], ids[start:end])
            for label, start, end in zip(classes.labels, starts, ends, strict=False)
        ]
        return
    row_bytes = source.dim * source.dtype.itemsize
    with scratch_file(total * (row_bytes + 8)) as file:
        for chunk, places in _placed(source, classes, plan, starts):
            order = np.argsort(places)
            _write_runs(file, places[order], chunk.h[order], 0)
            _write_runs(file, places[order], chunk.ids[order], total * row_bytes)
            tick(len(places))
        yield [
            ScratchRows(
                int(label),
                int(end - start),
                source.dim,
                source.dtype,
                file,
                int(start) * row_bytes,
                total * row_bytes + int(start) * 8,
            )
            for label, start, end in zip(classes.labels, starts, ends, strict=False)
        ]


def _placed(source: Source, classes: Classes, plan: Plan, starts: Array) -> Iterator[tuple[Chunk, Array]]:
    """Yield each chunk with the places of its rows in the grouped order: (m,)."""
    filled = starts[:-1].copy()
    for chunk in source.chunks(plan.chunk_rows):
        codes = classes.codes(chunk.y)
        order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes, minlength=len(filled))
        firsts = np.cumsum(counts) - counts
        places = np.empty(len(codes), np.int64)
        places[order] = np.arange(len(codes)) + np.repeat(filled - firsts, counts)
        filled += counts
        yield chunk, places


def _write_runs(file: IO[bytes], places: Array, rows: Array, offset: int) -> None:
    """Write rows to their places after `offset`, one call for each run of neighbours."""
    row_bytes = rows[:1].nbytes
    cuts = np.flatnonzero(np.diff(places) != 1) + 1
    for first, last in zip([0, *cuts], [*cuts, len(places)], strict=True):
        write_at(file, _bytes_of(rows[first:last]), offset + int(places[first]) * row_bytes)


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data

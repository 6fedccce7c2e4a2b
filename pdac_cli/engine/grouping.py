"""Rows in any order, gathered by class: in memory where they fit, in a scratch file where not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Protocol

import numpy as np

from pdac_cli.arrays import Array, Resident, Source, Tick, ignore
from pdac_cli.density.blocks import ClassRows
from pdac_cli.engine.plan import Classes, Plan
from pdac_cli.engine.scratch import read_at, scratch_file, write_at


class GroupedRows(ClassRows, Protocol):
    """The rows of one class, with their ids."""

    def read(self, start: int, stop: int) -> Array:
        """Return rows start to stop: (stop − start, D)."""

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
    def n_features(self) -> int:
        """The number of features D."""
        return int(self.rows.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the rows are stored as."""
        return self.rows.dtype

    def read(self, start: int, stop: int) -> Array:
        """Return rows start to stop."""
        return self.rows[start:stop]

    def read_into(self, start: int, out: Array) -> None:
        """Lay the rows from `start` on into `out`."""
        out[...] = self.rows[start : start + len(out)]

    def ids(self, start: int, stop: int) -> Array:
        """Return the global ids of rows start to stop."""
        return self.row_ids[start:stop]


@dataclass(frozen=True)
class TakenRows:
    """The rows of one class where the source has them; see `density.blocks.ClassRows`."""

    label: int
    n_features: int
    dtype: np.dtype[Any]
    source: Resident
    row_ids: Array  # (n_y,)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.row_ids)

    def read(self, start: int, stop: int) -> Array:
        """Return rows start to stop."""
        out = np.empty((stop - start, self.n_features), self.dtype)
        self.read_into(start, out)
        return out

    def read_into(self, start: int, out: Array) -> None:
        """Lay the rows from `start` on into `out`."""
        self.source.take(self.row_ids[start : start + len(out)], out)

    def ids(self, start: int, stop: int) -> Array:
        """Return the global ids of rows start to stop."""
        return self.row_ids[start:stop]


@dataclass(frozen=True)
class ScratchRows:
    """The rows of one class in a scratch file; see `density.blocks.ClassRows`."""

    label: int
    count: int
    n_features: int
    dtype: np.dtype[Any]
    file: IO[bytes]
    offset: int  # of the class's first row, in bytes
    ids_offset: int  # of its first id

    def read(self, start: int, stop: int) -> Array:
        """Return rows start to stop."""
        out = np.empty((stop - start, self.n_features), self.dtype)
        self.read_into(start, out)
        return out

    def read_into(self, start: int, out: Array) -> None:
        """Lay the rows from `start` on into `out`."""
        if out.dtype == self.dtype:
            read_at(self.file, _bytes_of(out), self.offset + start * self.n_features * self.dtype.itemsize)
        else:
            out[...] = self.read(start, start + len(out))

    def ids(self, start: int, stop: int) -> Array:
        """Return the global ids of rows start to stop."""
        out = np.empty(stop - start, np.int64)
        read_at(self.file, _bytes_of(out), self.ids_offset + start * out.itemsize)
        return out


@contextmanager
def grouped(source: Source, classes: Classes, plan: Plan, tick: Tick = ignore) -> Iterator[Sequence[GroupedRows]]:
    """Read the source once and give its rows class by class, each class's in order of the ids."""
    with _stored(source, _Places(classes), plan, tick) as stored:
        yield stored


@contextmanager
def gathered(source: Source, classes: Classes, plan: Plan, tick: Tick = ignore) -> Iterator[tuple[GroupedRows, Array]]:
    """Read the source once and give all its rows together, in order of the ids, and their class positions (n,)."""
    places = _OnePlace(classes)
    with _stored(source, places, plan, tick) as (rows,):
        yield rows, places.codes()


@contextmanager
def _stored(source: Source, places: _Places, plan: Plan, tick: Tick) -> Iterator[Sequence[GroupedRows]]:
    chunk_rows = plan.rows_at_once(source)
    if not plan.in_memory(source):
        with scratch_file(places.total * (source.n_features * source.dtype.itemsize + 8)) as file:
            yield _in_scratch(source, places, chunk_rows, file, tick)
    elif isinstance(source, Resident):
        yield _where_they_are(source, source, places, chunk_rows, tick)
    else:
        yield _in_memory(source, places, chunk_rows, tick)


def _where_they_are(
    source: Source, resident: Resident, places: _Places, chunk_rows: int, tick: Tick
) -> Sequence[GroupedRows]:
    ids = np.empty(places.total, np.int64)
    for chunk_ids, y in source.label_chunks(chunk_rows):
        ids[places.of(y)] = chunk_ids
        tick(len(y))
    return [
        TakenRows(label, source.n_features, source.dtype, resident, ids[start:end])
        for label, start, end in places.classes()
    ]


def _in_memory(source: Source, places: _Places, chunk_rows: int, tick: Tick) -> Sequence[GroupedRows]:
    rows, ids = np.empty((places.total, source.n_features), source.dtype), np.empty(places.total, np.int64)
    for chunk in source.chunks(chunk_rows):
        at = places.of(chunk.y)
        rows[at], ids[at] = chunk.h, chunk.ids
        tick(len(at))
    return [StoredRows(label, rows[start:end], ids[start:end]) for label, start, end in places.classes()]


def _in_scratch(source: Source, places: _Places, chunk_rows: int, file: IO[bytes], tick: Tick) -> Sequence[GroupedRows]:
    row_bytes = source.n_features * source.dtype.itemsize
    ids_offset = places.total * row_bytes
    for chunk in source.chunks(chunk_rows):
        at = places.of(chunk.y)
        order = np.argsort(at)
        _write_runs(file, at[order], chunk.h[order], 0)
        _write_runs(file, at[order], chunk.ids[order], ids_offset)
        tick(len(at))
    return [
        ScratchRows(
            label, end - start, source.n_features, source.dtype, file, start * row_bytes, ids_offset + start * 8
        )
        for label, start, end in places.classes()
    ]


class _Places:
    """Where each row goes in the grouped order, as the rows come."""

    def __init__(self, classes: Classes) -> None:
        self._classes = classes
        self._ends = np.cumsum(classes.counts)
        self._next = self._ends - classes.counts  # the place of each class's next row
        self.total = int(self._ends[-1])

    def classes(self) -> Iterator[tuple[int, int, int]]:
        """Yield each class's label, its first place and the one after its last."""
        for label, count, end in zip(self._classes.labels, self._classes.counts, self._ends, strict=True):
            yield int(label), int(end - count), int(end)

    def of(self, y: Array) -> Array:
        """Return the places of the next rows, of these labels: (m,) -> (m,)."""
        codes = self._classes.codes(y)
        order = np.argsort(codes.astype(np.min_scalar_type(len(self._next))), kind="stable")  # small: sorted by radix
        counts = np.bincount(codes, minlength=len(self._next))
        places = np.empty(len(codes), np.int64)
        places[order] = np.arange(len(codes)) + np.repeat(self._next - np.cumsum(counts) + counts, counts)
        self._next += counts
        return places


class _OnePlace(_Places):
    """The rows of all classes in one row, as they come."""

    def __init__(self, classes: Classes) -> None:
        super().__init__(Classes(np.zeros(1, np.int64), classes.counts.sum()[None]))
        self._own, self._codes = classes, list[Array]()

    def of(self, y: Array) -> Array:
        """Return the places of the next rows, and note their classes."""
        self._codes.append(self._own.codes(y))
        return super().of(np.zeros_like(y))

    def codes(self) -> Array:
        """Return the class positions of all rows that have come: (n,)."""
        return np.concatenate(self._codes)


def _write_runs(file: IO[bytes], places: Array, rows: Array, offset: int) -> None:
    """Write rows to their places after `offset`, one call for each run of neighbours."""
    row_bytes = rows[:1].nbytes
    cuts = np.flatnonzero(np.diff(places) != 1) + 1
    for first, last in zip([0, *cuts], [*cuts, len(places)], strict=True):
        write_at(file, _bytes_of(rows[first:last]), offset + int(places[first]) * row_bytes)


def _bytes_of(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data

"""What the engine asks of a set of rows, and the plan of a run over it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from pdac_cli.density.blocks import Array, work_dtype
from pdac_cli.engine.resources import default_jobs, default_memory
from pdac_cli.errors import DataError
from pdac_cli.options.shared import InputOptions, RunOptions

_LABEL_ROWS = 1 << 20
Tick = Callable[[int], None]  # told of rows done


def ignore(_rows: int) -> None:
    """Be told of rows done and do nothing."""


class Chunk(Protocol):
    """Some rows of a set."""

    @property
    def ids(self) -> Array:
        """(m,) global row ids, ascending."""

    @property
    def h(self) -> Array:
        """(m, D) features."""

    @property
    def y(self) -> Array:
        """(m,) labels."""


class Source(Protocol):
    """A set of rows that can be read again and again, in order."""

    @property
    def n(self) -> int:
        """How many rows there are."""

    @property
    def dim(self) -> int:
        """The number of features D."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """float16, float32 or float64."""

    def chunks(self, rows: int) -> Iterator[Chunk]:
        """Yield the usable rows, about `rows` at a time."""

    def label_chunks(self, rows: int) -> Iterator[tuple[Array, Array]]:
        """Yield ids and labels, without reading features."""


@runtime_checkable
class Resident(Protocol):
    """A source whose features are in memory anyway, so that they need not be copied to be gathered by class."""

    def take(self, ids: Array, out: Array) -> None:
        """Lay the features of the rows of these ids into out (m, D), as its dtype."""


@dataclass(frozen=True)
class Classes:
    """The classes of a set and how many usable rows each has."""

    labels: Array  # (C,) int64, ascending
    counts: Array  # (C,) int64

    def codes(self, y: Array) -> Array:
        """Return each label's position among the classes: (n,) -> (n,)."""
        first, last = int(self.labels[0]), int(self.labels[-1])
        if last - first + 1 == len(self.labels):  # no gaps, so that there is nothing to search
            return np.asarray(y, np.int64) - first
        return np.searchsorted(self.labels, y)


@dataclass(frozen=True)
class Plan:
    """How a set is worked through; nothing here changes the answer."""

    chunk_rows: int
    memory: int
    jobs: int
    in_memory: bool  # the rows, grouped by class, are kept in memory; otherwise in a scratch file


def make_plan(source: Source, options: InputOptions, run: RunOptions) -> Plan:
    """Choose chunk size and storage from the memory bound."""
    memory = run.memory if run.memory is not None else default_memory()
    jobs = run.jobs if run.jobs is not None else default_jobs()
    row = source.dim * (source.dtype.itemsize + work_dtype(source.dtype).itemsize)
    rows = options.chunk_rows or max(1, min(1 << 18, memory // 8 // row))
    return Plan(rows, memory, jobs, source.n * source.dim * source.dtype.itemsize <= memory // 2)


def count_classes(source: Source, plan: Plan, options: InputOptions) -> Classes:
    """Count each class's usable rows; only where rows may be dropped does this read the features."""
    counts: dict[int, int] = {}
    if options.drop_nonfinite:
        labels: Iterator[Array] = (chunk.y for chunk in source.chunks(plan.chunk_rows))
    else:
        labels = (y for _, y in source.label_chunks(_LABEL_ROWS))
    for y in labels:
        for label, count in zip(*_counted(y), strict=True):
            counts[int(label)] = counts.get(int(label), 0) + int(count)
    if not counts:
        raise DataError("no usable row is left; expected at least one; check --drop-nonfinite and --ignore-label")
    ordered = sorted(counts)
    return Classes(np.array(ordered, np.int64), np.array([counts[label] for label in ordered], np.int64))


def _counted(y: Array) -> tuple[Array, Array]:
    """Return the distinct labels and how often each occurs: (n,) -> (k,), (k,)."""
    low, high = (int(y.min()), int(y.max())) if len(y) else (0, 0)
    if high - low > len(y):
        return np.unique(y, return_counts=True)
    counts = np.bincount(y.astype(np.int64) - low)  # many times as fast as sorting
    present = np.flatnonzero(counts)
    return present + low, counts[present]

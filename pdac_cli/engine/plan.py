"""The plan of a run, made once, and the classes of a set, counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pdac_cli.arrays import Array, Chunk, Source
from pdac_cli.density.blocks import work_dtype
from pdac_cli.engine.protocol import Engine
from pdac_cli.engine.resources import default_jobs, default_memory
from pdac_cli.errors import DataError
from pdac_cli.options.shared import InputOptions, RunOptions

_LABEL_ROWS = 1 << 20
_MOST_ROWS = 1 << 18  # read at once
_SHARES = 64  # into which work is divided that is sent to workers, however many there are


@dataclass(frozen=True)
class Classes:
    """The classes of a set and how many usable rows each has."""

    labels: Array  # (C,) int64, ascending
    counts: Array  # (C,) int64

    @property
    def total(self) -> int:
        """How many usable rows there are."""
        return int(self.counts.sum())

    def codes(self, y: Array) -> Array:
        """Return each label's position among the classes: (n,) -> (n,)."""
        first, last = int(self.labels[0]), int(self.labels[-1])
        if last - first + 1 == len(self.labels):  # no gaps, so that there is nothing to search
            return np.asarray(y, np.int64) - first
        return np.searchsorted(self.labels, y)


def _in_process() -> Engine:
    from pdac_cli.engine.local import InProcess

    return InProcess()


@dataclass(frozen=True)
class Plan:
    """What a run may use of the machine, and where its units run; nothing here changes the answer."""

    memory: int  # bytes
    jobs: int  # threads
    chunk_rows: int | None = None  # rows read at once, where the user says
    engine: Engine = field(default_factory=_in_process, compare=False)

    def rows_at_once(self, source: Source) -> int:
        """Return how many rows of a source are read at once."""
        row = source.n_features * (source.dtype.itemsize + work_dtype(source.dtype).itemsize)
        return self.chunk_rows or max(1, min(_MOST_ROWS, self.memory // 8 // row))

    def in_memory(self, source: Source) -> bool:
        """Return whether a source's rows, grouped by class, are kept in memory; otherwise in a scratch file."""
        return source.n * source.n_features * source.dtype.itemsize <= self.memory // 2


def make_plan(options: InputOptions, run: RunOptions, engine: Engine | None = None) -> Plan:
    """Return what the options say and, where they do not, a safe share of the machine; by default in this process."""
    memory = run.memory if run.memory is not None else default_memory()
    jobs = run.jobs if run.jobs is not None else default_jobs()
    if engine is not None and not engine.here:
        jobs = _SHARES
    return Plan(memory, jobs, options.chunk_rows, engine or _in_process())


def count_classes(source: Source, plan: Plan, options: InputOptions) -> Classes:
    """Count each class's usable rows; only where rows may be dropped does this read the features."""
    counts: Counter[int] = Counter()
    if options.drop_nonfinite:
        for found in plan.engine.pieces(source, _counts_of, plan, rows=plan.rows_at_once(source)):
            counts.update(found)
    else:
        for _, y in source.label_chunks(_LABEL_ROWS):
            counts.update(_counts(y))
    if not counts:
        raise DataError("no usable row is left; expected at least one; check --drop-nonfinite and --ignore-label")
    ordered = sorted(counts)
    return Classes(np.array(ordered, np.int64), np.array([counts[label] for label in ordered], np.int64))


def _counts_of(chunks: Iterator[Chunk]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for chunk in chunks:
        counts.update(_counts(chunk.y))
    return counts


def _counts(y: Array) -> dict[int, int]:
    return {int(label): int(count) for label, count in zip(*_counted(y), strict=True)}


def _counted(y: Array) -> tuple[Array, Array]:
    """Return the distinct labels and how often each occurs: (n,) -> (k,), (k,)."""
    low, high = (int(y.min()), int(y.max())) if len(y) else (0, 0)
    if high - low > len(y):
        return np.unique(y, return_counts=True)
    counts = np.bincount(y.astype(np.int64) - low)  # many times as fast as sorting
    present = np.flatnonzero(counts)
    return present + low, counts[present]

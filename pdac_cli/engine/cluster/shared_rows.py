"""Rows parted by class in files that all workers share: one file for each unit that was read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdac_cli.arrays import Array, Chunk, Source
from pdac_cli.engine.cluster.job_folder import JobFolder
from pdac_cli.engine.plan import Classes
from pdac_cli.engine.scratch import read_at
from pdac_cli.engine.sources import divisible
from pdac_cli.errors import StorageError


@dataclass(frozen=True)
class PartUnit:
    """A range of the source that is read and parted in one go."""

    number: int
    source: Source


@dataclass(frozen=True)
class Parted:
    """What is known of a range that was parted."""

    counts: Array  # (C,) rows of each class, or of all together (1,)
    codes: Array | None  # (m,) the rows' classes, where they are kept together
    unused: tuple[int, int]


@dataclass(frozen=True)
class PartByClass:
    """Parts a range of the source by class: features, then ids, in a file of the job's folder."""

    folder: Path
    stage: str
    classes: Classes
    together: bool  # the rows stay in the order of their ids, whatever their classes
    rows: int  # read at once

    def __call__(self, unit: PartUnit) -> Parted:
        """Read and part one range."""
        chunks = list(unit.source.chunks(self.rows))
        h, ids, codes = _joined(chunks, self.classes, unit.source)
        counts = np.bincount(codes, minlength=len(self.classes.labels))
        small = codes.astype(np.min_scalar_type(len(self.classes.labels)))
        if not self.together:
            order = np.argsort(small, kind="stable")
            h, ids = h[order], ids[order]
        parts = [np.ascontiguousarray(part).reshape(-1).view(np.uint8).data for part in (h, ids)]
        JobFolder(self.folder).write_parts(f"{self.stage}.{unit.number}.rows", parts)
        unused = divisible(unit.source).unused()
        return Parted(counts.sum()[None], small, unused) if self.together else Parted(counts, None, unused)


def _joined(chunks: list[Chunk], classes: Classes, source: Source) -> tuple[Array, Array, Array]:
    if not chunks:
        return np.empty((0, source.n_features), source.dtype), np.empty(0, np.int64), np.empty(0, np.int64)
    h, ids, y = (np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("h", "ids", "y"))
    return h.astype(source.dtype, copy=False), ids, classes.codes(y)


@dataclass(frozen=True)
class SharedRows:
    """The rows of one class in the files of all units; see `grouping.GroupedRows`."""

    label: int
    count: int
    n_features: int
    dtype: np.dtype[Any]
    stem: str  # of the files' names
    units: Array  # (u,) the units that have rows of the class
    ends: Array  # (u,) how many rows of the class come up to the end of each
    offsets: Array  # (u,) the first of them in its file
    totals: Array  # (u,) rows in each file

    def read(self, start: int, stop: int) -> Array:
        """Return rows start to stop."""
        out = np.empty((stop - start, self.n_features), self.dtype)
        self.read_into(start, out)
        return out

    def read_into(self, start: int, out: Array) -> None:
        """Lay the rows from `start` on into `out`."""
        if out.dtype != self.dtype or not out.flags.c_contiguous:
            out[...] = self.read(start, start + len(out))
            return
        self._fill(start, out, lambda _total: 0, self.n_features * self.dtype.itemsize)

    def ids(self, start: int, stop: int) -> Array:
        """Return the global ids of rows start to stop."""
        out, row = np.empty(stop - start, np.int64), self.n_features * self.dtype.itemsize
        self._fill(start, out, lambda total: total * row, out.itemsize)
        return out

    def _fill(self, start: int, out: Array, offset: Callable[[int], int], row: int) -> None:
        for k, first, at, rows in self._segments(start, start + len(out)):
            path = Path(f"{self.stem}.{self.units[k]}.rows")
            try:
                with path.open("rb", buffering=0) as file:
                    size = os.fstat(file.fileno()).st_size
                    if size != int(self.totals[k]) * (self.n_features * self.dtype.itemsize + 8):
                        raise StorageError(f"{path}: has {size:,} bytes; expected a file of this job; run again")
                    into = out[at : at + rows].reshape(-1).view(np.uint8).data
                    read_at(file, into, offset(int(self.totals[k])) + first * row)
            except OSError as problem:
                raise StorageError(
                    f"{path}: cannot be read ({problem.strerror}); expected the client's scratch folder; "
                    "choose one that all workers share with --scratch"
                ) from problem

    def _segments(self, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield position among the units, first row in its file, place in the answer and number of rows."""
        k, at = int(np.searchsorted(self.ends, start, side="right")), start
        while at < stop:
            begin = int(self.ends[k - 1]) if k else 0
            end = min(int(self.ends[k]), stop)
            yield k, int(self.offsets[k]) + at - begin, at - start, end - at
            k, at = k + 1, end


def rows_of_classes(parted: list[Parted], labels: Array, source: Source, stem: str) -> list[SharedRows]:
    """Return the rows of every class: parted in order of the units, labels (C,)."""
    counts = np.stack([part.counts for part in parted])  # (U, C)
    firsts, totals = np.cumsum(counts, axis=1) - counts, counts.sum(axis=1)
    found = []
    for c, label in enumerate(labels.tolist()):
        units = np.flatnonzero(counts[:, c])
        ends = np.cumsum(counts[units, c])
        found.append(
            SharedRows(
                label,
                int(ends[-1]) if len(ends) else 0,
                source.n_features,
                source.dtype,
                stem,
                units,
                ends,
                firsts[units, c],
                totals[units],
            )
        )
    return found

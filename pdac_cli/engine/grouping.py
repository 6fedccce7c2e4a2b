"""Rows in any order, gathered by class: in memory where they fit, in a scratch file where not."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from pdac_cli.density.blocks import Array
from pdac_cli.engine.source import Classes, Plan, Source
from pdac_cli.errors import StorageError


@dataclass(frozen=True)
class StoredRows:
    """The rows of one class in memory; see `density.blocks.ClassRows`."""

    label: int
    rows: Array  # (n_y, D)

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


@dataclass(frozen=True)
class ScratchRows:
    """The rows of one class in a scratch file; see `density.blocks.ClassRows`."""

    label: int
    count: int
    dim: int
    dtype: np.dtype[Any]
    file: int  # descriptor
    offset: int  # of the class's first row, in bytes

    def read(self, start: int, stop: int) -> Array:
        """Return rows start to stop."""
        out = np.empty((stop - start, self.dim), self.dtype)
        view = out.reshape(-1).view(np.uint8).data
        at = self.offset + start * self.dim * self.dtype.itemsize
        while view:
            done = os.preadv(self.file, [view], at)
            view, at = view[done:], at + done
        return out


@contextmanager
def grouped(source: Source, classes: Classes, plan: Plan) -> Iterator[list[StoredRows] | list[ScratchRows]]:
    """Read the source once and give its rows class by class, each class's in order of the ids."""
    starts = np.concatenate([[0], np.cumsum(classes.counts)])
    if plan.in_memory:
        rows = np.empty((int(starts[-1]), source.dim), source.dtype)
        for places, h in _placed(source, classes, plan, starts):
            rows[places] = h
        yield [StoredRows(int(label), rows[starts[c] : starts[c + 1]]) for c, label in enumerate(classes.labels)]
        return
    row_bytes = source.dim * source.dtype.itemsize
    with _scratch(int(starts[-1]) * row_bytes) as file:
        for places, h in _placed(source, classes, plan, starts):
            _write_runs(file.fileno(), places, h, row_bytes)
        yield [
            ScratchRows(int(label), int(n), source.dim, source.dtype, file.fileno(), int(starts[c]) * row_bytes)
            for c, (label, n) in enumerate(zip(classes.labels, classes.counts, strict=True))
        ]


def _placed(source: Source, classes: Classes, plan: Plan, starts: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the rows of each chunk, sorted by class, with their places in the grouped order: (m,), (m, D)."""
    filled = starts[:-1].copy()
    for chunk in source.chunks(plan.chunk_rows):
        codes = classes.codes(chunk.y)
        order = np.argsort(codes, kind="stable")
        counts = np.bincount(codes, minlength=len(filled))
        firsts = np.cumsum(counts) - counts
        places = np.arange(len(codes)) + np.repeat(filled - firsts, counts)
        filled += counts
        yield places, chunk.h[order]


def _write_runs(file: int, places: Array, h: Array, row_bytes: int) -> None:
    """Write rows to their places, one call for each run of neighbours."""
    cuts = np.flatnonzero(np.diff(places) != 1) + 1
    for first, last in zip([0, *cuts], [*cuts, len(places)], strict=True):
        if first == last:
            continue
        view, at = h[first:last].reshape(-1).view(np.uint8).data, int(places[first]) * row_bytes
        while view:
            done = os.pwrite(file, view, at)
            view, at = view[done:], at + done


@contextmanager
def _scratch(size: int) -> Iterator[IO[bytes]]:
    """Open a file that has no name, so that nothing is left of it however the process ends."""
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if size > free:
        raise StorageError(
            f"the scratch file needs {size:,} bytes and {folder} has {free:,} free; "
            "set TMPDIR to a larger disk or raise --memory"
        )
    try:
        with tempfile.TemporaryFile(prefix="pdac-") as file:
            yield file
    except OSError as error:
        raise StorageError(f"the scratch file in {folder}: {error.strerror}; set TMPDIR or raise --memory") from error

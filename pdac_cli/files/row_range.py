"""Some consecutive rows of a set of feature files, as another process is told of them: it opens the files itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdac_cli.arrays import Array, Chunk
from pdac_cli.errors import DataError, StorageError
from pdac_cli.files.features import open_features
from pdac_cli.files.featureset import FeatureSet, Part
from pdac_cli.files.formats.hdf5 import turn_locks_off
from pdac_cli.files.formats.labels import Coding
from pdac_cli.options.shared import InputOptions


@dataclass
class RowRange:
    """Rows ``start`` to ``stop`` of a set; see `arrays.Source`.  All of it is plain values."""

    options: InputOptions  # with the files that hold the rows
    first: int  # the number of their first row
    start: int
    stop: int
    n_features: int
    dtype: np.dtype[Any]
    has_logits: bool
    coding: Coding
    y: NDArray[Any]  # (stop − start,) labels: they may come from anywhere, so they are sent
    sizes: tuple[tuple[Path, int], ...]  # of the files, in bytes
    fingerprint: str = ""
    files: tuple[str, ...] = ()
    logit_labels: Array | None = None
    _unused: tuple[int, int] = field(default=(0, 0))

    @property
    def n(self) -> int:
        """How many rows there are, unusable ones included."""
        return self.stop - self.start

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """Names of the classes, where they have names."""
        return self.coding.names

    def chunks(self, rows: int, *, logits: bool = False) -> Iterator[Chunk]:
        """Open the files and yield the usable rows."""
        turn_locks_off()
        self._check_sizes()
        with open_features(self.options, first=self.first, coding=self.coding) as opened:
            opened.take_labels(self.start, self.y)
            for chunk in opened.chunks(rows, logits=logits, start=self.start, stop=self.stop):
                yield replace(chunk, h=chunk.h.astype(self.dtype, copy=False))
            self._unused = opened.unused()

    def label_chunks(self, rows: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield ids and labels of the usable rows."""
        for chunk in self.chunks(rows):
            yield chunk.ids, chunk.y

    def ranges(self, rows: int) -> Sequence[RowRange]:  # noqa: ARG002
        """Return itself: it is a part already."""
        return [self]

    def note_unused(self, dropped: int, ignored: int) -> None:
        """Be told how many rows were left out in a pass."""
        self._unused = (dropped, ignored)

    def unused(self) -> tuple[int, int]:
        """How many rows were left out in the last pass."""
        return self._unused

    def _check_sizes(self) -> None:
        """Refuse files that are not here what they were where the work was planned."""
        for path, size in self.sizes:
            try:
                found = path.stat().st_size
            except FileNotFoundError:
                raise DataError(
                    f"{path}: not found; expected the file on every machine that works on it; "
                    "put it on a file system they share"
                ) from None
            except OSError as problem:
                raise StorageError(
                    f"{path}: cannot be read ({problem.strerror}); expected a file you may read"
                ) from None
            if found != size:
                raise DataError(
                    f"{path}: has {found:,} bytes, and {size:,} where the work was planned; expected the same file on "
                    "every machine, unchanged during the run; run again"
                )


def ranges_of(source: FeatureSet, rows: int) -> list[RowRange]:
    """Return a set in parts of ``rows`` consecutive rows."""
    return [_range(source, start, min(start + rows, source.n)) for start in range(0, source.n, rows)]


def _range(source: FeatureSet, start: int, stop: int) -> RowRange:
    parts = [part for part in source.parts if part.start < stop and start < part.start + part.rows]
    options = replace(
        source.options,
        paths=tuple(str(part.path.absolute()) for part in parts),
        labels_key=None,
        labels=None,
        no_labels=True,
        ignore_label=None,
    )
    y = source.labels_of_rows(start, stop)
    return RowRange(
        options,
        parts[0].start,
        start,
        stop,
        source.n_features,
        source.dtype,
        source.has_logits,
        Coding(source.coding.names, None, source.coding.ignore),
        y.astype(np.result_type(np.min_scalar_type(y.min()), np.min_scalar_type(y.max()))),
        _sizes(parts),
        source.fingerprint,
        tuple(str(part.path) for part in parts),
    )


def _sizes(parts: Sequence[Part]) -> tuple[tuple[Path, int], ...]:
    return tuple((path.absolute(), path.stat().st_size) for part in parts for path in part.files)

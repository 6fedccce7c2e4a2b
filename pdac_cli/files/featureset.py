"""One logical set of rows over several files: streaming, random access, fingerprint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from pdac_cli.arrays import Array, Chunk
from pdac_cli.errors import DataError
from pdac_cli.files.fingerprint import fingerprint_of, fingerprint_rows, float_dtype, nonfinite_rows
from pdac_cli.files.formats.containers import Container
from pdac_cli.files.formats.ids import IdColumn, id_text
from pdac_cli.files.formats.labels import NOTHING_SEEN, Coding, LabelColumn, Seen, find_coding, row_text
from pdac_cli.files.formats.row_arrays import MemoryArray, RowArray, take
from pdac_cli.options.shared import InputOptions
from pdac_cli.storage.reading import quote, state_of

if TYPE_CHECKING:
    from pdac_cli.files.row_range import RowRange

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """One file's share of a set: ``rows`` rows from global row ``start`` on."""

    path: Path
    files: tuple[Path, ...]
    start: int
    key: str
    features: RowArray  # (rows, D)
    labels: LabelColumn
    logits: RowArray | None  # (rows, K)
    ids: IdColumn | None
    label_names: tuple[str, ...] | None
    container: Container | None = None

    @property
    def rows(self) -> int:
        """How many rows the file has."""
        return self.features.shape[0]

    @property
    def n_features(self) -> int:
        """D, columns of the features."""
        return self.features.shape[1]


class FeatureSet:
    """Rows of several files in the order given; a context manager that closes them.

    ``FeatureSet("a.h5", "b.h5", ignore_label=255)`` opens files by their paths or patterns, with the options of
    `InputOptions` by name.

    Attributes: ``n`` rows, ``n_features`` D, ``dtype`` of the features, ``files`` as named by the user, ``paths`` of
    every file read, ``label_names`` (class k is called ``label_names[k]``) or None for numbers, ``names_are_labels``:
    whether rows are labelled by names and not by numbers that have names, ``notes`` for the user, ``dropped`` and
    ``ignored``: rows left out as non-finite or by their label in the last full pass.

    Examples
    --------
    >>> from pdac_cli import FeatureSet, select_coreset
    >>> with FeatureSet("feats.h5") as rows:
    ...     chosen = select_coreset(rows, budget=30)
    ...     h = rows.read_rows(chosen).h
    >>> rows.n, h.shape
    (600, (30, 16))
    """

    def __init__(self, *paths: str | Path, **options: Any) -> None:
        from pdac_cli.files.features import opened_parts

        given = InputOptions(paths=tuple(map(str, paths)), **options)
        self._begin(*opened_parts(given), NOTHING_SEEN)

    @classmethod
    def of(
        cls,
        parts: list[Part],
        options: InputOptions,
        notes: list[str],
        stack: ExitStack,
        seen: Seen,
        coding: Coding | None = None,
    ) -> Self:
        """Return the set of files that are open."""
        made = cls.__new__(cls)
        made._begin(parts, options, notes, stack, seen, coding)
        return made

    def _begin(
        self,
        parts: list[Part],
        options: InputOptions,
        notes: list[str],
        stack: ExitStack,
        seen: Seen,
        coding: Coding | None = None,
    ) -> None:
        self._parts, self._options, self._stack = parts, options, stack
        self.parts = tuple(parts)
        self.n = sum(part.rows for part in parts)
        self.n_features = parts[0].n_features
        self.dtype: np.dtype[Any] = np.result_type(*(float_dtype(part.features.dtype) for part in parts))
        self.files = tuple(str(part.path) for part in parts)
        self.file_rows = tuple(part.rows for part in parts)
        self.paths = tuple(path for part in parts for path in part.files)
        self.has_logits = _all_alike([part.logits for part in parts])
        self.logit_labels: Array | None = None  # column k of the logits is that of label k
        self.has_ids = all(part.ids is not None for part in parts)
        self._given: tuple[int, NDArray[Any]] | None = None
        self.dropped = 0
        self.ignored = 0
        self._starts = np.array([part.start for part in parts])
        self._stats = {path: state_of(path) for path in self.paths}
        self.coding = self._coding = coding or find_coding(
            [part.labels for part in parts], [part.label_names for part in parts], options.ignore_label, seen
        )
        self.label_names = self._coding.names
        self.names_are_labels = self._coding.codes is not None
        if self._coding.codes is not None:
            names = len(self._coding.codes)
            notes = [*notes, f"{names:,} label names read as classes 0 to {names - 1:,}, in sorted order"]
        if len({part.features.dtype.newbyteorder("=") for part in parts}) > 1:
            notes = [*notes, f"files of different number types, read as {self.dtype.name}"]
        self.notes = tuple(notes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def options(self) -> InputOptions:
        """How the files were opened."""
        return self._options

    def close(self) -> None:
        """Let go of the files."""
        self._stack.close()

    def chunks(self, rows: int, *, logits: bool = False, start: int = 0, stop: int | None = None) -> Iterator[Chunk]:
        """All usable rows from ``start`` to ``stop``, in order, those of ``rows`` consecutive positions at a time.

        Chunk k holds the usable ones of the global rows k·rows to (k + 1)·rows, wherever files begin and end.
        """
        dropped = ignored = 0
        end = self.n if stop is None else stop
        for first in range(start - start % rows, end, rows):
            chunk = self._read(np.arange(max(first, start), min(end, first + rows)), logits)
            wanted = chunk.y != self._coding.ignore if self._coding.ignore is not None else np.ones(len(chunk.y), bool)
            bad = nonfinite_rows(chunk.h) & wanted
            if bad.any() and not self._options.drop_nonfinite:
                self._refuse_nonfinite(chunk, bad)
            ignored += int(np.count_nonzero(~wanted))
            dropped += int(np.count_nonzero(bad))
            chunk = _keep(chunk, wanted & ~bad)
            if len(chunk.ids):
                yield chunk
        self.dropped, self.ignored = dropped, ignored

    def ranges(self, rows: int) -> list[RowRange]:
        """The set in parts of ``rows`` consecutive rows, each of which another process can open."""
        from pdac_cli.files.row_range import ranges_of

        return ranges_of(self, rows)

    def note_unused(self, dropped: int, ignored: int) -> None:
        """Be told how many rows were left out in a pass that others have made."""
        self.dropped, self.ignored = dropped, ignored

    def unused(self) -> tuple[int, int]:
        """How many rows were left out in the last full pass: as non-finite, and by their label."""
        return self.dropped, self.ignored

    def label_chunks(self, rows: int) -> Iterator[tuple[Ids, NDArray[np.int64]]]:
        """Ids (m,) and labels (m,) of rows not left out by their label; the features are not read."""
        used = 0
        for start in range(0, self.n, rows):
            ids = np.arange(start, min(self.n, start + rows))
            y = self._labels(ids)
            if self._coding.ignore is not None:
                ids, y = ids[y != self._coding.ignore], y[y != self._coding.ignore]
            used += len(ids)
            if len(ids):
                yield ids, y
        self.ignored = self.n - used

    def read_rows(self, ids: Ids, *, logits: bool = False, leave_out: bool = False) -> Chunk:
        """The rows of the given global ids (m,), in that order; duplicates allowed.

        leave_out: without those that are not finite, if the options say so.
        """
        ids = np.asarray(ids, np.int64)
        outside = (ids < 0) | (ids >= self.n)
        if outside.any():
            raise DataError(
                f"{self.files[0]}: row {ids[np.argmax(outside)]:,} was asked for; "
                f"expected 0 to {self.n - 1:,}, for there are {self.n:,} rows"
            )
        chunk = self._read(ids, logits)
        bad = nonfinite_rows(chunk.h)
        if bad.any() and not (leave_out and self._options.drop_nonfinite):
            self._refuse_nonfinite(chunk, bad)
        return _keep(chunk, ~bad)

    def read_ids(self, ids: Ids) -> NDArray[Any]:
        """What the files' own ``ids`` arrays hold for the given global rows: (m,)."""

        def get(part: Part, rows: Ids) -> NDArray[Any]:
            if part.ids is None:
                raise DataError(f"{part.path}: has no 'ids' beside its features; expected them in all files")
            return part.ids.take(rows)

        return self._gather(np.asarray(ids, np.int64), get)

    def id_texts(self, ids: Ids) -> tuple[str, ...]:
        """What rows are called in their files, for the given global rows; empty where a file does not say."""
        return tuple(id_text(value) for value in self.read_ids(ids).tolist())

    @property
    def container(self) -> Container | None:
        """The open file, where there is a single one."""
        return self._parts[0].container if len(self._parts) == 1 else None

    @cached_property
    def fingerprint(self) -> str:
        """A name of 32 hexadecimal digits for the data, whatever the files, chunks and compression.

        It is the blake2b hash of n, D, the dtype and up to 64 evenly spaced rows (first and last among them) with
        their labels.  It tells one feature set from another; it is no checksum of every byte.
        """
        ids = fingerprint_rows(self.n)
        h = self._features(ids)
        names = self._gather(ids, lambda part, rows: part.labels.take(rows))
        return fingerprint_of(self.n, h, names)

    def relabelled(self, labels: NDArray[Any]) -> Self:
        """The same rows with labels (n,) that are in memory; closing one closes both."""
        parts = [
            replace(part, labels=LabelColumn(labels_in_memory(labels, part), part.path, "labels", part.start))
            for part in self._parts
        ]
        other = type(self).of(parts, self._options, [], self._stack, NOTHING_SEEN)
        other.notes, other.fingerprint = self.notes, self.fingerprint
        return other

    def check_unchanged(self) -> None:
        """Refuse to go on with a file that was replaced or modified since it was opened."""
        for path, state in self._stats.items():
            if state_of(path) != state:
                raise DataError(f"{path}: changed during the run; expected it to stay as it was; run again")

    def _read(self, ids: Ids, logits: bool) -> Chunk:
        y = self._labels(ids)
        h = self._features(ids)
        return Chunk(ids, h, y, self._logits(ids) if logits else None)

    @property
    def states(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """What tells the files from other ones, or from themselves after a change."""
        return tuple((str(path.absolute()), state) for path, state in self._stats.items())

    def take_labels(self, start: int, y: NDArray[Any]) -> None:
        """Take these as the labels of the rows from ``start`` on (m,), whatever the files say."""
        self._given = (start, y)

    def labels_of_rows(self, start: int, stop: int) -> NDArray[np.int64]:
        """The labels of rows start to stop, those to be left out included: (stop − start,)."""
        return self._labels(np.arange(start, stop))

    def _labels(self, ids: Ids) -> NDArray[np.int64]:
        if self._given is not None:
            start, y = self._given
            return y[ids - start].astype(np.int64)

        def get(part: Part, rows: Ids) -> NDArray[np.int64]:
            return part.labels.encode(part.labels.take(rows), rows, self._coding)

        return self._gather(ids, get)

    def _features(self, ids: Ids) -> NDArray[Any]:
        return self._gather(ids, lambda part, rows: take(part.features, rows).astype(self.dtype, copy=False))

    def _logits(self, ids: Ids) -> NDArray[Any]:
        def get(part: Part, rows: Ids) -> NDArray[Any]:
            if part.logits is None:
                raise DataError(f"{part.path}: has no 'logits' beside its features; expected them in all files")
            logits = take(part.logits, rows)
            logits = logits.astype(float_dtype(logits.dtype), copy=False)
            bad = nonfinite_rows(logits)
            if bad.any():
                where = row_text(int(rows[np.argmax(bad)]), part.start)
                raise DataError(f"{part.path}: 'logits' has NaN or infinity in {where}; expected finite numbers")
            return logits

        if not self.has_logits:
            raise DataError(
                f"{self.files[0]}: has no 'logits' (n, K) beside its features, alike in all files; "
                "expected them; extract with logits"
            )
        return self._gather(ids, get)

    def _gather(self, ids: Ids, get: Callable[[Part, Ids], NDArray[Any]]) -> NDArray[Any]:
        """Rows (m, …) of the given global ids, each asked of its own file by its row there."""
        which = np.searchsorted(self._starts, ids, side="right") - 1
        pieces = [(int(k), np.flatnonzero(which == k)) for k in np.unique(which)]
        found = [get(self._parts[k], ids[where] - self._parts[k].start) for k, where in pieces]
        if len(found) == 1:
            return found[0]
        out = np.empty((len(ids), *found[0].shape[1:]), np.result_type(*found))
        for (_, where), rows in zip(pieces, found, strict=True):
            out[where] = rows
        return out

    def _refuse_nonfinite(self, chunk: Chunk, bad: NDArray[np.bool_]) -> None:
        row = int(chunk.ids[np.argmax(bad)])
        part = self._parts[int(np.searchsorted(self._starts, row, side="right")) - 1]
        raise DataError(
            f"{part.path}: {quote(part.key)} has NaN or infinity in {row_text(row - part.start, part.start)}; "
            "expected finite numbers; leave such rows out with --drop-nonfinite"
        )


def labels_in_memory(labels: NDArray[Any], part: Part) -> RowArray:
    """The labels of a file's rows, of those of the whole set."""
    return MemoryArray(labels[part.start : part.start + part.rows])


def _all_alike(arrays: list[RowArray | None]) -> bool:
    return len({None if array is None else array.shape[1] for array in arrays}) == 1 and arrays[0] is not None


def _keep(chunk: Chunk, keep: NDArray[np.bool_]) -> Chunk:
    if keep.all():
        return chunk
    logits = None if chunk.logits is None else chunk.logits[keep]
    return Chunk(chunk.ids[keep], chunk.h[keep], chunk.y[keep], logits)

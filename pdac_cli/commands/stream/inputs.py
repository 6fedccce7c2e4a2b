"""What a stream reads: which files, from where on, in which batches, and the numbers it gives to their classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import Array, Chunk
from pdac_cli.console import Console
from pdac_cli.errors import DataError
from pdac_cli.files.features import FeatureSet
from pdac_cli.files.formats.growing import growing_rows, open_first_rows
from pdac_cli.files.formats.labels import Seen
from pdac_cli.files.results.state import FilePosition
from pdac_cli.options.shared import InputOptions
from pdac_cli.pipeline.streaming import batches_of, rows_read_at_once

_FIRST_ROWS = 256  # read to see what a file has


@dataclass(frozen=True)
class StreamFile:
    """One file that a stream is to read."""

    path: str
    source: int  # its number in the stream
    start: int  # the first row that has not been read
    growing: bool
    rows: int  # it has, or had when it was first looked at


def files_to_read(
    finished: Mapping[str, int], places: Sequence[FilePosition], options: InputOptions, growing: str | None
) -> list[StreamFile]:
    """Return the files to read, in order, leaving out those that the stream has seen to the end.

    `finished` are the names of the files that do not grow, and how many rows each has.
    """
    files: list[StreamFile] = []
    sources = len(places)
    for name in (*finished, *([growing] if growing is not None else [])):
        follows = name is growing
        rows = growing_rows(options, name) if follows else finished[name]
        known = _find(name, rows, places, options, follows)
        if known is None:
            files.append(StreamFile(name, sources, 0, follows, rows))
            sources += 1
        elif follows or rows > places[known].rows:
            files.append(StreamFile(name, known, places[known].rows, follows, rows))
    _check_order(files, places)
    return files


def rows_to_read(files: Sequence[StreamFile]) -> int | None:
    """Return how many rows there are to read; None while a file grows."""
    return None if any(file.growing for file in files) else sum(file.rows - file.start for file in files)


def note_seen(names: Iterable[str], files: Sequence[StreamFile], console: Console) -> None:
    """Say which files are left out and which are resumed."""
    for name in names:
        if name not in {file.path for file in files}:
            console.note(f"note: {name}: the stream has seen it already")
    for file in files:
        if file.start:
            console.note(f"note: {file.path}: going on after its row {file.start - 1:,}")


def batches(source: FeatureSet, start: int, rows: int, logits: bool = False) -> Iterator[tuple[Chunk, int]]:
    """Yield the usable rows from `start` on, and up to which of its rows the file is read then.

    Batch k holds those of the file's rows k·rows to (k + 1)·rows.  The cuts are a function of the file alone, so a
    stream that was stopped goes on with the same batches.
    """
    at_once = rows_read_at_once(rows, source.n_features, source.dtype.itemsize)
    for batch in batches_of(source.chunks(at_once, start=start, logits=logits), rows):
        yield batch, int(min(source.n, (batch.ids[0] // rows + 1) * rows))


def n_logits_of(source: FeatureSet, path: str, method: str) -> int | None:
    """Return K, the number of logits, None without a usable row; refuse files without logits."""
    if not source.has_logits:
        raise DataError(
            f"{path}: has no 'logits' beside its features, and --method {method} needs them; expected (n, K) of the "
            "network that made the features; extract with logits, or use another --method"
        )
    first = next(source.chunks(_FIRST_ROWS, logits=True), None)
    return None if first is None or first.logits is None else int(first.logits.shape[1])


def fingerprint_of_first(path: str, rows: int, options: InputOptions, growing: bool) -> str:
    """Return the fingerprint that the file would have with its first rows alone."""
    with open_first_rows(options, path, rows, growing, Seen(rows)) as source:
        return source.fingerprint


def _find(name: str, rows: int, places: Sequence[FilePosition], options: InputOptions, growing: bool) -> int | None:
    """Return which file of the stream this is, by its content; None for a new one."""
    for k in reversed(range(len(places))):
        place = places[k]
        if place.path != name and place.rows != rows:
            continue
        found = "" if place.rows > rows else fingerprint_of_first(name, place.rows, options, growing)
        if found == place.fingerprint:
            return k
        if place.path == name and not place.done:
            raise DataError(
                f"{name}: its first {place.rows:,} rows are not those that the stream has read; "
                "expected the file as it was; restore it, or give another --state to begin anew"
            )
    return None


def _check_order(files: Sequence[StreamFile], places: Sequence[FilePosition]) -> None:
    """Refuse to leave a file half read."""
    for k, place in enumerate(places):
        if not place.done and (not files or files[0].source != k):
            raise DataError(
                f"{place.path}: the stream stands at row {place.rows:,} of its {place.total:,}; "
                "expected it as the first new file; give it again to finish it"
            )


@dataclass
class StreamClasses:
    """Names in the order of their numbers; outputs show names that are the rows' own labels in sorted order instead.

    Which names a growing file will have is not known when its first rows are read, so these are numbered as they
    appear.  A file of numbers that gives names to them keeps its numbers, if it is the first.
    """

    names: dict[str, int] | None = None  # None: labels are numbers, or no row has come
    sort: bool = False  # whether outputs are sorted by name

    @classmethod
    def of(cls, names: tuple[str, ...] | None, sort: bool) -> StreamClasses:
        """Return the classes of a stream that goes on."""
        return cls(None if names is None else {name: k for k, name in enumerate(names)}, sort)

    def numbers(self, y: Array, source: FeatureSet, path: str, first: bool) -> Array:
        """Return the stream's numbers of labels (n,) of a file, where a stream's `first` rows settle the kind."""
        if first:
            self.names, self.sort = (None if source.label_names is None else {}), source.names_are_labels
        if (self.names is None) != (source.label_names is None):
            kinds = ["numbers" if each is None else "names" for each in (source.label_names, self.names)]
            found = f"classes are {kinds[0]}, the stream's are {kinds[1]}"
            raise DataError(f"{path}: {found}; expected one kind in all")
        if self.names is None or source.label_names is None:
            return y
        codes, at, where = np.unique(y, return_index=True, return_inverse=True)
        present = [source.label_names[code] for code in codes]
        for name in [present[k] for k in np.argsort(at)] if source.names_are_labels else source.label_names:
            self.names.setdefault(name, len(self.names))
        return np.array([self.names[name] for name in present], np.int64)[where]

    def shown(self) -> tuple[tuple[str, ...] | None, Array]:
        """Return the names in the order of the outputs, and the output's number of each of the stream's: (K,)."""
        if self.names is None:
            return None, np.empty(0, np.int64)
        names = tuple(sorted(self.names)) if self.sort else tuple(self.names)
        place = {name: k for k, name in enumerate(names)}
        return names, np.array([place[name] for name in self.names], np.int64)

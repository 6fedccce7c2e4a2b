"""Which files a stream is to read, from where on: its state knows those it has seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdac_cli.console import Console
from pdac_cli.errors import DataError
from pdac_cli.files.features import FeatureSet, open_features
from pdac_cli.files.follow import growing_rows, open_first_rows
from pdac_cli.files.labels import Seen
from pdac_cli.files.state import Place
from pdac_cli.options.shared import InputOptions

_READ_BYTES = 1 << 24  # of features read at once
_FIRST_ROWS = 256  # read to see what a file has


@dataclass(frozen=True)
class Leg:
    """One file of the stream."""

    path: str
    source: int  # its number in the stream
    start: int  # the first row that has not been read
    growing: bool


@dataclass(frozen=True)
class Batch:
    """Some consecutive usable rows of one file."""

    ids: NDArray[np.int64]  # (n,)
    h: NDArray[Any]  # (n, D)
    y: NDArray[np.int64]  # (n,)
    stop: int  # the file's rows up to here are read now
    z: NDArray[Any] | None = None  # (n, K) logits, where asked for


def plan_legs(names: Sequence[str], places: Sequence[Place], options: InputOptions, growing: str | None) -> list[Leg]:
    """Return the files to read, in order, leaving out those that the stream has seen to the end."""
    legs: list[Leg] = []
    sources = len(places)
    for name in (*names, *([growing] if growing is not None else [])):
        follows = name is growing
        rows = growing_rows(options, name) if follows else _count(name, options)
        known = _find(name, rows, places, options, follows)
        if known is None:
            legs.append(Leg(name, sources, 0, follows))
            sources += 1
        elif follows or rows > places[known].rows:
            legs.append(Leg(name, known, places[known].rows, follows))
    _check_order(legs, places)
    return legs


def note_seen(names: Sequence[str], legs: Sequence[Leg], console: Console) -> None:
    """Say which files are left out and which are gone on with."""
    for name in names:
        if name not in {leg.path for leg in legs}:
            console.note(f"note: {name}: the stream has seen it already")
    for leg in legs:
        if leg.start:
            console.note(f"note: {leg.path}: going on after its row {leg.start - 1:,}")


def batches(source: FeatureSet, start: int, rows: int, logits: bool = False) -> Iterator[Batch]:
    """Yield the usable rows from `start` on; batch k holds those of the file's rows k·rows to (k + 1)·rows.

    The cuts are a function of the file alone, so a stream that was stopped goes on with the same batches.
    """
    at_once = rows * max(1, _READ_BYTES // (rows * source.dim * source.dtype.itemsize))
    for chunk in source.chunks(at_once, start=start, logits=logits):
        number = chunk.ids // rows
        for k in np.unique(number):
            own = slice(*np.searchsorted(number, [k, k + 1]))
            z = None if chunk.logits is None else chunk.logits[own]
            yield Batch(chunk.ids[own], chunk.h[own], chunk.y[own], int(min(source.n, (k + 1) * rows)), z)


def logits_of(source: FeatureSet, path: str, method: str) -> int | None:
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


def _count(name: str, options: InputOptions) -> int:
    with open_features(replace(options, paths=(name,))) as source:
        return source.n


def _find(name: str, rows: int, places: Sequence[Place], options: InputOptions, growing: bool) -> int | None:
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


def _check_order(legs: Sequence[Leg], places: Sequence[Place]) -> None:
    """Refuse to leave a file half read."""
    for k, place in enumerate(places):
        if not place.done and (not legs or legs[0].source != k):
            raise DataError(
                f"{place.path}: the stream stands at row {place.rows:,} of its {place.total:,}; "
                "expected it as the first new file; give it again to finish it"
            )

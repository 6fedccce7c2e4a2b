"""Finding rows by what they are called, in memory that grows by a few bytes a row whatever their names are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.formats.ids import IdColumn, id_text
from pdac_cli.storage.reading import quote

_ROWS = 1 << 14  # whose ids are read at once
_DIGEST = np.dtype("S16")  # of an id: two of a billion ids share one with a probability of 1e-21


def places_of(wanted: Sequence[IdColumn], there: IdColumn, path: Path) -> NDArray[np.int64] | None:
    """Where the rows called as the wanted ones, (n,), lie among those of ``path``; None: at the same places."""
    total = sum(column.rows for column in wanted)
    if there.rows == total and _same(wanted, there):
        _digests([there], path)
        return None
    keys = _digests([there], path)
    order = np.argsort(keys, kind="stable")
    asked = _digests(wanted, None)
    found = np.searchsorted(keys, asked, sorter=order)
    places = order[np.minimum(found, len(order) - 1)]
    missing = keys[places] != asked
    if missing.any():
        row = int(np.argmax(missing))
        raise DataError(
            f"{path}: has no row called {quote(_name(wanted, row))}, as row {row:,} of the features is; "
            f"expected one for each ({int(missing.sum()):,} of {total:,} have none)"
        )
    return places


def _same(wanted: Sequence[IdColumn], there: IdColumn) -> bool:
    """Whether both have the same ids in the same order."""
    at = 0
    for column, start, stop in _blocks(wanted):
        rows = stop - start
        if column.texts(np.arange(start, stop)) != there.texts(np.arange(at, at + rows)):
            return False
        at += rows
    return True


def _digests(columns: Sequence[IdColumn], path: Path | None) -> NDArray[Any]:
    """A hash of every id, (n,); with a path, refuse two that are alike there."""
    out = np.empty(sum(column.rows for column in columns), _DIGEST)
    at = 0
    for column, start, stop in _blocks(columns):
        texts = column.texts(np.arange(start, stop))
        raw = (text.encode("utf-8", "surrogateescape") for text in texts)
        out[at : at + len(texts)] = [hashlib.blake2b(value, digest_size=_DIGEST.itemsize).digest() for value in raw]
        at += len(texts)
    if path is not None:
        order = np.argsort(out, kind="stable")
        repeat = np.flatnonzero(out[order[1:]] == out[order[:-1]])
        if len(repeat):
            row = int(order[repeat[0] + 1])
            raise DataError(
                f"{path}: two rows are called {quote(_name(columns, row))}; expected different ids; "
                "leave the ids out to take the labels in order"
            )
    return out


def _blocks(columns: Sequence[IdColumn]) -> Iterator[tuple[IdColumn, int, int]]:
    for column in columns:
        for start in range(0, column.rows, _ROWS):
            yield column, start, min(column.rows, start + _ROWS)


def _name(columns: Sequence[IdColumn], row: int) -> str:
    for column in columns:
        if row < column.rows:
            return id_text(column.take(np.array([row])).tolist()[0])
        row -= column.rows
    raise IndexError(row)

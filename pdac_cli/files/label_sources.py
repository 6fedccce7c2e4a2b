"""Where the labels of a set come from: beside the features, a file of their own, or nowhere."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.formats.containers import Container, open_array_file
from pdac_cli.files.formats.ids import IdColumn
from pdac_cli.files.formats.keys import Keys
from pdac_cli.files.formats.label_files import LabelFile, open_label_file
from pdac_cli.files.formats.labels import LabelColumn, read_names
from pdac_cli.files.formats.row_arrays import RowArray, take
from pdac_cli.files.matching import places_of
from pdac_cli.options.shared import InputOptions
from pdac_cli.storage.reading import quote

_STEP = 1 << 12  # rows of labels that are read together


@dataclass(frozen=True)
class FileColumns:
    """What one feature file holds beside labels; its first row is row ``start`` of the set."""

    container: Container
    start: int
    keys: Keys
    features: RowArray  # (rows, D)
    logits: RowArray | None  # (rows, K)
    ids: IdColumn | None

    @property
    def rows(self) -> int:
        """How many rows the file has."""
        return self.features.shape[0]


@dataclass(frozen=True)
class FileLabels:
    """The labels of one feature file's rows."""

    column: LabelColumn
    names: tuple[str, ...] | None = None  # that the file gives to its classes
    files: tuple[Path, ...] = ()  # read for them beside the feature file


class OneLabel:
    """Label 0 for every row, where there are no labels."""

    def __init__(self, rows: int) -> None:
        self.shape, self.dtype, self.step = (rows,), np.dtype(np.int64), _STEP

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start,)."""
        return np.zeros(stop - start, np.int64)


class RowsOf:
    """Some rows of an array as one of its own: ``rows`` from ``start`` on, or those at given places."""

    def __init__(self, array: RowArray, start: int, rows: int, places: NDArray[np.int64] | None = None) -> None:
        self._array, self._start, self._places = array, start, places
        self.shape, self.dtype, self.step = (rows, *array.shape[1:]), array.dtype, array.step

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …)."""
        if self._places is not None:
            return take(self._array, self._places[start:stop])
        return self._array.read(self._start + start, self._start + stop)


def labels_elsewhere(options: InputOptions) -> bool:
    """Whether labels are not looked for inside the feature files."""
    return options.no_labels or options.labels is not None or _array_file(options) is not None


def labels_of(
    columns: Sequence[FileColumns], options: InputOptions, stack: ExitStack
) -> tuple[list[FileLabels], list[str]]:
    """The labels of every file, and what the user should know of them."""
    if options.no_labels:
        return [_labels(one, OneLabel(one.rows), one.container.path, "labels") for one in columns], []
    if options.labels is not None:
        return _apart(columns, open_label_file(options.labels, stack))
    path = _array_file(options)
    if path is not None and len(columns) > 1:
        raise DataError(
            f"--labels-key {options.labels_key} is one file and there are {len(columns)} feature files; "
            "expected one labels file each, called as theirs with .labels.npy at the end; "
            f"or give --labels {options.labels_key} if it has the labels of all of them"
        )
    if path is not None:
        [one] = columns
        found = open_array_file(path)
        check_rows(one.container.path, path.name, found, one.keys.features, one.features)
        return [_labels(one, found, one.container.path, path.name, files=(path,))], []
    return [_beside(one) for one in columns], []


def check_rows(path: Path, name: str, array: RowArray | None, key: str, features: RowArray) -> None:
    """Refuse an array that has not as many rows as the features."""
    if array is not None and array.shape[:1] != features.shape[:1]:
        raise DataError(
            f"{path}: {quote(name)} has {(*array.shape, 0)[0]:,} rows, {quote(key)} has {features.shape[0]:,}; "
            "expected as many; write them again together"
        )


def _beside(one: FileColumns) -> FileLabels:
    path, key = one.container.path, str(one.keys.labels)
    array = one.container.get(key)
    labels = _labels(one, array, path, key)
    check_rows(path, key, array, one.keys.features, one.features)
    if one.keys.label_names is None:
        return labels
    return FileLabels(labels.column, read_names(one.container.get(one.keys.label_names), path, one.keys.label_names))


def _labels(
    one: FileColumns, array: RowArray, path: Path, key: str, names: tuple[str, ...] | None = None,
    files: tuple[Path, ...] = (),
) -> FileLabels:  # fmt: skip
    return FileLabels(LabelColumn(array, path, key, one.start), names, files)


def _apart(columns: Sequence[FileColumns], found: LabelFile) -> tuple[list[FileLabels], list[str]]:
    """One file with the labels of all rows: by their ids where both have them, else in order."""
    total = sum(one.rows for one in columns)
    places, notes = None, []
    if found.ids is not None and all(one.ids is not None for one in columns):
        places = places_of([one.ids for one in columns if one.ids is not None], found.ids, found.path)
        notes.append(f"{found.path}: labels matched by {quote(found.ids_key)}")
        more = found.ids.rows - total
        if more:
            notes.append(f"{found.path}: {more:,} of its {found.ids.rows:,} labels are of other rows")
    elif found.rows != total:
        raise DataError(
            f"{found.path}: {quote(found.key)} has {found.rows:,} rows, there are {total:,} rows of features; "
            "expected as many, in their order; or ids in both, by which they can be matched"
        )
    out = []
    for one in columns:
        own = None if places is None else places[one.start : one.start + one.rows]
        array = RowsOf(found.labels, one.start, one.rows, own)
        out.append(_labels(one, array, found.path, found.key, found.names, found.files))
    return out, notes


def _array_file(options: InputOptions) -> Path | None:
    key = options.labels_key
    return Path(key) if key is not None and key.endswith(".npy") else None

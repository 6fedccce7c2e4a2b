"""Feature files that are still growing, and the beginning of a file: both show only some of the rows.

A growing file is one that another process appends to under HDF5's single-writer multiple-reader mode (SWMR).  It is
complete when a file of the same name with ``.done`` at the end lies beside it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError, PdacError
from pdac_cli.files.features import FeatureSet, open_features
from pdac_cli.files.formats.containers import Container, open_container
from pdac_cli.files.formats.hdf5 import describe_datasets, list_datasets, open_hdf5
from pdac_cli.files.formats.hdf5_datasets import get_dataset
from pdac_cli.files.formats.keys import find_keys
from pdac_cli.files.formats.labels import NOTHING_SEEN, Seen
from pdac_cli.files.formats.row_arrays import Hdf5Array, RowArray
from pdac_cli.options.shared import InputOptions
from pdac_cli.storage.reading import LIBRARY_ERRORS

POLL_SECONDS = 0.1


class FirstRows:
    """The first rows of an array, as if there were no more."""

    def __init__(self, array: RowArray, rows: int) -> None:
        self._array = array
        self.shape = (min(rows, array.shape[0]), *array.shape[1:])
        self.dtype, self.step = array.dtype, array.step

    def read(self, start: int, stop: int) -> NDArray[np.generic]:
        """Rows start to stop, (stop − start, …)."""
        return self._array.read(start, stop)


class FirstRowsContainer:
    """A file of which only the first rows are seen."""

    def __init__(self, container: Container, rows: int) -> None:
        self.path, self._container, self._rows = container.path, container, rows
        self.files, self.names = container.files, container.names
        self.describe, self.close = container.describe, container.close

    def get(self, key: str) -> RowArray:
        """The array of that name; names of classes have no rows to leave out."""
        array = self._container.get(key)
        return array if key.endswith("label_names") else FirstRows(array, self._rows)


class GrowingContainer:
    """An HDF5 file that its writer may still append to, with as many rows as all of its columns have by now."""

    def __init__(self, path: Path, options: InputOptions) -> None:
        self.path, self._external = path, options.allow_external
        try:
            self._file = h5py.File(path, "r", libver="latest", swmr=True)
        except LIBRARY_ERRORS:
            self._file = open_hdf5(path)  # closed for good by its writer, and perhaps never in that mode
        try:
            keys = find_keys(self, options, with_labels=not options.no_labels)
            columns = [key for key in (keys.features, keys.labels, keys.logits, keys.ids) if key is not None]
            self.rows = min(self._array(key).shape[0] for key in columns)
        except BaseException:
            self.close()
            raise

    def files(self) -> list[Path]:
        """The file itself."""
        return [self.path]

    def names(self) -> list[str]:
        """Paths of the datasets."""
        return list_datasets(self._file)

    def describe(self) -> str:
        """What it holds, for messages."""
        return describe_datasets(self._file)

    def get(self, key: str) -> RowArray:
        """The dataset of that name, as far as all of them go."""
        array = self._array(key)
        return array if key.endswith("label_names") else FirstRows(array, self.rows)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _array(self, key: str) -> RowArray:
        return Hdf5Array(get_dataset(self._file, key, self._external), self.path, key)


def open_first_rows(
    options: InputOptions, path: str, rows: int, growing: bool = False, seen: Seen = NOTHING_SEEN
) -> FeatureSet:
    """Open one file as if it had only its first rows."""

    def open_file(found: Path, allow_external: bool) -> Container:
        container = GrowingContainer(found, options) if growing else open_container(found, allow_external)
        return FirstRowsContainer(container, rows)

    return open_features(replace(options, paths=(path,)), open_file, seen)


def growing_rows(options: InputOptions, path: str) -> int:
    """How many whole rows a growing file has by now; 0 if it, or what it is to hold, is not there yet."""
    try:
        return _count(options, path)
    except PdacError:
        return 0  # its writer has not come to the first row; if it never does, the wait ends by the time-out


def features_when_there(options: InputOptions, path: str, timeout: float) -> int:
    """Return D of a growing file, waiting up to `timeout` seconds for its first row."""
    begun = time.monotonic()
    while not growing_rows(options, path):
        if is_complete(path) or time.monotonic() - begun > timeout:
            raise DataError(
                f"{path}: no row came in {timeout:g} s{_why(options, path)}; expected a writer; see --timeout"
            )
        time.sleep(POLL_SECONDS)
    with open_first_rows(options, path, 1, growing=True) as source:
        return source.n_features


def is_complete(path: str) -> bool:
    """Whether the writer has said that no more rows will come."""
    return Path(f"{path}.done").exists()


def _count(options: InputOptions, path: str) -> int:
    container = GrowingContainer(Path(path), options)
    container.close()
    return container.rows


def _why(options: InputOptions, path: str) -> str:
    """What stands in the way of reading the file, in brackets."""
    try:
        _count(options, path)
    except PdacError as problem:
        return f" ({str(problem).removeprefix(f'{path}: ').split(';')[0]})"
    return ""

"""Image arrays in HDF5 or npz files: which arrays are the images, labels, ids and the split."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.formats.containers import Container, open_container
from pdac_cli.files.formats.keys import LABEL_NAMES
from pdac_cli.files.formats.labels import LabelColumn, find_coding, read_names
from pdac_cli.files.formats.row_arrays import take
from pdac_cli.options.extract import Split

IMAGE_NAMES = ("images", "image", "data", "x", "X")
_MOST = 10**8  # images of a file: their labels and names are kept in memory
_SPLIT_VALUES: dict[Split, tuple[Any, ...]] = {Split.TRAIN: (0, "train"), Split.TEST: (1, "test")}


@dataclass(frozen=True)
class StoredImages:
    """The rows of one part of an image file, m of the n it holds."""

    take: Callable[[NDArray[np.int64]], NDArray[Any]]  # row numbers (k,) to images (k, …)
    shape: tuple[int, ...]  # (n, …)
    dtype: np.dtype[Any]
    rows: NDArray[np.int64]  # (m,)
    labels: NDArray[np.int64]  # (m,)
    ids: tuple[str, ...]  # (m,)
    label_names: tuple[str, ...] | None


@contextmanager
def open_images(path: Path, split: Split | None) -> Iterator[StoredImages]:
    """Open an image file; all its rows, or those of the split asked for."""
    container = open_container(path, allow_external=False)
    try:
        images = container.get(_find(container, IMAGE_NAMES, "images"))
        n = images.shape[0] if images.shape else 0
        if n > _MOST:
            raise DataError(f"{path}: declares {n:,} images; expected at most {_MOST:,}; split the file")
        column = _label_column(container, n)
        rows = _rows(container, split, n)
        labels, names = _labels(container, column, rows)
        yield StoredImages(
            lambda wanted: take(images, wanted),
            images.shape,
            images.dtype,
            rows,
            labels,
            _ids(container, rows, n),
            names,
        )
    finally:
        container.close()


def _find(container: Container, names: tuple[str, ...], what: str) -> str:
    present = container.names()
    for name in names:
        if name in present:
            return name
    raise DataError(
        f"{container.path}: has no {what}; expected an array called {', '.join(names)}; "
        f"the file holds {container.describe()}"
    )


def _rows(container: Container, split: Split | None, n: int) -> NDArray[np.int64]:
    if split is None:
        return np.arange(n)
    if "split" not in container.names():
        raise DataError(
            f"{container.path}: has no array 'split' for --split {split.value}; expected one, 0 for train and 1 for "
            "test; leave --split out to take all images"
        )
    column = LabelColumn(container.get("split"), container.path, "split", 0)
    _check_length(container, "split", column.rows, n)
    rows = np.flatnonzero(np.isin(column.read(0, n), _SPLIT_VALUES[split][int(column.text)]))
    if len(rows) == 0:
        raise DataError(f"{container.path}: 'split' has no {split.value} rows; expected 0 for train and 1 for test")
    return rows


def _label_column(container: Container, n: int) -> LabelColumn:
    key = _find(container, LABEL_NAMES, "labels")
    column = LabelColumn(container.get(key), container.path, key, 0)
    _check_length(container, key, column.rows, n)
    return column


def _labels(
    container: Container, column: LabelColumn, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
    """Class numbers of the rows; labels that are names get numbers in sorted order, over the whole file."""
    names = None
    if "label_names" in container.names() and not column.text:
        names = read_names(container.get("label_names"), container.path, "label_names")
    coding = find_coding([column], [names], ignore=None)
    raw = column.read(0, column.rows)[rows]
    if not column.text and raw.min() < 0:
        row, key = int(rows[np.argmax(raw < 0)]), _find(container, LABEL_NAMES, "labels")
        raise DataError(
            f"{container.path}: {key!r} is {raw.min()} in row {row:,}; expected 0 or more; "
            "give images without a class a number of their own"
        )
    return column.encode(raw, rows, coding), coding.names


def _ids(container: Container, rows: NDArray[np.int64], n: int) -> tuple[str, ...]:
    """The file's own ids, else its name with the row's number in it."""
    if "ids" not in container.names():
        return tuple(f"{container.path.stem}-{row:05d}" for row in rows.tolist())
    column = LabelColumn(container.get("ids"), container.path, "ids", 0)
    _check_length(container, "ids", column.rows, n)
    return tuple(str(value) for value in column.read(0, n)[rows])


def _check_length(container: Container, key: str, found: int, n: int) -> None:
    if found != n:
        raise DataError(
            f"{container.path}: {key!r} has {found:,} rows, there are {n:,} images; expected as many; write it again"
        )

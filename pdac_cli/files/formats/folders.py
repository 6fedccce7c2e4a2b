"""Folders of numbered files as one container: ``.npy`` parts with tables beside them, Parquet parts, or a Zarr store.

clip-retrieval and LAION write ``img_emb_0.npy``, ``img_emb_1.npy``, … and ``metadata_0.parquet`` beside them or in a
folder of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.formats.named_arrays import JoinedArray, NamedArrays
from pdac_cli.files.formats.parquet_files import SUFFIXES, open_parquet_folder
from pdac_cli.files.formats.row_arrays import RowArray, open_npy
from pdac_cli.files.formats.zarr_stores import is_zarr, open_zarr
from pdac_cli.storage.reading import quote, reading

_PART = re.compile(r"(?P<name>.+?)[_-](?P<number>\d{1,9})(?P<more>[._](labels|logits|ids))?\.npy")
_MOST_FILES = 100_000


def is_folder_of_features(path: Path) -> bool:
    """Whether a folder holds what this module reads."""
    return path.is_dir() and (is_zarr(path) or any(file.suffix in (".npy", *SUFFIXES) for file in _files(path)))


def open_folder(path: Path) -> NamedArrays:
    """The arrays of a folder."""
    if is_zarr(path):
        return open_zarr(path)
    files = _files(path)
    tables = [file for file in files if file.suffix in SUFFIXES]
    series = _series([file for file in files if file.suffix == ".npy"])
    if not series and not tables:
        raise DataError(
            f"{path}: is a folder without .npy or .parquet files; expected feature files; name one inside, or a "
            "pattern in quotes"
        )
    columns = open_parquet_folder(path, tables) if tables else None
    arrays: dict[str, Callable[[], RowArray]] = {name: partial(_joined, parts, name) for name, parts in series.items()}
    if columns:
        arrays = {**{name: partial(columns.get, name) for name in columns.names()}, **arrays}
    close: Callable[[], Any] = columns.close if columns else lambda: None
    read = [*(part for parts in series.values() for part in parts), *tables]
    return NamedArrays(path, read, arrays, close)


def _files(path: Path) -> list[Path]:
    """Files of the folder and of those in it, in the order of the numbers in their names."""
    with reading(path, "the folder"):
        own = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
        inner = [file for entry in own if entry.is_dir() for file in entry.iterdir() if not file.name.startswith(".")]
    files = [file for file in (*own, *inner) if file.is_file() and file.suffix in (".npy", *SUFFIXES)]
    if len(files) > _MOST_FILES:
        raise DataError(f"{path}: holds {len(files):,} files; expected at most {_MOST_FILES:,}; join some of them")
    return sorted(files, key=_order)


def _order(file: Path) -> tuple[str, list[tuple[int, str]]]:
    """By folder, then by name, numbers in it as numbers: part 10 comes after part 9."""
    pieces = re.findall(r"\d+|\D+", file.name)
    return str(file.parent), [(int(piece), "") if piece.isdigit() else (-1, piece) for piece in pieces]


def _series(files: list[Path]) -> dict[str, list[Path]]:
    """``.npy`` files by the name before their number: ``img_emb``, or ``labels`` of ``img_emb_0.labels.npy``."""
    found: dict[str, list[Path]] = {}
    for file in files:
        part = _PART.fullmatch(file.name)
        name = file.stem if part is None else (part["more"] or part["name"]).lstrip("._")
        found.setdefault(name, []).append(file)
    return found


def _joined(parts: list[Path], name: str) -> RowArray:
    return JoinedArray([_Part(part) for part in parts], parts, name)


class _Part:
    """A ``.npy`` file that is open only while it is read: a folder may have more than a process may open.

    It is read and not mapped: the pages of a mapped file that is cut off meanwhile end the process.
    """

    def __init__(self, path: Path) -> None:
        array = open_npy(path)
        self._path, self.shape, self.dtype, self.step = path, array.shape, array.dtype, array.step

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …)."""
        array = open_npy(self._path)
        if array.shape != self.shape or array.dtype != self.dtype:
            raise DataError(f"{self._path}: {quote(self._path.name)} changed during the run; expected it to stay")
        found: NDArray[Any] = np.asarray(array.read(start, stop))
        return found

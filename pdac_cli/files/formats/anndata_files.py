"""AnnData ``.h5ad`` files, read by h5py alone: ``X`` dense or sparse rows, ``obsm``, columns of ``obs``, its index.

The layout is that of https://anndata.readthedocs.io/en/latest/fileformat-prose.html.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.formats.attributes import read_attribute
from pdac_cli.files.formats.containers import Hdf5Container
from pdac_cli.files.formats.hdf5 import has_link
from pdac_cli.files.formats.named_arrays import NamedArrays
from pdac_cli.files.formats.row_arrays import RowArray, check_row_bytes
from pdac_cli.storage.reading import LIBRARY_ERRORS, quote, reading, shape_text

LABELS = ("labels", "label", "y", "targets", "cell_type", "celltype", "leiden", "louvain", "cluster")
_SPARSE_ROWS = 256  # read together when some of them are wanted
_MAX_CATEGORIES = 1 << 22


def is_anndata(path: Path, file: h5py.File) -> bool:
    """Whether an HDF5 file is of this layout."""
    with suppress(DataError, *LIBRARY_ERRORS):
        marked = read_attribute(file, "encoding-type") == "anndata" or _attribute(file, "encoding-type") == "anndata"
        return marked or (path.suffix == ".h5ad" and has_link(file, "obs"))
    return False


def open_anndata(container: Hdf5Container) -> NamedArrays:
    """``X``, ``obsm/…``, ``layers/…`` and the columns of ``obs`` by their names; labels under the first common one."""
    path, file = container.path, container.file
    arrays: dict[str, Callable[[], RowArray]] = {}
    for name in ("X", *_members(file, "obsm"), *_members(file, "layers")):
        if has_link(file, name.split("/")[0]):
            arrays[name] = partial(_matrix, container, name)
    aliases = {name.rsplit("/", 1)[-1]: name for name in arrays if "/" in name}
    with suppress(*LIBRARY_ERRORS):
        index = str(_attribute(file["obs"], "_index") or "_index") if has_link(file, "obs") else None
    for name in _members(file, "obs"):
        title = name.removeprefix("obs/")
        if title == index:
            arrays["obs_names"] = partial(container.get, name)
        elif not title.startswith("__"):
            arrays[name] = partial(_column, container, name)
            aliases.setdefault(title, name)
    labels = next((aliases[name] for name in LABELS if name in aliases), None)
    if labels is not None:
        aliases.setdefault("labels", labels)
    return NamedArrays(path, [path], arrays, container.close, aliases)


def _members(file: h5py.File, group: str) -> list[str]:
    """What a group at the root holds, by its path; links to other files are not followed."""
    with suppress(*LIBRARY_ERRORS):
        link = file.get(group, getlink=True)
        if isinstance(link, h5py.HardLink) and isinstance(file[group], h5py.Group):
            return [f"{group}/{name}" for name in file[group] if isinstance(name, str)]
    return []


def _attribute(item: Any, name: str) -> Any:
    """A text attribute, of variable length as AnnData writes it."""
    value = item.attrs.get(name)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _group(container: Hdf5Container, name: str) -> h5py.Group | None:
    """The group of that name, None where it is a dataset; nothing on the way there may lead to another file."""
    with reading(container.path, quote(name)):
        here: Any = container.file
        for part in name.split("/"):
            if not isinstance(here.get(part, getlink=True), h5py.HardLink):
                return None  # a dataset's own check says what is wrong with the link
            here = here[part]
        return here if isinstance(here, h5py.Group) else None


def _matrix(container: Hdf5Container, name: str) -> RowArray:
    group = _group(container, name)
    if group is None:
        return container.get(name)
    with reading(container.path, quote(name)):
        kind, shape = _attribute(group, "encoding-type"), group.attrs.get("shape")
    if kind != "csr_matrix":
        what = "stored by columns (csc_matrix)" if kind == "csc_matrix" else f"a {str(kind)[:40]}"
        raise DataError(
            f"{container.path}: {quote(name)} is {what}; expected dense or sparse rows; save adata.X.tocsr()"
        )
    return _SparseRows(container, name, shape)


class _SparseRows:
    """Compressed sparse rows, given dense."""

    def __init__(self, container: Hdf5Container, name: str, shape: Any) -> None:
        self._path, self._key = container.path, name
        self._values, self._columns, self._starts = (
            container.get(f"{name}/{part}") for part in ("data", "indices", "indptr")
        )
        whole = isinstance(shape, np.ndarray) and shape.shape == (2,) and shape.dtype.kind in "iu" and shape.min() > 0
        parts = (self._values, self._columns, self._starts)
        if not whole or any(len(part.shape) != 1 for part in parts) or self._values.shape != self._columns.shape:
            raise self._damaged("its shape and parts do not fit together")
        self.shape: tuple[int, ...] = (int(shape[0]), int(shape[1]))
        self.dtype = self._values.dtype.newbyteorder("=")
        if self._starts.shape[0] != self.shape[0] + 1 or self.dtype.kind not in "biuf":
            raise self._damaged(f"there are {self._starts.shape[0]:,} row starts for {shape_text(self.shape)}")
        check_row_bytes(self.shape[1] * self.dtype.itemsize, self._path, quote(name))
        self.step = _SPARSE_ROWS

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, D)."""
        out = np.zeros((stop - start, self.shape[1]), self.dtype)
        if start == stop:
            return out
        starts = self._starts.read(start, stop + 1).astype(np.int64)
        lengths = np.diff(starts)
        if starts[0] < 0 or (lengths < 0).any() or (lengths > self.shape[1]).any() or starts[-1] > len_of(self._values):
            raise self._damaged(f"the starts of rows {start:,} to {stop:,} are impossible")
        values = self._values.read(int(starts[0]), int(starts[-1]))
        columns = self._columns.read(int(starts[0]), int(starts[-1])).astype(np.int64)
        if len(columns) and (columns.min() < 0 or columns.max() >= self.shape[1]):
            raise self._damaged(f"there is a column beyond {self.shape[1]:,} in rows {start:,} to {stop:,}")
        np.add.at(out, (np.repeat(np.arange(stop - start), lengths), columns), values)
        return out

    def _damaged(self, reason: str) -> DataError:
        return DataError(f"{self._path}: {quote(self._key)} cannot be read ({reason}); expected CSR; write it again")


def len_of(array: RowArray) -> int:
    """How many rows an array has."""
    return array.shape[0]


def _column(container: Hdf5Container, name: str) -> RowArray:
    """A column of obs: plain, categorical, or with a mask of what is missing."""
    group = _group(container, name)
    if group is None:
        return container.get(name)
    with reading(container.path, quote(name)):
        kind = _attribute(group, "encoding-type")
    if kind == "categorical":
        return _Categories(container, name)
    if kind in ("nullable-integer", "nullable-boolean", "nullable-string-array"):
        return _Masked(container, name)
    raise DataError(f"{container.path}: {quote(name)} is a {str(kind)[:40]}; expected a column of numbers or names")


class _Categories:
    """Numbers of categories and their names, given as names."""

    def __init__(self, container: Hdf5Container, name: str) -> None:
        self._path, self._key = container.path, name
        self._codes, names = (container.get(f"{name}/{part}") for part in ("codes", "categories"))
        if len(names.shape) != 1 or names.shape[0] > _MAX_CATEGORIES or self._codes.dtype.kind not in "iu":
            raise DataError(f"{self._path}: {quote(name)} has impossible categories; expected names; write it again")
        self._names = names.read(0, names.shape[0])
        self.shape, self.step = self._codes.shape, self._codes.step
        self.dtype = names.dtype

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start,)."""
        codes = self._codes.read(start, stop).astype(np.int64)
        wrong = (codes < 0) | (codes >= len(self._names))
        if wrong.any():
            row = start + int(np.argmax(wrong))
            raise DataError(
                f"{self._path}: {quote(self._key)} has no category in row {row:,}; expected one for every row; "
                "give such rows one of their own, or take another column with --labels-key"
            )
        found: NDArray[Any] = self._names[codes]
        return found


class _Masked:
    """Values with a mask of those that are missing, of which there may be none."""

    def __init__(self, container: Hdf5Container, name: str) -> None:
        self._path, self._key = container.path, name
        self._values, self._mask = (container.get(f"{name}/{part}") for part in ("values", "mask"))
        if self._values.shape != self._mask.shape or math.prod(self._values.shape[1:]) != 1:
            raise DataError(f"{self._path}: {quote(name)} and its mask differ in shape; expected alike; write it again")
        self.shape, self.dtype, self.step = self._values.shape, self._values.dtype, self._values.step

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start,)."""
        missing = self._mask.read(start, stop).astype(bool)
        if missing.any():
            row = start + int(np.argmax(missing))
            raise DataError(f"{self._path}: {quote(self._key)} has no value in row {row:,}; expected one in every row")
        return self._values.read(start, stop)

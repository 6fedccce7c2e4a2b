"""Writing feature files, row by row as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import h5py
import numpy as np
from numpy.typing import DTypeLike, NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.fingerprint import fingerprint_of, fingerprint_rows
from pdac_cli.files.formats.attributes import write_attributes, write_texts
from pdac_cli.storage.hdf5_writer import GrowingFile, growing_hdf5, text_dtype

FORMAT, VERSION = "pdac-features", 1
_CHUNK_BYTES = 1 << 19  # half a MiB: large enough to stream fast, small enough to fetch single rows


class FeatureWriter:
    """A new feature file of unknown length, which appears at ``path`` when the block ends well.

    It holds ``features`` (n, D), ``labels`` (n,) and, if given, ``logits`` (n, K), ``ids`` (n,) and ``label_names``
    (class k is called ``label_names[k]``), with the fingerprint, format version and ``attrs`` as attributes.
    """

    def __init__(
        self,
        path: Path,
        n_features: int,
        *,
        dtype: DTypeLike = np.float32,
        n_logits: int | None = None,
        label_names: Sequence[str] | None = None,
        attrs: Mapping[str, str | int | float] | None = None,
        force: bool = False,
    ) -> None:
        self._path, self._n_features, self._dtype, self._n_logits = path, n_features, np.dtype(dtype), n_logits
        self._label_names, self._attrs, self._force = label_names, dict(attrs or {}), force
        self._stack = ExitStack()
        self.rows = 0  # written so far

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._growing: GrowingFile = stack.enter_context(growing_hdf5(self._path, self._force))
            with self._growing.writing() as file:
                _create(file, "features", (self._n_features,), self._dtype)
                _create(file, "labels", (), np.dtype(np.int64))
                if self._n_logits is not None:
                    _create(file, "logits", (self._n_logits,), self._dtype)
                if self._label_names is not None:
                    write_texts(file, "label_names", self._label_names)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *problem: Any) -> None:
        if problem[0] is not None:
            self._stack.__exit__(*problem)
            return
        with self._stack:
            if self.rows == 0:
                raise DataError(f"{self._path}: no rows to write; expected at least one")
            with self._growing.writing() as file:
                _finish(file, self._attrs)

    def append(
        self,
        h: NDArray[Any],
        y: NDArray[Any],
        logits: NDArray[Any] | None = None,
        ids: NDArray[Any] | None = None,
    ) -> None:
        """Add rows: ``h`` (m, D), ``y`` (m,), ``logits`` (m, K) if the file has them, ``ids`` (m,) always or never."""
        h, y = np.asarray(h), np.asarray(y)
        columns = {"features": self._cast(h, "features"), "labels": y.astype(np.int64)}
        if logits is not None:
            columns["logits"] = self._cast(np.asarray(logits), "logits")
        if ids is not None:
            columns["ids"] = _fixed(np.asarray(ids))
        self._check_shapes(columns)
        with self._growing.writing() as file:
            if ids is not None and self.rows == 0:
                _create(file, "ids", (), columns["ids"].dtype)
            missing = {name for name in ("features", "labels", "logits", "ids") if name in file} ^ set(columns)
            if missing:
                raise ValueError(f"{', '.join(sorted(missing))} given for some rows only")
            if ids is not None and columns["ids"].dtype.itemsize > file["ids"].dtype.itemsize:
                raise ValueError("ids longer than those of the first rows; give all of them one fixed-length type")
            for name, values in columns.items():
                file[name].resize(self.rows + len(h), axis=0)
                file[name][self.rows :] = values
        self.rows += len(h)

    def _check_shapes(self, columns: Mapping[str, NDArray[Any]]) -> None:
        expected = {"features": (self._n_features,), "logits": (self._n_logits,)}
        for name, values in columns.items():
            shape = (len(columns["features"]), *expected.get(name, ()))
            if values.shape != shape:
                raise ValueError(f"{name} of shape {values.shape}, expected {shape}")

    def _cast(self, values: NDArray[Any], name: str) -> NDArray[Any]:
        """To the file's type, refusing values that would become infinite."""
        with np.errstate(over="ignore"):
            cast = values.astype(self._dtype, copy=False)
        if cast is not values and values.ndim == 2:
            lost = (np.isinf(cast) & np.isfinite(values)).any(axis=1)
            if lost.any():
                row = int(np.argmax(lost))
                largest = np.abs(values[row][np.isfinite(values[row])]).max()
                raise DataError(
                    f"{self._path}: {name} of row {self.rows + row:,} reach {largest:.6g}; expected at most "
                    f"{np.finfo(self._dtype).max:.6g}, the largest {self._dtype.name}; write a wider type"
                )
        return cast


def _create(file: h5py.File, name: str, tail: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """An empty dataset (0, *tail) that grows by rows, in chunks of whole rows."""
    row = int(np.prod(tail, dtype=np.int64)) * dtype.itemsize
    chunks = (max(1, min(1 << 12, _CHUNK_BYTES // max(1, row))), *tail)
    file.create_dataset(name, (0, *tail), dtype, maxshape=(None, *tail), chunks=chunks, track_times=False)


def _fixed(ids: NDArray[Any]) -> NDArray[Any]:
    """Numbers as they are, text as UTF-8 of fixed length: that of a fixed-length type, else of the longest."""
    if ids.dtype.kind == "S":
        return ids.astype(h5py.string_dtype("utf-8", ids.dtype.itemsize))
    if ids.dtype.kind not in "OU":
        return ids
    raw = [value if isinstance(value, bytes) else str(value).encode() for value in ids.tolist()]
    return np.array(raw, text_dtype(raw))


def _finish(file: h5py.File, attrs: Mapping[str, str | int | float]) -> None:
    rows = fingerprint_rows(file["labels"].shape[0])
    h = np.stack([file["features"][row] for row in rows])
    y = np.array([file["labels"][row] for row in rows], np.int64)
    fingerprint = fingerprint_of(file["labels"].shape[0], h, y)
    write_attributes(file, {"format": FORMAT, "version": VERSION, "fingerprint": fingerprint, **attrs})

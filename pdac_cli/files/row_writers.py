"""Writing rows as a feature file of any form that can be written: HDF5, ``.npy`` with files beside it, Parquet."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.feature_writer import FeatureWriter
from pdac_cli.files.formats.parquet_files import load_pyarrow
from pdac_cli.storage.atomic import atomic_path

Append = Callable[[Mapping[str, NDArray[Any]]], None]
_GROUP_BYTES = 1 << 25  # of a Parquet file's row group


@dataclass(frozen=True)
class RowsToWrite:
    """What all rows have in common."""

    n_features: int
    dtype: np.dtype[Any]
    n_logits: int | None
    label_names: tuple[str, ...] | None
    labelled: bool
    ids: np.dtype[Any] | None  # fixed-length bytes or whole numbers


@contextmanager
def row_writer(path: Path, about: RowsToWrite, rows: int, force: bool) -> Iterator[Append]:
    """Open a new file for columns ``features`` (m, D), ``labels``, ``logits`` and ``ids`` of ``rows`` rows in all.

    It is there, complete, when the block ends well; of several files the one with the features comes last.
    """
    forms = {".h5": _hdf5, ".npy": _npy, ".parquet": _parquet}
    with forms[path.suffix](path, about, rows, force) as append:
        yield append


@contextmanager
def _hdf5(path: Path, about: RowsToWrite, rows: int, force: bool) -> Iterator[Append]:  # noqa: ARG001
    with FeatureWriter(
        path, about.n_features, dtype=about.dtype, n_logits=about.n_logits, label_names=about.label_names, force=force
    ) as writer:
        yield lambda columns: writer.append(
            columns["features"], columns["labels"], columns.get("logits"), columns.get("ids")
        )


@contextmanager
def _npy(path: Path, about: RowsToWrite, rows: int, force: bool) -> Iterator[Append]:
    kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {"features": (about.dtype, (about.n_features,))}
    if about.n_logits is not None:
        kinds["logits"] = (about.dtype, (about.n_logits,))
    if about.labelled:
        kinds["labels"] = (np.dtype("<i8") if about.label_names is None else _names(about.label_names).dtype, ())
    if about.ids is not None:
        kinds["ids"] = (about.ids, ())
    with ExitStack() as stack:
        streams = {}
        for name, (dtype, tail) in kinds.items():  # features first: files are given their names last to first
            place = path if name == "features" else path.with_name(f"{path.stem}.{name}.npy")
            temporary = stack.enter_context(atomic_path(place, force))
            streams[name] = stack.enter_context(temporary.open("wb"))
            header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (rows, *tail)}
            np.lib.format.write_array_header_1_0(streams[name], header)

        def append(columns: Mapping[str, NDArray[Any]]) -> None:
            for name, stream in streams.items():
                values = columns[name]
                if name == "labels" and about.label_names is not None:
                    values = _names(about.label_names)[values]
                stream.write(np.ascontiguousarray(_cast(values, kinds[name][0], path, name)).tobytes())

        yield append


@contextmanager
def _parquet(path: Path, about: RowsToWrite, rows: int, force: bool) -> Iterator[Append]:  # noqa: ARG001
    pyarrow = load_pyarrow(path)
    kind = pyarrow.from_numpy_dtype(about.dtype)
    fields = [pyarrow.field("features", pyarrow.list_(kind, about.n_features))]
    if about.labelled:
        fields.append(pyarrow.field("label", pyarrow.int64() if about.label_names is None else pyarrow.string()))
    if about.n_logits is not None:
        fields.append(pyarrow.field("logits", pyarrow.list_(kind, about.n_logits)))
    if about.ids is not None:
        text = about.ids.kind == "S"
        fields.append(pyarrow.field("id", pyarrow.string() if text else pyarrow.from_numpy_dtype(about.ids)))
    schema = pyarrow.schema(fields)

    def listed(values: NDArray[Any], name: str) -> Any:
        flat = pyarrow.array(_cast(values, about.dtype, path, name).reshape(-1))
        return pyarrow.FixedSizeListArray.from_arrays(flat, values.shape[1])

    with atomic_path(path, force) as temporary, pyarrow.parquet.ParquetWriter(temporary, schema) as writer:

        def append(columns: Mapping[str, NDArray[Any]]) -> None:
            made = {"features": listed(columns["features"], "features")}
            if about.labelled:
                y = columns["labels"]
                made["label"] = y if about.label_names is None else np.array(about.label_names, object)[y]
            if about.n_logits is not None:
                made["logits"] = listed(columns["logits"], "logits")
            if about.ids is not None:
                ids = columns["ids"]
                texts = ids.dtype.kind == "S"
                made["id"] = [raw.decode("utf-8", "backslashreplace") for raw in ids.tolist()] if texts else ids
            size = max(1, _GROUP_BYTES // (about.n_features * about.dtype.itemsize))
            writer.write_table(pyarrow.table(made, schema), row_group_size=size)

        yield append


def _names(names: tuple[str, ...]) -> NDArray[Any]:
    return np.array([name.encode("utf-8", "backslashreplace") for name in names], "S")


def _cast(values: NDArray[Any], dtype: np.dtype[Any], path: Path, name: str) -> NDArray[Any]:
    """To the file's type, refusing values that would become infinite."""
    with np.errstate(over="ignore"):
        cast = values.astype(dtype, copy=False)
    if cast.dtype.kind == "f" and (np.isinf(cast) & np.isfinite(values)).any():
        largest = float(np.abs(values[np.isfinite(values)]).max())
        raise DataError(
            f"{path}: {name} reach {largest:.6g}; expected at most {np.finfo(cast.dtype).max:.6g}, the largest "
            f"{cast.dtype.name}; choose a wider --dtype"
        )
    return cast

"""Settings and names in the HDF5 files we write: numbers, and text of fixed length.

Damaged text of variable length makes the HDF5 library loop for ever or crash, so we write none, and in files that
should be ours we read none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.formats.hdf5_chunks import packing_of
from pdac_cli.files.formats.hdf5_datasets import get_dataset
from pdac_cli.storage.hdf5_writer import text_dtype
from pdac_cli.storage.reading import quote, reading, shape_text

Attribute = str | int | float

_MAX_ATTRIBUTE_BYTES = 1 << 20  # we write up to 64 kB
_MAX_TEXT_BYTES = 1 << 27  # more names would not fit in memory; none of ours do


def write_attributes(file: h5py.File, values: Mapping[str, Attribute]) -> None:
    """Store settings in the order given; a text may have up to 64 kB, for longer ones see :func:`write_texts`."""
    for name, value in values.items():
        if isinstance(value, str):
            raw = value.encode("utf-8", "backslashreplace")
            file.attrs.create(name, raw, dtype=text_dtype([raw]))
        else:
            file.attrs[name] = value


def read_attribute(file: h5py.File, name: str) -> Attribute | None:
    """A setting; None if it is missing, of variable length or no single value."""
    with reading(Path(file.filename), f"the attribute {quote(name)}"):
        if name not in file.attrs or not _is_small(file.attrs.get_id(name)):
            return None
        value: Any = file.attrs[name]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, str | int | float) else None


def read_attributes(file: h5py.File) -> dict[str, Attribute]:
    """All settings but those of variable length."""
    with reading(Path(file.filename), "the attributes"):
        names = [str(name) for name in file.attrs]
    found = {name: read_attribute(file, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def write_texts(file: h5py.File, name: str, values: Sequence[str]) -> None:
    """Store texts (m,) as a dataset."""
    raw = [value.encode("utf-8", "backslashreplace") for value in values]
    file.create_dataset(name, (len(raw),), text_dtype(raw), raw, track_times=False)


def read_whole(file: h5py.File, name: str) -> NDArray[Any]:
    """An array that we wrote: plain numbers or texts, of no more bytes than its file has."""
    path = Path(file.filename)
    dataset = get_dataset(file, name, allow_external=False)
    packing = packing_of(dataset, path, name)
    with reading(path, quote(name)):
        dtype = dataset.dtype
    size = math.prod(packing.shape) * dtype.itemsize
    if dtype.hasobject or packing.filters or size > path.stat().st_size:
        found = (
            "is of variable length"
            if dtype.hasobject
            else "is compressed"
            if packing.filters
            else (f"declares {size:,} bytes, more than the file has")
        )
        raise DataError(f"{path}: {quote(name)} {found}; expected plain values, as pdac writes them; write it again")
    with reading(path, quote(name)):
        return np.asarray(dataset[()])


def read_texts(file: h5py.File, name: str) -> list[str]:
    """Texts (m,) of fixed length."""
    values = read_whole(file, name)
    if values.ndim != 1 or values.dtype.kind != "S" or values.nbytes > _MAX_TEXT_BYTES:
        found = f"{values.dtype} {shape_text(values.shape)}"
        raise DataError(f"{file.filename}: {quote(name)} is {found}; expected strings of fixed length (m,)")
    return [value.decode("utf-8", "backslashreplace") for value in values.tolist()]


def _is_small(attribute: h5py.h5a.AttrID) -> bool:
    return attribute.dtype.kind in "SiufbU" and attribute.get_storage_size() <= _MAX_ATTRIBUTE_BYTES

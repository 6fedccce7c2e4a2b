"""Settings and names in the HDF5 files we write: numbers, and text of fixed length.

Damaged text of variable length makes the HDF5 library loop for ever or crash, so we write none, and in files that
should be ours we read none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np

from pdac_cli.errors import DataError
from pdac_cli.files.create import text_dtype
from pdac_cli.files.datasets import get_dataset
from pdac_cli.files.messages import quote, shape_text

Attribute = str | int | float

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
    if name not in file.attrs or file.attrs.get_id(name).dtype.kind not in "SiufbU":
        return None
    value: Any = file.attrs[name]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    return value if isinstance(value, str | int | float) else None


def read_attributes(file: h5py.File) -> dict[str, Attribute]:
    """All settings but those of variable length."""
    found = {str(name): read_attribute(file, name) for name in file.attrs}
    return {name: value for name, value in found.items() if value is not None}


def write_texts(file: h5py.File, name: str, values: Sequence[str]) -> None:
    """Store texts (m,) as a dataset."""
    raw = [value.encode("utf-8", "backslashreplace") for value in values]
    file.create_dataset(name, (len(raw),), text_dtype(raw), raw, track_times=False)


def read_texts(file: h5py.File, name: str) -> list[str]:
    """Texts (m,) of fixed length."""
    dataset = get_dataset(file, name, allow_external=False)
    if dataset.ndim != 1 or dataset.dtype.kind != "S" or dataset.nbytes > _MAX_TEXT_BYTES:
        found = f"{dataset.dtype} {shape_text(dataset.shape)}"
        raise DataError(f"{file.filename}: {quote(name)} is {found}; expected strings of fixed length (m,)")
    return [value.decode("utf-8", "backslashreplace") for value in dataset[:].tolist()]

"""safetensors files: a length, a JSON header of names, types, shapes and places, then plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pdac_cli.errors import DataError
from pdac_cli.files.formats.named_arrays import Bfloat16Array, NamedArrays
from pdac_cli.files.formats.row_arrays import FileArray, Header, RowArray
from pdac_cli.storage.json_files import parsed_object
from pdac_cli.storage.reading import opened, quote, reading

_MAX_HEADER_BYTES = 1 << 24
_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


def looks_like_safetensors(start: bytes) -> bool:
    """By content: eight bytes of a header's length, then a JSON object."""
    return len(start) >= 9 and start[8:9] == b"{" and int.from_bytes(start[:8], "little") <= _MAX_HEADER_BYTES


def open_safetensors(path: Path) -> NamedArrays:
    """The tensors of a file by their names."""
    size = path.stat().st_size
    with opened(path) as stream, reading(path, "the header"):
        length = int.from_bytes(stream.read(8), "little")
        raw = stream.read(length) if length <= min(size, _MAX_HEADER_BYTES) else b""
    found = parsed_object(raw.decode("utf-8", "replace")) if len(raw) == length else None
    if not isinstance(found, dict):
        raise DataError(f"{path}: is no complete safetensors file; expected one; write or copy it again")
    arrays: dict[str, Callable[[], RowArray]] = {}
    for name, said in found.items():
        if name != "__metadata__":
            arrays[str(name)] = _opener(path, str(name), said, 8 + length, size)
    return NamedArrays(path, [path], arrays)


def _opener(path: Path, name: str, said: Any, offset: int, size: int) -> Callable[[], RowArray]:
    """What opens a tensor, checked when it is asked for: one of a type that is no number may lie beside others."""

    def get() -> RowArray:
        facts: dict[str, Any] = said if isinstance(said, dict) else {}
        kind, shape, places = facts.get("dtype"), facts.get("shape"), facts.get("data_offsets")
        if not isinstance(shape, list) or not isinstance(places, list):
            shape, places = [], []
        if len(places) != 2 or not all(type(number) is int and 0 <= number < 2**62 for number in (*shape, *places)):
            raise DataError(f"{path}: {quote(name)} has no sound entry in the header; expected one; write it again")
        if kind not in _TYPES:
            raise DataError(f"{path}: {quote(name)} is of type {quote(str(kind))}; expected numbers of 8 to 64 bits")
        if not shape or 0 in shape:
            raise DataError(f"{path}: {quote(name)} has no rows; expected at least one")
        dtype = np.dtype(_TYPES[kind])
        needed = math.prod(shape) * dtype.itemsize
        if places[1] - places[0] != needed or offset + places[1] > size:
            raise DataError(
                f"{path}: {quote(name)} needs {needed:,} bytes, and the file has "
                f"{max(0, min(places[1], size - offset) - places[0]):,} for it; expected a complete file; copy it again"
            )
        array = FileArray(path, Header.of(tuple(shape), dtype), offset + places[0])
        return Bfloat16Array(array) if kind == "BF16" else array

    return get

"""Tensors that ``torch.save`` wrote, read without torch: the pickle is read with stand-ins, so that nothing runs.

Such a file is an archive of a pickle, which says what the tensors are, and of their numbers as they are in memory.
Only what rebuilds a tensor is understood; any other object that the pickle would import is refused by its name.  torch
is loaded by `learning` alone, and this needs none of it.
"""

from __future__ import annotations

import io
import math
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from pdac_cli.errors import DataError
from pdac_cli.files.formats.named_arrays import Bfloat16Array, NamedArrays
from pdac_cli.files.formats.row_arrays import FileArray, Header, MemoryArray, RowArray
from pdac_cli.storage.reading import LIBRARY_ERRORS, opened, plain, quote, reading

_TYPES = {
    "DoubleStorage": "<f8", "FloatStorage": "<f4", "HalfStorage": "<f2", "BFloat16Storage": "<u2",
    "LongStorage": "<i8", "IntStorage": "<i4", "ShortStorage": "<i2", "CharStorage": "i1", "ByteStorage": "u1",
    "BoolStorage": "?",
}  # fmt: skip
_MAX_PICKLE_BYTES = 1 << 26  # tensors lie outside the pickle
_NESTED, _MAX_ARRAYS = 3, 10_000


@dataclass(frozen=True)
class _Storage:
    """Numbers of one type, in a member of the archive."""

    key: str
    kind: str


@dataclass(frozen=True)
class _Tensor:
    """What a pickle says of a tensor."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


class _Damaged(Exception):  # noqa: N818
    """What unpickling raised."""


class _Refused(Exception):  # noqa: N818 -- its text is the answer
    """Something in the pickle that is no plain tensor."""


_PROBLEMS: tuple[type[Exception], ...] = (_Damaged, *LIBRARY_ERRORS)


def open_torch(path: Path) -> NamedArrays:
    """The tensors of a file by the names they have in it; a single one is called ``features``."""
    try:
        with opened(path) as stream, zipfile.ZipFile(stream) as archive:
            members = {info.filename: info for info in archive.infolist()}
            name = next(name for name in members if name.endswith("/data.pkl"))
            _check_members(members, members[name].file_size, path.stat().st_size)
            content = _read(archive.read(name))
    except (_Refused, RecursionError) as problem:
        raise DataError(
            f"{path}: {plain(problem)}; expected tensors by name, nothing that could run code; "
            "save {'features': …, 'labels': …} of plain tensors"
        ) from problem
    except _PROBLEMS as problem:
        raise DataError(
            f"{path}: is no complete file of torch.save ({plain(problem)}); expected one; write or copy it again"
        ) from problem
    prefix = name.removesuffix("data.pkl")
    arrays: dict[str, Callable[[], RowArray]] = {}
    for key, value in _flat(content, "", 0).items():
        if isinstance(value, _Tensor):
            arrays[key] = _opener(path, key, value, members.get(f"{prefix}data/{value.storage.key}"))
        else:
            arrays[key] = partial(_texts, value)
    return NamedArrays(path, [path], arrays)


def _texts(values: list[str]) -> RowArray:
    return MemoryArray(np.char.encode(np.array(values), "utf-8", "backslashreplace"))


def _check_members(members: Mapping[str, zipfile.ZipInfo], pickle_bytes: int, size: int) -> None:
    if any(info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 for info in members.values()):
        raise _Refused("its members are compressed or encrypted, as torch.save writes none")
    if any(name.endswith("constants.pkl") for name in members):
        raise _Refused("it is a TorchScript archive, which holds code")
    if pickle_bytes > min(_MAX_PICKLE_BYTES, size):
        raise _Refused("its pickle is larger than any of tensors")


def _read(data: bytes) -> Any:
    try:
        return _Reader(io.BytesIO(data)).load()
    except (_Refused, RecursionError):
        raise
    except Exception as problem:  # a pickle that is wrong may raise anything
        raise _Damaged(str(problem) or type(problem).__name__) from problem


def _flat(content: Any, prefix: str, depth: int) -> dict[str, _Tensor | list[str]]:
    """Tensors and lists of names, by their paths in nested dictionaries."""
    if isinstance(content, _Tensor):
        return {prefix.rstrip("/") or "features": content}
    if isinstance(content, list | tuple) and content and all(isinstance(item, str) for item in content):
        return {prefix.rstrip("/") or "ids": list(content)}
    found: dict[str, _Tensor | list[str]] = {}
    if isinstance(content, Mapping) and depth < _NESTED:
        for key, value in content.items():
            found |= _flat(value, f"{prefix}{key}/", depth + 1)
            if len(found) > _MAX_ARRAYS:
                raise _Refused(f"it holds more than {_MAX_ARRAYS:,} tensors")
    return found


def _opener(path: Path, key: str, tensor: _Tensor, member: zipfile.ZipInfo | None) -> Callable[[], RowArray]:
    def get() -> RowArray:
        dtype = np.dtype(_TYPES[tensor.storage.kind])
        if not tensor.size or 0 in tensor.size:
            raise DataError(f"{path}: {quote(key)} has no rows; expected at least one")
        steps = [math.prod(tensor.size[k + 1 :]) for k in range(len(tensor.size))]
        even = all(step == own or length == 1 for own, step, length in
                   zip(tensor.stride, steps, tensor.size, strict=True))  # fmt: skip
        if not even:
            raise DataError(
                f"{path}: {quote(key)} is a view of a larger tensor or transposed; expected rows one after the other; "
                "save its .contiguous()"
            )
        needed = (tensor.offset + math.prod(tensor.size)) * dtype.itemsize
        if member is None or needed > member.file_size:
            has = 0 if member is None else member.file_size
            raise DataError(f"{path}: {quote(key)} needs {needed:,} bytes and has {has:,}; copy the file again")
        with opened(path) as stream, reading(path, quote(key)):
            stream.seek(member.header_offset + 26)
            lengths = struct.unpack("<2H", stream.read(4))
        place = member.header_offset + 30 + sum(lengths)
        if place + needed > path.stat().st_size:
            raise DataError(f"{path}: {quote(key)} ends beyond the file; expected a complete one; copy it again")
        array = FileArray(path, Header.of(tensor.size, dtype), place + tensor.offset * dtype.itemsize)
        return Bfloat16Array(array) if tensor.storage.kind == "BFloat16Storage" else array

    return get


# The one in Python: that in C allocates as large a memo as an opcode asks for.
class _Reader(pickle._Unpickler):
    """Reads a pickle for what it says of tensors."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream, encoding="utf-8")

    def find_class(self, module: str, name: str) -> Any:
        """Return a stand-in for what rebuilds tensors; refuse all else."""
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch._utils" and name in ("_rebuild_tensor", "_rebuild_tensor_v2"):
            return _rebuilt
        if module == "torch._utils" and name == "_rebuild_parameter":
            return lambda tensor, *_: tensor
        if module == "torch" and name == "Size":
            return tuple
        if name.endswith("Storage") and module in ("torch", "torch.storage"):
            return name
        raise _Refused(f"unpickling it would import {quote(f'{module}.{name}')}, which could run code")

    def persistent_load(self, pid: Any) -> Any:
        """Note a storage: ``("storage", type, key, place, number of items)``."""
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage" or not isinstance(pid[2], str):
            raise _Refused("it refers to something that is no storage of numbers")
        if pid[1] not in _TYPES:
            raise _Refused(f"it holds {quote(str(pid[1]))}, no plain numbers")
        return _Storage(pid[2], pid[1])


def _rebuilt(storage: Any, offset: Any, size: Any, stride: Any, *_: object) -> _Tensor:
    numbers = (offset, *size, *stride)
    sound = all(type(number) is int and 0 <= number < 2**62 for number in numbers) and len(size) == len(stride)
    if not isinstance(storage, _Storage) or not sound:
        raise _Refused("it holds a tensor of an impossible shape")
    return _Tensor(storage, offset, tuple(size), tuple(stride))

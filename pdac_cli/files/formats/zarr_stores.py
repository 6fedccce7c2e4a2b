"""Zarr stores in folders, of version 2 or 3: arrays by name, read by chunks.

zarr is an extra, ``pip install 'pdac-cli[zarr]'``.  A store names the codecs that unpack its chunks, some of which
unpickle: only codecs of plain bytes are let through, by the metadata, before the library opens an array.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.formats.named_arrays import NamedArrays
from pdac_cli.files.formats.row_arrays import RowArray, check_row_bytes
from pdac_cli.storage.json_files import parse_json
from pdac_cli.storage.reading import quote, reading

_MARKS = (".zgroup", ".zarray", "zarr.json", ".zmetadata")
_CODECS = {
    "blosc", "zlib", "gzip", "zstd", "lz4", "bz2", "lzma", "shuffle", "delta", "bytes", "transpose", "crc32c",
    "endian", "sharding_indexed", "vlen-utf8", "fixedscaleoffset", "adler32", "crc32",
}  # fmt: skip
_MAX_CHUNK_BYTES, _MOST_ARRAYS = 1 << 28, 10_000


def is_zarr(path: Path) -> bool:
    """Whether a folder is a store."""
    return any((path / mark).is_file() for mark in _MARKS)


def open_zarr(path: Path) -> NamedArrays:
    """The arrays of a store, by their paths in it."""
    try:
        import zarr
    except ImportError:
        raise UsageError(
            f"{path}: is a Zarr store, and zarr is not installed; expected it to read one; pip install 'pdac-cli[zarr]'"
        ) from None
    arrays: dict[str, Callable[[], RowArray]] = {}
    files: list[Path] = []
    for folder in _folders(path):
        meta = next((folder / name for name in (".zarray", "zarr.json") if (folder / name).is_file()), None)
        if meta is None:
            continue
        said = parse_json(meta, "the metadata of a Zarr array")
        if meta.name == "zarr.json" and said.get("node_type") != "array":
            continue
        files.append(meta)
        name = folder.relative_to(path).as_posix() if folder != path else "features"
        arrays[name] = partial(_Stored, folder, said, zarr)
    return NamedArrays(path, files, arrays)


def _folders(path: Path) -> list[Path]:
    """The store's folder and those of its groups and arrays, three levels deep; chunks are not looked into."""
    found, level = [path], [path]
    for _ in range(3):
        with reading(path, "the folder"):
            level = [entry for folder in level for entry in sorted(folder.iterdir())
                     if entry.is_dir() and not entry.is_symlink() and is_zarr(entry)]  # fmt: skip
        found += level
        if len(found) > _MOST_ARRAYS:
            raise DataError(f"{path}: holds more than {_MOST_ARRAYS:,} arrays; expected a few; name one of its folders")
    return found


class _Stored:
    """One array of a store."""

    def __init__(self, folder: Path, said: Any, zarr: Any) -> None:
        self._path, self._key = folder, folder.name
        _check_codecs(said, folder)
        with reading(folder, "the array"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._array = zarr.open_array(store=str(folder), mode="r")
            self.shape: tuple[int, ...] = tuple(self._array.shape)
            self.dtype: np.dtype[Any] = np.dtype(self._array.dtype)
            chunks = tuple(self._array.chunks)
        if self.dtype.kind == "T":
            self.dtype = np.dtype(object)
        if self.dtype.kind not in "biufSU":
            raise DataError(f"{folder}: is of type {self.dtype}; expected numbers, or strings of fixed length")
        if not self.shape or 0 in self.shape:
            raise DataError(f"{folder}: has shape {self.shape}; expected at least one row")
        size = math.prod(chunks) * self.dtype.itemsize
        if size > _MAX_CHUNK_BYTES:
            raise DataError(
                f"{folder}: has chunks of {size:,} bytes, which are unpacked whole; expected at most "
                f"{_MAX_CHUNK_BYTES:,}; write it in smaller ones"
            )
        check_row_bytes(math.prod(self.shape[1:]) * self.dtype.itemsize, folder, quote(self._key))
        self.step = max(1, chunks[0])

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …)."""
        with reading(self._path, f"{quote(self._key)} from row {start:,} to {stop:,}"):
            found: NDArray[Any] = np.asarray(self._array[start:stop])
            return found


def _check_codecs(said: Any, folder: Path) -> None:
    """Refuse codecs that could do more than unpack bytes."""
    found = [said.get(name) for name in ("compressor", "filters", "codecs")] if isinstance(said, dict) else [None]
    for codec in _codecs(found):
        if codec not in _CODECS:
            raise DataError(
                f"{folder}: is packed by {quote(codec)}; expected blosc, zstd, gzip or another of plain bytes; "
                "such codecs may run code; write it again without"
            )


def _codecs(found: Any) -> list[str]:
    """Names of all codecs, those inside shards among them."""
    if isinstance(found, list):
        return [name for item in found for name in _codecs(item)]
    if not isinstance(found, dict):
        return []
    name = found.get("id", found.get("name"))
    inner = found.get("configuration")
    inside = [inner.get(part) for part in ("codecs", "index_codecs")] if isinstance(inner, dict) else []
    return [*([str(name)] if name is not None else []), *_codecs(inside)]

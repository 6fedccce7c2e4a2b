"""One dataset of an HDF5 file, checked: no other files, no missing sources or filters, no huge chunks."""

from __future__ import annotations

import importlib
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py

from pdac_cli.errors import DataError
from pdac_cli.files.hdf5 import describe_datasets, open_hdf5, resolve
from pdac_cli.files.messages import quote, reading, shape_text

_MAX_CHUNK_BYTES = 1 << 30  # HDF5 unpacks whole chunks, so one chunk bounds the memory from below
_CACHE_BYTES = 1 << 28
_MAX_NESTING = 8  # virtual datasets whose sources are virtual
_UNLIMITED = 2**63
_FILTERS = {
    32000: "lzf",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32017: "sz",
    32026: "blosc2",
}


def get_dataset(file: h5py.File, key: str, allow_external: bool) -> h5py.Dataset:
    """The dataset at ``key``, checked to be readable without surprises, with a chunk cache that fits it."""
    path = Path(file.filename)
    with reading(path, quote(key)):
        item = resolve(file, key, allow_external)
        if isinstance(item, h5py.Group):
            raise DataError(
                f"{path}: {quote(key)} is a group; expected a dataset; "
                f"name one by its path: the file holds {describe_datasets(file)}"
            )
        if not isinstance(item, h5py.Dataset):
            raise DataError(f"{path}: {quote(key)} is a named type; expected a dataset")
        _check_layout(item, path, key, allow_external, 0)
        return _with_cache(item)


def _check_layout(dataset: h5py.Dataset, path: Path, key: str, allow_external: bool, depth: int) -> None:
    """Refuse a dataset that reading would take elsewhere, fill in with zeros or fail on."""
    if dataset.shape is None:
        raise DataError(f"{path}: {quote(key)} has no values (a null dataspace); expected rows; write it again")
    plist = dataset.id.get_create_plist()
    if plist.get_layout() == h5py.h5d.VIRTUAL:
        if depth >= _MAX_NESTING:
            raise DataError(f"{path}: {quote(key)} is virtual {depth} times over; expected stored data")
        _check_sources(dataset, path, key, allow_external, depth)
    elif plist.get_external_count():
        _check_storage(dataset, path, key, allow_external)
    _check_filters(dataset, path, key)


def _check_storage(dataset: h5py.Dataset, path: Path, key: str, allow_external: bool) -> None:
    """HDF5 reads what is missing at the end of external storage as zeros, so its size is looked at beforehand."""
    left = dataset.nbytes
    for name, offset, size in _storage(dataset):
        if not allow_external:
            raise DataError(
                f"{path}: {quote(key)} keeps its values in another file, {quote(str(name))}; "
                "expected data in this file; add --allow-external if you trust it"
            )
        expected = offset + min(size, left)
        left -= min(size, left)
        if not name.is_file():
            raise DataError(
                f"{path}: {quote(key)} cannot be read: its storage {quote(str(name))} is missing; "
                "expected that file; restore it, or run where it was written"
            )
        if name.stat().st_size < expected:
            raise DataError(
                f"{path}: {quote(key)} keeps its values in {quote(str(name))}, which is truncated: expected "
                f"{expected:,} bytes, has {name.stat().st_size:,}; restore it (HDF5 would read zeros)"
            )


def _storage(dataset: h5py.Dataset) -> list[tuple[Path, int, int]]:
    """Files of external storage, where in them the values begin, and how many bytes they have at most."""
    plist = dataset.id.get_create_plist()
    found = [plist.get_external(i) for i in range(plist.get_external_count())]
    return [(Path(os.fsdecode(name)), offset, size) for name, offset, size in found]


def other_files(dataset: h5py.Dataset, file: h5py.File) -> list[Path]:
    """The files besides ``file`` that a checked dataset is read from, as far as they have names."""
    here = Path(dataset.file.filename)
    files = [] if dataset.file == file else [here]
    if dataset.is_virtual:
        names = {source.file_name for source in dataset.virtual_sources()} - {"."}
        files += [path for name in sorted(names) if (path := _source_path(here, name)) is not None]
    return files + [name for name, _, _ in _storage(dataset)]


def _check_filters(dataset: h5py.Dataset, path: Path, key: str) -> None:
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(i) for i in range(plist.get_nfilters())]
    for code, _, _, label in filters:
        if not h5py.h5z.filter_avail(code):
            with suppress(ImportError):
                importlib.import_module("hdf5plugin")  # its import makes its filters known
        if not h5py.h5z.filter_avail(code):
            name = _FILTERS.get(code) or label.decode(errors="replace") or "unknown"
            raise DataError(
                f"{path}: {quote(key)} is compressed by {quote(name)} (filter {code}), not installed here; "
                "expected one that HDF5 has; pip install hdf5plugin, or repack the file with gzip"
            )
    size = _chunk_bytes(dataset)
    if filters and size > _MAX_CHUNK_BYTES:
        raise DataError(
            f"{path}: {quote(key)} is compressed in chunks of {size / 2**30:,.1f} GiB, unpacked only whole; "
            f"expected at most {_MAX_CHUNK_BYTES >> 30} GiB; repack it in smaller ones (h5repack -l)"
        )


def _check_sources(dataset: h5py.Dataset, path: Path, key: str, allow_external: bool, depth: int) -> None:
    """HDF5 reads what a virtual dataset does not find as zeros, so every source is looked for beforehand."""
    covered = 0
    for source in dataset.virtual_sources():
        if source.file_name != "." and not allow_external:
            raise DataError(
                f"{path}: {quote(key)} is virtual with values in another file, {quote(source.file_name)}; "
                "expected data in this file; add --allow-external if you trust it"
            )
        with _open_source(dataset.file, path, key, source.file_name) as origin:
            _check_source(origin, path, key, source, allow_external, depth)
        covered = min(covered + source.vspace.get_select_npoints(), _UNLIMITED)
    size = math.prod(dataset.shape)
    if covered < size:
        raise DataError(
            f"{path}: {quote(key)} is virtual with sources for {covered:,} of its {size:,} values; "
            "expected all of them; add the missing sources"
        )


@contextmanager
def _open_source(file: h5py.File, path: Path, key: str, name: str) -> Iterator[h5py.File]:
    """The file of one source, looked for where HDF5 does; printf-style names count, so their first."""
    if name == ".":
        yield file
        return
    found = _source_path(Path(file.filename), name)
    if found is None:
        raise DataError(
            f"{path}: {quote(key)} is virtual and its source {quote(_first_name(name))} is missing; "
            "expected that file beside it; restore it (HDF5 would read zeros)"
        )
    with open_hdf5(found) as origin:
        yield origin


def _source_path(path: Path, name: str) -> Path | None:
    """Where HDF5 finds the source of that name of a virtual dataset in the file ``path``."""
    for folder in (path.parent, Path(), path.resolve().parent):
        if (folder / _first_name(name)).exists():
            return folder / _first_name(name)
    return None


def _first_name(name: str) -> str:
    return re.sub(r"%\d*b", "0", name).replace("%%", "%")


def _check_source(origin: h5py.File, path: Path, key: str, source: Any, allow_external: bool, depth: int) -> None:
    """Refuse a source dataset that is missing or smaller than what is taken from it."""
    name = re.sub(r"%\d*b", "0", source.dset_name)
    item = resolve(origin, name, allow_external)
    if not isinstance(item, h5py.Dataset):
        raise DataError(f"{path}: {quote(key)} is virtual and its source {quote(name)} is no dataset")
    _check_layout(item, path, key, allow_external, depth + 1)
    size = math.prod(item.shape)
    needed = source.vspace.get_select_npoints()
    ends: tuple[int, ...] = ()
    with suppress(ValueError):  # raised for a selection of everything
        ends = source.src_space.get_select_bounds()[1]
    short = any(end >= have for end, have in zip(ends, item.shape, strict=False) if end < _UNLIMITED)
    if short or (not ends and size < needed < _UNLIMITED):
        raise DataError(
            f"{path}: {quote(key)} is virtual, its source {quote(name)} has only {shape_text(item.shape)}; "
            "expected as much as is taken from it; restore it (HDF5 would read zeros)"
        )


def _chunk_bytes(dataset: h5py.Dataset) -> int:
    """Bytes of one chunk, unpacked; 0 for a dataset that is not chunked."""
    return math.prod(dataset.chunks) * dataset.dtype.itemsize if dataset.chunks else 0


def _with_cache(dataset: h5py.Dataset) -> h5py.Dataset:
    """Reopen with a cache for one row of chunks: reading on in small steps then unpacks each chunk once."""
    if not dataset.chunks or not dataset.id.get_create_plist().get_nfilters():
        return dataset
    across = math.prod(-(-size // step) for size, step in zip(dataset.shape[1:], dataset.chunks[1:], strict=True))
    size = _chunk_bytes(dataset)
    wanted = max(size, min(size * across, _CACHE_BYTES))
    access = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
    slots, default, weight = access.get_chunk_cache()
    if wanted <= default:
        return dataset
    access.set_chunk_cache(slots, wanted + 1, weight)
    return h5py.Dataset(h5py.h5d.open(dataset.file.id, dataset.name.encode(), access))

"""One dataset of an HDF5 file, checked: no other files, no missing sources or filters, no huge chunks."""

from __future__ import annotations

import importlib
import math
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
    elif plist.get_external_count() and not allow_external:
        name = quote(plist.get_external(0)[0].decode(errors="replace"))
        raise DataError(
            f"{path}: {quote(key)} keeps its values in another file, {name}; "
            "expected data in this file; add --allow-external if you trust it"
        )
    _check_filters(dataset, path, key)


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
    first = re.sub(r"%\d*b", "0", name).replace("%%", "%")
    for folder in (Path(file.filename).parent, Path(), Path(file.filename).resolve().parent):
        if (folder / first).exists():
            with open_hdf5(folder / first) as origin:
                yield origin
            return
    raise DataError(
        f"{path}: {quote(key)} is virtual and its source {quote(first)} is missing; "
        "expected that file beside it; restore it (HDF5 would read zeros)"
    )


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

"""One dataset of an HDF5 file, checked: no other files, no missing sources or filters, no huge chunks."""

from __future__ import annotations

import math
import os
from functools import partial
from pathlib import Path

import h5py

from pdac_cli.errors import DataError
from pdac_cli.files.formats.hdf5 import describe_datasets, is_virtual, resolve
from pdac_cli.files.formats.hdf5_chunks import ChunkCheck, Packing, check_filters, packing_of
from pdac_cli.files.formats.hdf5_virtual import check_own_sources, check_sources, source_path, sources_of
from pdac_cli.storage.reading import quote, reading

_MAX_CHUNK_BYTES = 1 << 28  # HDF5 unpacks whole chunks, so one chunk bounds the memory from below
_CACHE_BYTES = 1 << 28


def get_dataset(file: h5py.File, key: str, allow_external: bool, memory: int | None = None) -> h5py.Dataset:
    """The dataset at ``key``, checked to be readable without surprises, with a chunk cache that fits it."""
    path = Path(file.filename)
    item = resolve(file, key, allow_external)
    if isinstance(item, h5py.Group):
        raise DataError(
            f"{path}: {quote(key)} is a group; expected a dataset; "
            f"name one by its path: the file holds {describe_datasets(file)}"
        )
    if not isinstance(item, h5py.Dataset):
        raise DataError(f"{path}: {quote(key)} is a named type; expected a dataset")
    _check_layout(item, path, key, allow_external, memory)
    return _with_cache(item, packing_of(item, path, key), path, key, memory)


def _check_layout(dataset: h5py.Dataset, path: Path, key: str, allow_external: bool, memory: int | None) -> None:
    """Refuse a dataset that reading would take elsewhere, fill in with zeros or fail on."""
    with reading(path, quote(key)):
        virtual = is_virtual(dataset)
    check_stored = partial(_check_stored, allow_external=allow_external, memory=memory)
    if not virtual:
        check_stored(dataset, path, key)
    elif allow_external:
        check_sources(dataset, path, key, check_stored, set())
    else:
        check_own_sources(dataset, path, key, partial(_check_source, check_stored=check_stored))


def _check_stored(dataset: h5py.Dataset, path: Path, key: str, *, allow_external: bool, memory: int | None) -> None:
    with reading(path, quote(key)):
        shape, size = dataset.shape, dataset.nbytes
    if shape is None:
        raise DataError(f"{path}: {quote(key)} has no values (a null dataspace); expected rows; write it again")
    _check_storage(dataset, path, key, allow_external, size)
    most = _MAX_CHUNK_BYTES if memory is None else min(memory // 2, _MAX_CHUNK_BYTES)
    check_filters(packing_of(dataset, path, key), path, key, most)


def _check_source(dataset: h5py.Dataset, path: Path, key: str, *, check_stored: partial[None]) -> None:
    """Look at all chunks of a source at once: HDF5 reads them by way of another dataset."""
    check_stored(dataset, path, key)
    packing = packing_of(dataset, path, key)
    ChunkCheck(dataset, packing, path, key).check(0, packing.shape[0] if packing.shape else 0)


def _check_storage(dataset: h5py.Dataset, path: Path, key: str, allow_external: bool, left: int) -> None:
    """HDF5 reads what is missing at the end of external storage as zeros, so its size is looked at beforehand."""
    for name, offset, size in _storage(dataset, path, key):
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


def _storage(dataset: h5py.Dataset, path: Path, key: str) -> list[tuple[Path, int, int]]:
    """Files of external storage, where in them the values begin, and how many bytes they have at most."""
    with reading(path, quote(key)):
        plist = dataset.id.get_create_plist()
        found = [plist.get_external(i) for i in range(plist.get_external_count())]
    return [(Path(os.fsdecode(name)), offset, size) for name, offset, size in found]


def other_files(dataset: h5py.Dataset, file: h5py.File, key: str) -> list[Path]:
    """The files besides ``file`` that a checked dataset is read from, as far as they have names."""
    here = Path(dataset.file.filename)
    files = [] if dataset.file == file else [here]
    if dataset.is_virtual:
        names = {source.file_name for source in sources_of(dataset, here, key)} - {"."}
        files += [path for name in sorted(names) if (path := source_path(here, name)) is not None]
    return files + [name for name, _, _ in _storage(dataset, here, key)]


def _with_cache(dataset: h5py.Dataset, packing: Packing, path: Path, key: str, memory: int | None) -> h5py.Dataset:
    """Reopen with a cache for one row of chunks: reading on in small steps then unpacks each chunk once."""
    if not packing.chunks or not packing.filters or dataset.name is None:
        return dataset
    across = math.prod(-(-size // step) for size, step in zip(packing.shape[1:], packing.chunks[1:], strict=True))
    most = _CACHE_BYTES if memory is None else min(memory // 4, _CACHE_BYTES)
    wanted = max(packing.chunk_bytes, min(packing.chunk_bytes * across, most))
    with reading(path, quote(key)):
        access = h5py.h5p.create(h5py.h5p.DATASET_ACCESS)
        slots, default, weight = access.get_chunk_cache()
        if wanted <= default:
            return dataset
        access.set_chunk_cache(slots, wanted + 1, weight)
        again = h5py.Dataset(h5py.h5d.open(dataset.file.id, dataset.name.encode(), access))
    if again != dataset:  # what was checked is what is read
        raise DataError(f"{path}: {quote(key)} is another dataset when opened again; expected one; write it again")
    return again

"""Virtual datasets: where their values lie, checked before HDF5 opens anything."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import h5py

from pdac_cli.errors import DataError
from pdac_cli.files.formats.hdf5 import is_virtual, open_hdf5, resolve
from pdac_cli.storage.reading import quote, reading, shape_text

_MAX_NESTING = 8  # virtual datasets whose sources are virtual
_MAX_SOURCES = 4096  # different datasets that a virtual one is read from, at all depths
_UNLIMITED = 2**63
_PLAIN_NAME = re.compile("(?:[^%]|%%)*", re.DOTALL)  # the name of one source, not of a series of them


class StoredCheck(Protocol):
    """What is asked of a source that is stored."""

    def __call__(self, dataset: h5py.Dataset, path: Path, key: str) -> None:
        """Refuse a dataset that reading would take elsewhere or fail on."""


def sources_of(dataset: h5py.Dataset, path: Path, key: str) -> list[Any]:
    """The sources of a virtual dataset as h5py tells them: names, and which values they give."""
    with reading(path, quote(key)):
        return list(dataset.virtual_sources())


def check_own_sources(dataset: h5py.Dataset, path: Path, key: str, check_stored: StoredCheck) -> None:
    """Without ``--allow-external``, a virtual dataset may take its values from stored datasets of its own file only.

    All names are looked at before the first source is, and HDF5 is not asked for the shape before both.
    """
    advice = "expected data in this file; add --allow-external if you trust it"
    sources = sources_of(dataset, path, key)
    for source in sources:
        if source.file_name != ".":
            raise DataError(
                f"{path}: {quote(key)} is virtual with values in another file, {quote(source.file_name)}; {advice}"
            )
        if not _PLAIN_NAME.fullmatch(source.dset_name):
            raise DataError(
                f"{path}: {quote(key)} is virtual with sources counted by HDF5, {quote(source.dset_name)}; {advice}"
            )
    for source in sources:
        item = _source_dataset(dataset.file, path, key, source, allow_external=False)
        if _is_virtual(item, path, key):
            raise DataError(
                f"{path}: {quote(key)} is virtual and so is its source {quote(_first_name(source.dset_name))}; {advice}"
            )
        check_stored(item, path, key)
        _check_extent(item, path, key, source)
    _check_covered(dataset, path, key)


def check_sources(
    dataset: h5py.Dataset, path: Path, key: str, check_stored: StoredCheck, seen: set[tuple[str, str]], depth: int = 0
) -> None:
    """HDF5 reads what a virtual dataset does not find as zeros, so every source is looked for beforehand, once."""
    if depth >= _MAX_NESTING:
        raise DataError(f"{path}: {quote(key)} is virtual {depth} times over; expected stored data")
    for source in sources_of(dataset, path, key):
        with _open_source(dataset.file, path, key, source.file_name) as origin:
            item = _source_dataset(origin, path, key, source, allow_external=True)
            with reading(path, quote(key)):
                place = (item.file.filename, item.name)
            if place not in seen:
                seen.add(place)
                if len(seen) > _MAX_SOURCES:
                    raise DataError(f"{path}: {quote(key)} is virtual over more than {_MAX_SOURCES:,} datasets")
                if _is_virtual(item, path, key):
                    check_sources(item, path, key, check_stored, seen, depth + 1)
                else:
                    check_stored(item, path, key)
            _check_extent(item, path, key, source)
    _check_covered(dataset, path, key)


def _is_virtual(dataset: h5py.Dataset, path: Path, key: str) -> bool:
    with reading(path, quote(key)):
        return is_virtual(dataset)


def _check_covered(dataset: h5py.Dataset, path: Path, key: str) -> None:
    """HDF5 reads values that no source gives as zeros, and reads those that several give several times."""
    with reading(path, quote(key)):
        covered, size = sum(source.vspace.get_select_npoints() for source in dataset.virtual_sources()), dataset.size
    if covered < size or size < covered < _UNLIMITED:
        raise DataError(
            f"{path}: {quote(key)} is virtual with sources for {covered:,} of its {size:,} values; "
            "expected one source for each; write it again"
        )


@contextmanager
def _open_source(file: h5py.File, path: Path, key: str, name: str) -> Iterator[h5py.File]:
    """The file of one source, looked for where HDF5 does; printf-style names count, so their first."""
    if name == ".":
        yield file
        return
    found = source_path(Path(file.filename), name)
    if found is None:
        raise DataError(
            f"{path}: {quote(key)} is virtual and its source {quote(_first_name(name))} is missing; "
            "expected that file beside it; restore it (HDF5 would read zeros)"
        )
    with open_hdf5(found) as origin:
        yield origin


def source_path(path: Path, name: str) -> Path | None:
    """Where HDF5 finds the source of that name of a virtual dataset in the file ``path``."""
    for folder in (path.parent, Path(), path.resolve().parent):
        if (folder / _first_name(name)).exists():
            return folder / _first_name(name)
    return None


def _first_name(name: str) -> str:
    """The name that HDF5 looks up: ``%%`` stands for one ``%``, and ``%b`` counts from 0."""
    return re.sub("%%|%b", lambda found: "%" if found[0] == "%%" else "0", name)


def _source_dataset(origin: h5py.File, path: Path, key: str, source: Any, allow_external: bool) -> h5py.Dataset:
    """The dataset that HDF5 takes for this source, always by its path from the root."""
    name = _first_name(source.dset_name)
    item = resolve(origin, name, allow_external)
    if not isinstance(item, h5py.Dataset):
        raise DataError(f"{path}: {quote(key)} is virtual and its source {quote(name)} is not a dataset")
    return item


def _check_extent(item: h5py.Dataset, path: Path, key: str, source: Any) -> None:
    """Refuse a source that is smaller than what is taken from it."""
    name = _first_name(source.dset_name)
    with reading(path, quote(key)):
        shape, needed = item.shape, source.vspace.get_select_npoints()
        ends: tuple[int, ...] = ()
        with suppress(ValueError):  # raised for a selection of everything
            ends = source.src_space.get_select_bounds()[1]
    short = any(end >= have for end, have in zip(ends, shape, strict=False) if end < _UNLIMITED)
    if short or (not ends and math.prod(shape) < needed < _UNLIMITED):
        raise DataError(
            f"{path}: {quote(key)} is virtual, its source {quote(name)} has only {shape_text(shape)}; "
            "expected as much as is taken from it; restore it (HDF5 would read zeros)"
        )

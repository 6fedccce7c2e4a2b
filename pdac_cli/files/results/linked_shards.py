"""A virtual feature file over shards: it refers to their rows and holds none itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.feature_writer import FORMAT, VERSION
from pdac_cli.files.fingerprint import fingerprint_of, fingerprint_rows
from pdac_cli.files.formats.attributes import Attribute, write_attributes, write_texts
from pdac_cli.files.formats.hdf5 import open_hdf5
from pdac_cli.files.formats.hdf5_datasets import get_dataset
from pdac_cli.files.formats.row_arrays import Hdf5Array
from pdac_cli.files.results.shards import Shard, merged_attributes
from pdac_cli.storage.atomic import atomic_path
from pdac_cli.storage.hdf5_writer import hdf5_bytes


def write_linked(path: Path, shards: Sequence[Shard], force: bool) -> None:
    """Write a virtual file whose sources were found to be what they should, reading it once before it gets its name.

    HDF5 reads a source that is not there as zeros, so a sample of rows is compared with what the shards hold.
    """
    expected = _fingerprint([shard.columns for shard in shards])
    with atomic_path(path, force) as temporary:
        temporary.write_bytes(_virtual_file(temporary.resolve().parent, shards, expected))
        with open_hdf5(temporary) as file:
            columns = {
                name: Hdf5Array(get_dataset(file, name, allow_external=True), path, name) for name in shards[0].columns
            }
            if _fingerprint([columns]) != expected:
                raise DataError(
                    f"{path}: its sources read differently through it; expected the same; merge without --link"
                )


def _virtual_file(folder: Path, shards: Sequence[Shard], fingerprint: str) -> bytes:
    """The file's bytes; sources are named from its folder, so that all can be moved together."""

    def fill(file: h5py.File) -> None:
        for name in shards[0].columns:
            _create_virtual(file, name, folder, shards)
        if shards[0].label_names is not None:
            write_texts(file, "label_names", shards[0].label_names)
        own: dict[str, Attribute] = {"format": FORMAT, "version": VERSION, "fingerprint": fingerprint}
        write_attributes(file, {**own, **merged_attributes(shards)})

    return hdf5_bytes(fill)


def _create_virtual(file: h5py.File, name: str, folder: Path, shards: Sequence[Shard]) -> None:
    """Make a dataset of the shards' rows; by hand, for h5py would store the time and no two files would be equal."""
    like = shards[0].columns[name]
    whole = h5py.h5s.create_simple((sum(shard.rows for shard in shards), *like.shape[1:]))
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.VIRTUAL)
    plist.set_obj_track_times(False)
    start = 0
    for shard in shards:
        shape = shard.columns[name].shape
        place = whole.copy()
        place.select_hyperslab((start, *(0 for _ in shape[1:])), shape)
        source = os.path.relpath(shard.path.resolve(), folder)
        plist.set_virtual(place, os.fsencode(source), name.encode(), h5py.h5s.create_simple(shape))
        start += shard.rows
    h5py.h5d.create(file.id, name.encode(), h5py.h5t.py_create(like.dtype, logical=True), whole, plist)


def _fingerprint(files: Sequence[dict[str, Hdf5Array]]) -> str:
    """The fingerprint of the rows of several files together."""
    starts = np.cumsum([0, *(columns["features"].shape[0] for columns in files)])
    rows = fingerprint_rows(int(starts[-1]))
    h, y = (np.concatenate([_one(files, starts, name, row) for row in rows]) for name in ("features", "labels"))
    return fingerprint_of(int(starts[-1]), h, y.astype(np.int64))


def _one(files: Sequence[dict[str, Hdf5Array]], starts: NDArray[np.int64], name: str, row: int) -> NDArray[Any]:
    which = int(np.searchsorted(starts, row, side="right")) - 1
    first = int(row - starts[which])
    return files[which][name].read(first, first + 1)

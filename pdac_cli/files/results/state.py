"""State files of `pdac stream`: where the stream stands in its files, and all it knows, as plain HDF5 arrays."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pdac_cli import __version__
from pdac_cli.errors import DataError, ModelError, UsageError
from pdac_cli.files.formats.attributes import (
    Attribute,
    read_attribute,
    read_attributes,
    read_texts,
    read_whole,
    write_attributes,
    write_texts,
)
from pdac_cli.files.formats.hdf5 import list_datasets, open_hdf5
from pdac_cli.files.index.index_schema import Option
from pdac_cli.storage.hdf5_writer import growing_hdf5, text_dtype
from pdac_cli.storage.json_files import parsed_object
from pdac_cli.storage.locks import exclusive

FORMAT, VERSION = "pdac-stream", 3


@dataclass(frozen=True)
class FilePosition:
    """How far the stream has come in one of its files."""

    path: str  # as the user named it
    rows: int  # the rows read so far
    fingerprint: str  # of those rows
    total: int  # the rows it had; the file is done when all of them are read

    @property
    def done(self) -> bool:
        """Whether all rows that the file had are read."""
        return self.rows == self.total


@dataclass(frozen=True)
class State:
    """A stream between two batches."""

    options: Mapping[str, Option]  # all that decide the outcome
    features: int  # D
    places: tuple[FilePosition, ...]  # of the files, in the stream's order
    label_names: tuple[str, ...] | None  # in the order of their numbers
    names_are_labels: bool  # of the first file
    arrays: Mapping[str, NDArray[Any]]
    ids: tuple[str, ...] | None = None  # what the rows of the buffer are called, in its order


def write_state(state: State, path: Path) -> None:
    """Write the state in the place of the former one; it is there whole or not at all.  Same state, same bytes."""
    attributes: dict[str, Attribute] = {
        "format": FORMAT,
        "version": VERSION,
        "pdac_version": __version__,
        "options": json.dumps(dict(state.options), sort_keys=True),
        "features": state.features,
        "names_are_labels": int(state.names_are_labels),
        "digest": _digest(state),
    }
    with growing_hdf5(path, force=True) as growing, growing.writing() as file:
        write_attributes(file, attributes)
        if state.label_names is not None:
            write_texts(file, "label_names", state.label_names)
        if state.ids is not None:
            raw = [text.encode("utf-8", "surrogateescape") for text in state.ids]
            file.create_dataset("ids", (len(raw),), text_dtype(raw), raw, track_times=False)
        # A dataset, for an attribute may not be larger than 64 kB and a stream may have many files.
        text = json.dumps([asdict(place) for place in state.places]).encode()
        file.create_dataset("places", data=np.frombuffer(text, np.uint8), track_times=False)
        for name, array in sorted(state.arrays.items()):
            file.create_dataset(f"arrays/{name}", data=array, track_times=False)


@contextmanager
def held_state(path: Path | None) -> Iterator[None]:
    """Keep other runs from the state file in the block; there may be none."""
    if path is None:
        yield
        return
    target = Path(os.path.realpath(path))
    with exclusive(target.with_name(f".{target.name}.lock"), path):
        yield


def read_state(path: Path) -> State:
    """Read a state file, checked."""
    try:
        with open_hdf5(path) as file:
            _check_format(file, path)
            names = list_datasets(file)
            stored = [name for name in names if name.startswith("arrays/")]
            arrays = {name.removeprefix("arrays/"): read_whole(file, name) for name in stored}
            places = _places(read_whole(file, "places"))
            settings = read_attributes(file)
            ids = _ids(read_whole(file, "ids")) if "ids" in names else None
            label_names = tuple(read_texts(file, "label_names")) if "label_names" in names else None
    except DataError as problem:
        raise damaged(path, str(problem).removeprefix(f"{path}: ").split(";")[0]) from problem
    options, features = parsed_object(settings.get("options")), settings.get("features")
    if options is None or places is None or not isinstance(features, int) or "names_are_labels" not in settings:
        raise damaged(path, "a setting is missing or of another kind")
    state = State(options, features, places, label_names, bool(settings["names_are_labels"]), arrays, ids)
    if settings.get("digest") != _digest(state):
        raise damaged(path, "its contents have changed since they were written")
    return state


def _places(stored: NDArray[Any]) -> tuple[FilePosition, ...] | None:
    """What the text stored as bytes (m,) says of the files; None where that is nothing that pdac writes."""
    try:
        found = json.loads(stored.tobytes())
    except (ValueError, RecursionError):
        return None
    kinds = {field.name: str if field.type == "str" else int for field in fields(FilePosition)}
    if not isinstance(found, list) or not all(isinstance(place, dict) and set(place) == set(kinds) for place in found):
        return None
    if not all(isinstance(place[name], kind) for place in found for name, kind in kinds.items()):
        return None
    return tuple(FilePosition(**place) for place in found)


def _ids(stored: NDArray[Any]) -> tuple[str, ...]:
    return tuple(value.decode("utf-8", "surrogateescape") for value in stored.reshape(-1).astype("S").tolist())


def _digest(state: State) -> str:
    """Return a hash of all that the state says: a changed number could pass every other check."""
    found = hashlib.blake2b(digest_size=16)
    said = asdict(replace(state, arrays={}))
    if state.ids is None:
        del said["ids"]  # as states of rows without ids were always hashed
    found.update(json.dumps(said, sort_keys=True).encode())
    for name, array in sorted(state.arrays.items()):
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def damaged(path: Path, reason: str) -> ModelError:
    """Return the error for a state file that cannot be used."""
    return ModelError(
        f"{path}: cannot be read as a state of pdac stream ({reason}); expected one that pdac wrote; "
        "restore it, or remove it and start the stream again"
    )


def check_options(state: State, path: Path, options: Mapping[str, Option], features: int) -> None:
    """Refuse to go on with other settings or other features."""
    if state.features != features:
        raise DataError(
            f"{path}: the stream has {state.features:,} features, these files have {features:,}; expected as many; "
            "give files of the same extraction, or another --state"
        )
    for name, value in options.items():
        if state.options.get(name) != value:
            raise UsageError(
                f"{path}: the stream was begun with {name} {state.options.get(name)} and not {value}; "
                "expected the same options; run with those, or give another --state to begin anew"
            )


def _check_format(file: h5py.File, path: Path) -> None:
    found, version = read_attribute(file, "format"), read_attribute(file, "version")
    if found != FORMAT:
        raise ModelError(f"{path}: not a state of pdac stream; expected one; give another --state")
    if version != VERSION:
        raise ModelError(
            f"{path}: state format version {version}; expected {VERSION}; go on with the version of pdac that wrote it"
        )

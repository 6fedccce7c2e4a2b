"""State files of `pdac stream`: where the stream stands in its files, and all it knows, as plain HDF5 arrays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pdac_cli import __version__
from pdac_cli.errors import DataError, ModelError, UsageError
from pdac_cli.files.create import growing_hdf5
from pdac_cli.files.datasets import get_dataset
from pdac_cli.files.hdf5 import list_datasets, open_hdf5
from pdac_cli.files.kept import Option
from pdac_cli.files.messages import DAMAGE, plain, quote

FORMAT, VERSION = "pdac-stream", 1


@dataclass(frozen=True)
class Place:
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
    places: tuple[Place, ...]  # of the files, in the stream's order
    label_names: tuple[str, ...] | None
    arrays: Mapping[str, NDArray[Any]]


def write_state(state: State, path: Path) -> None:
    """Write the state in the place of the former one; it is there whole or not at all.  Same state, same bytes."""
    attributes: dict[str, str | int] = {
        "format": FORMAT,
        "version": VERSION,
        "pdac_version": __version__,
        "options": json.dumps(dict(state.options), sort_keys=True),
        "features": state.features,
        "label_names": json.dumps(state.label_names),
    }
    with growing_hdf5(path, force=True) as growing, growing.writing() as file:
        for name, value in attributes.items():
            file.attrs[name] = value
        # A dataset, for an attribute may not be larger than 64 kB and a stream may have many files.
        text = json.dumps([asdict(place) for place in state.places]).encode()
        file.create_dataset("places", data=np.frombuffer(text, np.uint8), track_times=False)
        for name, array in sorted(state.arrays.items()):
            file.create_dataset(f"arrays/{name}", data=array, track_times=False)


def read_state(path: Path) -> State:
    """Read a state file, checked."""
    try:
        with open_hdf5(path) as file:
            _check_format(file, path)
            names = [name for name in list_datasets(file) if name.startswith("arrays/")]
            arrays = {name.removeprefix("arrays/"): _read(file, name, path) for name in names}
            places = json.loads(_read(file, "places", path).tobytes())
            label_names = json.loads(file.attrs["label_names"])
            return State(
                json.loads(file.attrs["options"]),
                int(file.attrs["features"]),
                tuple(Place(**place) for place in places),
                None if label_names is None else tuple(label_names),
                arrays,
            )
    except ModelError:
        raise
    except DataError as problem:
        raise damaged(path, problem) from None
    except DAMAGE as problem:
        raise damaged(path, problem) from None


def damaged(path: Path, problem: Exception) -> ModelError:
    """Return the error for a state file that cannot be used."""
    return ModelError(
        f"{path}: cannot be read as a state of pdac stream ({plain(problem)}); expected one that pdac wrote; "
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
    found, version = file.attrs.get("format"), file.attrs.get("version")
    if found != FORMAT:
        raise ModelError(f"{path}: not a state of pdac stream; expected one; give another --state")
    if version != VERSION:
        raise ModelError(
            f"{path}: state format version {version}; expected {VERSION}; go on with the version of pdac that wrote it"
        )


def _read(file: h5py.File, name: str, path: Path) -> NDArray[Any]:
    dataset = get_dataset(file, name, allow_external=False)
    if dataset.nbytes > path.stat().st_size:  # we write plain arrays: more than the file holds is not ours
        raise ValueError(f"{quote(name)} declares {dataset.nbytes:,} bytes, more than the file has")
    return np.asarray(dataset[()])

"""Model files: plain HDF5 arrays with the options, versions and fingerprint they came from; no pickle."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pdac_cli import __version__
from pdac_cli.density.model import Model
from pdac_cli.errors import DataError, ModelError
from pdac_cli.files.create import write_hdf5
from pdac_cli.files.datasets import get_dataset
from pdac_cli.files.hdf5 import open_hdf5
from pdac_cli.files.messages import shape_text

FORMAT, VERSION = "pdac-model", 1

# What each array looks like: C classes, D features, d dimensions, L components, S recorded steps.
_SHAPES: Mapping[str, str] = {
    "labels": "C",
    "counts": "C",
    "mean": "CD",
    "unit": "C",
    "W": "CDd",
    "dims": "C",
    "alpha": "CL",
    "mu": "CLd",
    "chol": "CLdd",
    "log_likelihood": "CS",
}


@dataclass(frozen=True)
class StoredModel:
    """A model and where it came from."""

    model: Model
    fingerprint: str  # of the feature set it was fitted on
    label_names: tuple[str, ...] | None
    options: Mapping[str, str | int | float | None]  # of the fit
    seed: int


def write_model(stored: StoredModel, path: Path, force: bool) -> None:
    """Write the model; the same model gives the same bytes."""

    def fill(file: h5py.File) -> None:
        attributes = {
            "format": FORMAT,
            "version": VERSION,
            "pdac_version": __version__,
            "fingerprint": stored.fingerprint,
            "seed": stored.seed,
            "options": json.dumps(dict(stored.options), sort_keys=True),
        }
        if stored.label_names is not None:
            attributes["label_names"] = json.dumps(stored.label_names)
        for name, value in attributes.items():
            file.attrs[name] = value
        for field in fields(Model):
            array = np.asarray(getattr(stored.model, field.name))
            file.create_dataset(field.name, data=array, track_times=False)

    write_hdf5(path, fill, force)


def read_model(path: Path) -> StoredModel:
    """Read and check a model file."""
    if not path.exists():
        raise DataError(f"{path}: no such file; expected a model file; make one with: pdac fit feats.h5 -o {path}")
    try:
        with open_hdf5(path) as file:
            _check_format(file, path)
            arrays = {name: _read_array(file, name, path) for name in _SHAPES}
            attributes = {name: file.attrs[name] for name in file.attrs}
    except (DataError, OSError, RuntimeError, MemoryError) as error:
        raise ModelError(f"{_first_line(error, path)} (as a model file); fit it again with: pdac fit") from None
    model = _checked(arrays, path)
    try:
        names = json.loads(attributes["label_names"]) if "label_names" in attributes else None
        options = json.loads(attributes["options"])
        stored = StoredModel(
            model,
            str(attributes["fingerprint"]),
            tuple(map(str, names)) if names else None,
            options,
            int(attributes["seed"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: its attributes are damaged ({error}); fit it again with: pdac fit") from None
    return stored


def check_fits(stored: StoredModel, path: Path, dim: int, labels: Any, label_names: tuple[str, ...] | None) -> None:
    """Refuse a model of other features or without a class that is asked of it."""
    model = stored.model
    if model.mean.shape[1] != dim:
        raise ModelError(
            f"{path}: fitted on {model.mean.shape[1]:,} features, the data has {dim:,}; expected as many; "
            "fit a model on this data or give the one that belongs to it"
        )
    if stored.label_names != label_names:
        raise ModelError(
            f"{path}: fitted on classes called {_some(stored.label_names)}, the data has {_some(label_names)}; "
            "expected the same names; fit a model on this data"
        )
    missing = [int(label) for label in labels if label not in set(model.labels.tolist())]
    if missing:
        raise ModelError(
            f"{path}: has no class {', '.join(map(str, missing[:5]))}{' …' if len(missing) > 5 else ''}, the data has; "
            f"expected a model of every class in the data (it has {_some(tuple(map(str, model.labels)))}); "
            "fit a model on this data"
        )


def _check_format(file: h5py.File, path: Path) -> None:
    found, version = file.attrs.get("format"), file.attrs.get("version")
    if found != FORMAT:
        raise ModelError(
            f"{path}: not a model file of pdac; expected one; make one with: pdac fit feats.h5 -o model.h5"
        )
    if version != VERSION:
        raise ModelError(
            f"{path}: model format version {version}; expected {VERSION}; fit it again with this version of pdac"
        )


def _read_array(file: h5py.File, name: str, path: Path) -> Any:
    if name not in file:
        raise ModelError(f"{path}: '{name}' is missing; expected the arrays pdac wrote; fit it again")
    dataset = get_dataset(file, name, allow_external=False)
    if dataset.nbytes > path.stat().st_size:  # we write plain arrays: more than the file holds is not ours
        raise ModelError(f"{path}: '{name}' declares {dataset.nbytes:,} bytes, more than the file has; fit it again")
    return np.asarray(dataset[()])


def _checked(arrays: Mapping[str, Any], path: Path) -> Model:
    """Return the model if every array has the shape and values a model can have."""
    sizes: dict[str, int] = {}
    for name, letters in _SHAPES.items():
        array = arrays[name]
        expected = "(" + ", ".join(letters) + ")"
        if array.ndim != len(letters) or any(
            sizes.setdefault(letter, size) != size for letter, size in zip(letters, array.shape, strict=True)
        ):
            raise ModelError(f"{path}: '{name}' has shape {shape_text(array.shape)}; expected {expected}; fit it again")
    tests: Mapping[str, Callable[[Any], Any]] = {
        "labels": lambda a: a.dtype.kind in "iu" and (np.diff(a) > 0).all() and (a >= 0).all(),
        "counts": lambda a: a.dtype.kind in "iu" and (a > 0).all(),
        "mean": np.isfinite,
        "unit": lambda a: np.isfinite(a) & (a > 0),
        "W": np.isfinite,
        "dims": lambda a: a.dtype.kind in "iu" and (a >= 0).all() and (a <= sizes["d"]).all(),
        "alpha": lambda a: (a >= 0).all() and np.allclose(a.sum(axis=1), 1),
        "mu": np.isfinite,
        "chol": lambda a: np.isfinite(a).all() and (np.diagonal(a, axis1=-2, axis2=-1) > 0).all(),
    }
    for name, test in tests.items():
        if arrays[name].dtype.kind not in "iuf" or not np.all(test(arrays[name])):
            raise ModelError(f"{path}: '{name}' holds values no model has; expected those pdac wrote; fit it again")
    return Model(**arrays)


def _first_line(error: Exception, path: Path) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return text if str(path) in text else f"{path}: {text}"


def _some(names: tuple[str, ...] | None) -> str:
    if names is None:
        return "numbers"
    return ", ".join(names[:5]) + (f" … ({len(names)} in all)" if len(names) > 5 else "")

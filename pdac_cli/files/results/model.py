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
from pdac_cli.density.common_rows import common_width
from pdac_cli.density.model import Model
from pdac_cli.density.relative import Calibration, ClassMoments, CommonSpace
from pdac_cli.errors import DataError, ModelError
from pdac_cli.files.formats.attributes import (
    Attribute,
    read_attribute,
    read_attributes,
    read_texts,
    read_whole,
    write_attributes,
    write_texts,
)
from pdac_cli.files.formats.hdf5 import has_link, open_hdf5
from pdac_cli.storage.hdf5_writer import write_hdf5
from pdac_cli.storage.json_files import parsed_object
from pdac_cli.storage.reading import check_readable, shape_text

FORMAT, VERSION = "pdac-model", 1

_COMMON = ("common_mean", "common_scatter", "common_calibration")
_LARGEST = 1e100  # in the class's unit; the square of what is larger overflows

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
    space: CommonSpace | None = None  # what the classes share, Eq. (23); models of streams and older ones have none


def write_model(stored: StoredModel, path: Path, force: bool) -> None:
    """Write the model; the same model gives the same bytes."""

    def fill(file: h5py.File) -> None:
        attributes: dict[str, Attribute] = {
            "format": FORMAT,
            "version": VERSION,
            "pdac_version": __version__,
            "fingerprint": stored.fingerprint,
            "seed": stored.seed,
            "options": json.dumps(dict(stored.options), sort_keys=True),
        }
        write_attributes(file, attributes)
        if stored.label_names is not None:
            write_texts(file, "label_names", stored.label_names)
        for field in fields(Model):
            array = np.asarray(getattr(stored.model, field.name))
            file.create_dataset(field.name, data=array, track_times=False)
        if stored.space is not None:
            moments, calibration = stored.space.moments, stored.space.calibration
            for name, array in (("common_mean", moments.mean), ("common_scatter", moments.scatter)):
                file.create_dataset(name, data=array, track_times=False)
            found = np.array([calibration.tau, calibration.epsilon])
            file.create_dataset("common_calibration", data=found, track_times=False)

    write_hdf5(path, fill, force)


def read_model(path: Path) -> StoredModel:
    """Read and check a model file."""
    check_readable(path, "a model file of pdac fit")
    try:
        with open_hdf5(path) as file:
            _check_format(file, path)
            arrays = {name: _read_array(file, name) for name in _SHAPES}
            attributes = read_attributes(file)
            names = tuple(read_texts(file, "label_names")) if has_link(file, "label_names") else None
            common = {name: _read_array(file, name) for name in _COMMON} if has_link(file, _COMMON[0]) else None
    except DataError as problem:
        raise ModelError(f"{problem} (as a model file); fit it again with: pdac fit") from problem
    model = _checked(arrays, path)
    fingerprint, seed = attributes.get("fingerprint"), attributes.get("seed")
    options = parsed_object(attributes.get("options"))
    if options is None or not isinstance(fingerprint, str) or not isinstance(seed, int):
        raise ModelError(f"{path}: its attributes are damaged; expected those pdac wrote; fit it again")
    space = None if common is None else _space(common, model, bool(options.get("normalize")), path)
    return StoredModel(model, fingerprint, names, options, seed, space)


def _space(arrays: Mapping[str, Any], model: Model, normalize: bool, path: Path) -> CommonSpace:
    """Return what the classes share, if it has the shapes and values such a density can have."""
    classes, width = len(model.mean), common_width(model.mean.shape[1])
    shapes = dict(zip(_COMMON, ((classes, width), (width, width), (2,)), strict=True))
    for name, shape in shapes.items():
        array = arrays[name]
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise ModelError(
                f"{path}: '{name}' is not what pdac writes; expected numbers {shape_text(shape)}; fit it again"
            )
    mean, scatter, (tau, epsilon) = (arrays[name] for name in _COMMON)
    spread = np.diag(scatter)
    sound = 0 < tau < 1e3 and 0 <= epsilon < 1 and np.abs(mean).max() < _LARGEST and (spread >= -_LARGEST).all()
    moments = ClassMoments(model.counts.astype(np.float64), mean, scatter)
    space = CommonSpace(moments, Calibration(float(tau), float(epsilon)), normalize)
    try:
        sound = bool(sound) and bool(np.isfinite(space.gaussian.whiten).all())
    except np.linalg.LinAlgError:
        sound = False
    if not sound:
        raise ModelError(
            f"{path}: 'common_scatter' holds values no density has; expected those pdac wrote; fit it again"
        )
    return space


def check_fits(
    stored: StoredModel, path: Path, n_features: int, labels: Any, label_names: tuple[str, ...] | None
) -> None:
    """Refuse a model of other features or without a class that is asked of it."""
    model = stored.model
    if model.mean.shape[1] != n_features:
        raise ModelError(
            f"{path}: fitted on {model.mean.shape[1]:,} features, the data has {n_features:,}; expected as many; "
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
    found, version = read_attribute(file, "format"), read_attribute(file, "version")
    if found != FORMAT:
        raise ModelError(
            f"{path}: not a model file of pdac; expected one; make one with: pdac fit feats.h5 -o model.h5"
        )
    if version != VERSION:
        raise ModelError(
            f"{path}: model format version {version}; expected {VERSION}; fit it again with this version of pdac"
        )


def _read_array(file: h5py.File, name: str) -> Any:
    values = read_whole(file, name)
    return values.astype(values.dtype.newbyteorder("="), copy=False)


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
    for name, test in _tests(arrays).items():
        kinds = "iu" if name in ("labels", "counts", "dims") else "f"
        with np.errstate(all="ignore"):
            sound = arrays[name].dtype.kind in kinds and arrays[name].dtype.itemsize <= 8 and np.all(test(arrays[name]))
        if not sound:
            raise ModelError(f"{path}: '{name}' holds values no model has; expected those pdac wrote; fit it again")
    return Model(**arrays)


def _tests(arrays: Mapping[str, Any]) -> Mapping[str, Callable[[Any], Any]]:
    """What each array's values satisfy, so that scoring neither fails nor overflows; later tests rest on earlier."""

    def in_unit(a: Any) -> Any:  # (C, L, d, …): the size of values in the class's unit, where it has a direction
        used = np.arange(a.shape[2]) < arrays["dims"][:, None]
        scale = np.where(used, arrays["unit"][:, None], 1.0)[:, None]
        return np.abs(a) / (scale if a.ndim == 3 else scale[..., None])

    return {
        "labels": lambda a: len(a) > 0 and a[0] >= 0 and (a[1:] > a[:-1]).all(),
        "counts": lambda a: a > 0,
        "mean": np.isfinite,
        "unit": lambda a: (np.frexp(a)[0] == 0.5) & np.isfinite((1 / a).astype(arrays["mean"].dtype)),
        "W": lambda a: np.abs(a) < 1.1,  # orthonormal columns
        "dims": lambda a: (a >= 0) & (a <= arrays["W"].shape[2]),
        "alpha": lambda a: (a >= 0).all() and np.allclose(a.sum(axis=1), 1),
        "mu": lambda a: in_unit(a) < _LARGEST,
        "chol": lambda a: (
            (in_unit(a) < _LARGEST).all()
            and (np.diagonal(a, axis1=-2, axis2=-1) > 0).all()
            and (np.diagonal(in_unit(a), axis1=-2, axis2=-1) > 1 / _LARGEST).all()
        ),
        "log_likelihood": np.ndim,  # numbers of any size, which nothing is computed from
    }


def _some(names: tuple[str, ...] | None) -> str:
    if names is None:
        return "numbers"
    return ", ".join(names[:5]) + (f" … ({len(names)} in all)" if len(names) > 5 else "")

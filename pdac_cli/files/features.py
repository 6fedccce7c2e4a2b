"""Feature files, one or many, as one logical set of rows that streams in bounded memory."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import h5py

from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.featureset import FeatureSet, Part
from pdac_cli.files.fingerprint import float_dtype
from pdac_cli.files.formats.containers import Container, companions, open_array_file, open_container
from pdac_cli.files.formats.keys import Keys, find_keys
from pdac_cli.files.formats.labels import NOTHING_SEEN, LabelColumn, Seen, read_names
from pdac_cli.files.formats.row_arrays import RowArray
from pdac_cli.options.shared import InputOptions
from pdac_cli.storage.reading import quote, shape_text

__all__ = ["FeatureSet", "open_features"]


def open_features(
    options: InputOptions,
    open_file: Callable[[Path, bool], Container] | None = None,
    seen: Seen = NOTHING_SEEN,
    memory: int | None = None,
) -> FeatureSet:
    """Open the files as one set, checking all that can be checked without reading every row.

    What is unpacked whole must fit into half of ``memory``.
    """
    open_file = open_file or partial(open_container, memory=memory)
    paths = _expand(options.paths)
    _refuse_twice(paths)
    if _is_array_file(options.labels_key) and len(paths) > 1:
        raise DataError(
            f"--labels-key {options.labels_key} is one file and there are {len(paths)} feature files; "
            "expected one labels file each, called as theirs with .labels.npy at the end"
        )
    with ExitStack() as stack:
        parts: list[Part] = []
        notes: list[str] = []
        start = 0
        for path in paths:
            container = open_file(path, options.allow_external)
            stack.callback(container.close)
            part = _open_part(container, options, start, notes)
            _check_fits(parts, part)
            parts.append(part)
            start += part.rows
        return FeatureSet(parts, options, notes, stack.pop_all(), seen)


def _expand(patterns: tuple[str, ...]) -> list[Path]:
    """Paths in the order given, patterns sorted; labels files matched along with their features are left out."""
    paths: list[Path] = []
    for pattern in patterns:
        if glob.has_magic(pattern) and not os.path.lexists(pattern):
            found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207 (a Path refuses absolute patterns)
            if not found:
                raise DataError(f"{pattern}: no file matches; expected at least one; check the pattern")
            paths += [Path(name) for name in found if not Path(name).is_dir()]
        else:
            paths.append(Path(pattern))
    if not paths:
        raise UsageError("no feature file; expected at least one path")
    beside = {
        companion for path in paths for name in ("labels", "logits", "ids") for companion in companions(path, name)
    }
    return [path for path in paths if path.suffix != ".npy" or path not in beside]


def _refuse_twice(paths: list[Path]) -> None:
    seen: dict[tuple[int, int], Path] = {}
    for path in paths:
        with suppress(OSError):  # one that is not there is told of when it is opened
            info = path.stat()
            other = seen.setdefault((info.st_dev, info.st_ino), path)
            if other is not path:
                raise DataError(f"{path}: given twice (as {other}); expected each file once")


def _is_array_file(key: str | None) -> bool:
    return key is not None and key.endswith(".npy")


def _open_part(container: Container, options: InputOptions, start: int, notes: list[str]) -> Part:
    """Find and check the arrays of one file, whose first row is row ``start`` of the set."""
    path, beside = container.path, list[Path]()
    if _is_array_file(options.labels_key):
        labels_path = Path(str(options.labels_key))
        keys = find_keys(container, options.features_key, labels_path.name)
        labels = open_array_file(labels_path)
        beside.append(labels_path)
    else:
        keys = find_keys(container, options.features_key, options.labels_key)
        labels = container.get(keys.labels)
    features = container.get(keys.features)
    _check_features(features, path, keys.features)
    column = LabelColumn(labels, path, keys.labels, start)
    logits = container.get(keys.logits) if keys.logits else None
    ids = container.get(keys.ids) if keys.ids else None
    if logits is not None and (len(logits.shape) != 2 or logits.dtype.kind not in "iuf"):
        raise DataError(
            f"{path}: {quote(str(keys.logits))} has shape {shape_text(logits.shape)} of type {logits.dtype}; "
            "expected numbers (n, K)"
        )
    for name, array in ((keys.labels, labels), (keys.logits, logits), (keys.ids, ids)):
        if array is not None and array.shape[:1] != features.shape[:1]:
            raise DataError(
                f"{path}: {quote(str(name))} has {(*array.shape, 0)[0]:,} rows, "
                f"{quote(keys.features)} has {features.shape[0]:,}; expected as many; write them again together"
            )
    notes += _notes(path, keys, features)
    names = None
    if keys.label_names:
        names = read_names(container.get(keys.label_names), path, keys.label_names)
    files = (*container.files(), *beside)
    return Part(path, files, start, keys.features, features, column, logits, ids, names)


def _check_features(array: RowArray, path: Path, key: str) -> None:
    """Refuse what is no table of numbers with at least one row and one column."""
    shape, kind = array.shape, array.dtype.kind
    if kind == "c":
        raise DataError(f"{path}: {quote(key)} is complex; expected real numbers; save its parts or its modulus")
    if kind not in "biuf":
        found = "of variable length or objects" if kind == "O" else f"of type {array.dtype}"
        raise DataError(f"{path}: {quote(key)} is {found}; expected floating-point numbers (n, D)")
    named = h5py.check_enum_dtype(array.dtype)
    if named:  # HDF5 enumerations: the numbers are names of categories, and a distance between two means nothing
        raise DataError(
            f"{path}: {quote(key)} is an enumeration of {len(named):,} names; expected floating-point numbers (n, D); "
            "encode the categories as numbers of their own, such as one column each"
        )
    if len(shape) != 2:
        hint = "reshape it to one row per sample" if len(shape) < 2 else "flatten or average it to one row per sample"
        raise DataError(
            f"{path}: {quote(key)} has {len(shape)} dimensions {shape_text(shape)}; expected two, (n, D); {hint}"
        )
    if 0 in shape:
        what = "rows" if shape[0] == 0 else "columns"
        raise DataError(f"{path}: {quote(key)} has no {what} {shape_text(shape)}; expected at least one")


def _check_fits(parts: list[Part], part: Part) -> None:
    """Refuse a file that cannot continue the first one."""
    if not parts:
        return
    first = parts[0]
    if first.n_features != part.n_features:
        raise DataError(
            f"{part.path}: {quote(part.key)} has {part.n_features:,} columns, {first.path} has {first.n_features:,}; "
            "expected as many in all files; give files of one extraction"
        )
    if first.labels.text != part.labels.text:
        kinds = ["names" if text else "numbers" for text in (part.labels.text, first.labels.text)]
        raise DataError(
            f"{part.path}: labels are {kinds[0]}, those of {first.path} are {kinds[1]}; expected one kind in all"
        )


def _notes(path: Path, keys: Keys, features: RowArray) -> list[str]:
    """What was settled silently and the user should know."""
    notes = []
    if keys.features != "features":
        notes.append(f"{path}: features read from {quote(keys.features)}, labels from {quote(keys.labels)}")
    if features.dtype.kind in "biu":
        notes.append(f"{path}: {features.dtype.name} features read as {float_dtype(features.dtype).name}")
    return notes

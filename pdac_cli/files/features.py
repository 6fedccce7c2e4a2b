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
from pdac_cli.files.formats.containers import Container, companions, open_container
from pdac_cli.files.formats.ids import IdColumn, fits_ids
from pdac_cli.files.formats.keys import Keys, find_keys
from pdac_cli.files.formats.labels import NOTHING_SEEN, Coding, Seen
from pdac_cli.files.formats.row_arrays import RowArray
from pdac_cli.files.label_sources import FileColumns, FileLabels, check_rows, labels_elsewhere, labels_of
from pdac_cli.options.shared import InputOptions
from pdac_cli.storage.reading import quote, shape_text

__all__ = ["FeatureSet", "expand", "open_features"]


def open_features(
    options: InputOptions,
    open_file: Callable[[Path, bool], Container] | None = None,
    seen: Seen = NOTHING_SEEN,
    memory: int | None = None,
    first: int = 0,
    coding: Coding | None = None,
) -> FeatureSet:
    """Open the files as one set, checking all that can be checked without reading every row.

    What is unpacked whole must fit into half of ``memory``.  ``first`` is the number of the first file's first row, and
    ``coding`` what its labels mean, where the files are some of a larger set.
    """
    return FeatureSet.of(*opened_parts(options, open_file, memory, first), seen, coding)


def opened_parts(
    options: InputOptions,
    open_file: Callable[[Path, bool], Container] | None = None,
    memory: int | None = None,
    first: int = 0,
) -> tuple[list[Part], InputOptions, list[str], ExitStack]:
    """Open each file; return them with the options, notes for the user, and what closes them."""
    open_file = open_file or _opener(options, memory)
    paths = expand(options.paths)
    _refuse_twice(paths)
    with ExitStack() as stack:
        columns: list[FileColumns] = []
        notes: list[str] = []
        for path in paths:
            container = open_file(path, options.allow_external)
            stack.callback(container.close)
            start = columns[-1].start + columns[-1].rows if columns else first
            columns.append(_open_columns(container, options, start))
            _check_width(columns)
        labels, found = labels_of(columns, options, stack)
        parts = [_part(one, given) for one, given in zip(columns, labels, strict=True)]
        for one, part in zip(columns, parts, strict=True):
            _check_kinds(parts[0], part)
            notes += _notes(one)
        return parts, options, [*notes, *found], stack.pop_all()


def _opener(options: InputOptions, memory: int | None) -> Callable[[Path, bool], Container]:
    if options.shape is None:
        return partial(open_container, memory=memory)
    from pdac_cli.files.formats.raw_files import open_raw

    rows, columns, kind = options.shape
    return lambda path, _: open_raw(path, rows, columns, kind)


def expand(patterns: tuple[str, ...]) -> list[Path]:
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


def _open_columns(container: Container, options: InputOptions, start: int) -> FileColumns:
    """Find and check the features, logits and ids of one file, whose first row is row ``start`` of the set."""
    path = container.path
    keys = find_keys(container, options, with_labels=not labels_elsewhere(options))
    features = container.get(keys.features)
    _check_features(features, path, keys.features)
    logits = container.get(keys.logits) if keys.logits else None
    if logits is not None and (len(logits.shape) != 2 or logits.dtype.kind not in "iuf"):
        raise DataError(
            f"{path}: {quote(str(keys.logits))} has shape {shape_text(logits.shape)} of type {logits.dtype}; "
            "expected numbers (n, K)"
        )
    ids = _ids(container, keys, features.shape[0], options)
    for name, array in ((keys.logits, logits), (keys.ids, ids)):
        check_rows(path, str(name), array, keys.features, features)
    column = None if ids is None else IdColumn(ids, path, str(keys.ids))
    return FileColumns(container, start, keys, features, logits, column)


def _ids(container: Container, keys: Keys, rows: int, options: InputOptions) -> RowArray | None:
    """The ids that the user named or that are called so; under another common name, only what could be ids."""
    if keys.ids is None:
        return None
    array = container.get(keys.ids)
    named = options.ids_key is not None or keys.ids.rsplit("/", 1)[-1] == "ids"
    return array if named or fits_ids(array, rows) else None


def _part(columns: FileColumns, labels: FileLabels) -> Part:
    files = (*columns.container.files(), *labels.files)
    return Part(
        columns.container.path, files, columns.start, columns.keys.features, columns.features, labels.column,
        columns.logits, columns.ids, labels.names, columns.container,
    )  # fmt: skip


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


def _check_width(columns: list[FileColumns]) -> None:
    """Refuse a file of other features than the first one's."""
    first, last = columns[0], columns[-1]
    if first.features.shape[1] != last.features.shape[1]:
        raise DataError(
            f"{last.container.path}: {quote(last.keys.features)} has {last.features.shape[1]:,} columns, "
            f"{first.container.path} has {first.features.shape[1]:,}; expected as many in all files; "
            "give files of one extraction"
        )


def _check_kinds(first: Part, part: Part) -> None:
    """Refuse a file of names where the first one has numbers, and the other way round."""
    if first.labels.text != part.labels.text:
        kinds = ["names" if text else "numbers" for text in (part.labels.text, first.labels.text)]
        raise DataError(
            f"{part.path}: labels are {kinds[0]}, those of {first.path} are {kinds[1]}; expected one kind in all"
        )


def _notes(columns: FileColumns) -> list[str]:
    """What was settled silently and the user should know."""
    notes, path, keys = [], columns.container.path, columns.keys
    if keys.features != "features":
        beside = "" if keys.labels is None else f", labels from {quote(keys.labels)}"
        notes.append(f"{path}: features read from {quote(keys.features)}{beside}")
    dtype = columns.features.dtype
    if dtype.kind in "biu":
        notes.append(f"{path}: {dtype.name} features read as {float_dtype(dtype).name}")
    return notes

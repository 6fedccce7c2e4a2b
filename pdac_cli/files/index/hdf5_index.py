"""Index files as HDF5: one dataset per column, settings as attributes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.formats.attributes import read_attribute, read_texts, read_whole, write_attributes, write_texts
from pdac_cli.files.formats.hdf5 import has_link, open_hdf5
from pdac_cli.files.index.index_schema import (
    FORMAT,
    INTEGER_COLUMNS,
    MEANING,
    VERSION,
    Index,
    IndexSource,
    SuspectRows,
    find_problem,
)
from pdac_cli.files.index.json_index import check_options
from pdac_cli.storage.hdf5_writer import hdf5_bytes, text_dtype
from pdac_cli.storage.json_files import parsed_object
from pdac_cli.storage.reading import quote, shape_text

_MAX_ROWS = 1 << 27  # a larger index would not fit in memory; none of ours is


def index_to_hdf5(index: Index) -> bytes:
    """The same index gives the same bytes."""

    def fill(file: h5py.File) -> None:
        options = json.dumps(dict(sorted(index.options.items())), allow_nan=False)
        settings = {"format": FORMAT, "meaning": MEANING, "method": index.method, "options": options}
        numbers = {"version": VERSION, "budget": index.budget, "seed": index.seed}
        write_attributes(file, {**settings, **numbers})
        for name in INTEGER_COLUMNS:
            _put(file, name, getattr(index, name).astype(np.int64))
        _put(file, "log_density", index.log_density.astype(np.float64))
        if index.score is not None:
            _put(file, "score", index.score.astype(np.float64))
        if index.ids is not None:
            raw = [text.encode("utf-8", "surrogateescape") for text in index.ids]
            file.create_dataset("id", (len(raw),), text_dtype(raw), raw, track_times=False)
        if index.suspects is not None:
            for name in ("row", "likely"):
                _put(file, f"suspects/{name}", getattr(index.suspects, name).astype(np.int64))
            _put(file, "suspects/share", np.array([index.suspects.share]))
        _put(file, "class_counts", np.array(list(index.class_counts.items()), np.int64).reshape(-1, 2))
        write_texts(file, "sources/fingerprint", [source.fingerprint for source in index.sources])
        write_texts(file, "sources/files", [json.dumps(source.files) for source in index.sources])
        _put(file, "sources/rows", np.array([source.rows for source in index.sources], np.int64))
        _put(file, "sources/task", np.array([source.task for source in index.sources], np.int64))
        if index.label_names is not None:
            write_texts(file, "label_names", index.label_names)

    return hdf5_bytes(fill)


def _put(file: h5py.File, name: str, values: NDArray[Any]) -> None:
    file.create_dataset(name, data=values, track_times=False)


def index_from_hdf5(path: Path) -> Index:
    """Read and check all of an index file."""
    with open_hdf5(path) as file:
        if read_attribute(file, "format") != FORMAT:
            raise DataError(f"{path}: is no index file; expected 'format' {FORMAT!r}; write one with pdac select -o")
        version = read_attribute(file, "version")
        if version != VERSION:
            raise DataError(f"{path}: 'version' is {version}; expected {VERSION}; write it with this version of pdac")
        names = read_texts(file, "label_names") if has_link(file, "label_names") else None
        index = Index(
            **{name: _numbers(file, name, "iu", path).astype(np.int64) for name in INTEGER_COLUMNS},
            log_density=_numbers(file, "log_density", "f", path).astype(np.float64),
            sources=_sources(file, path),
            method=_setting(file, "method", str, path),
            budget=_setting(file, "budget", int, path),
            seed=_setting(file, "seed", int, path),
            options=_options(file, path),
            label_names=None if names is None else tuple(names),
            score=_numbers(file, "score", "f", path).astype(np.float64) if has_link(file, "score") else None,
            ids=_ids(file, path) if has_link(file, "id") else None,
            suspects=_suspects(file, path) if has_link(file, "suspects") else None,
        )
    problem = find_problem(index)
    if problem:
        raise DataError(f"{path}: {problem}")
    return index


def _suspects(file: h5py.File, path: Path) -> SuspectRows:
    row, likely = (_numbers(file, f"suspects/{name}", "iu", path).astype(np.int64) for name in ("row", "likely"))
    share = _numbers(file, "suspects/share", "f", path)
    if len(share) != 1:
        raise DataError(f"{path}: 'suspects/share' has {len(share)} values; expected one; write the file again")
    return SuspectRows(row, likely, float(share[0]))


def _ids(file: h5py.File, path: Path) -> tuple[str, ...]:
    values = read_whole(file, "id")
    if values.ndim != 1 or values.dtype.kind != "S" or len(values) > _MAX_ROWS:
        found = f"{values.dtype} {shape_text(values.shape)}"
        raise DataError(f"{path}: 'id' is {found}; expected strings of fixed length (m,)")
    return tuple(value.decode("utf-8", "surrogateescape") for value in values.tolist())


def _setting(file: h5py.File, name: str, kind: type[Any], path: Path) -> Any:
    value = read_attribute(file, name)
    if not isinstance(value, kind) or isinstance(value, bool):
        found = "missing or of variable length" if value is None else f"a {type(value).__name__}"
        raise DataError(f"{path}: attribute '{name}' is {found}; expected a {kind.__name__}; write the file again")
    return value


def _numbers(file: h5py.File, name: str, kinds: str, path: Path) -> NDArray[Any]:
    values = read_whole(file, name)
    if values.ndim != 1 or values.dtype.kind not in kinds or len(values) > _MAX_ROWS:
        kind = "floats" if kinds == "f" else "integers"
        raise DataError(
            f"{path}: {quote(name)} is {values.dtype} {shape_text(values.shape)}; expected {kind} of shape (m,)"
        )
    if kinds == "f":
        values[np.isnan(values)] = np.nan  # one kind of NaN: arithmetic with signalling ones warns
    return values


def _options(file: h5py.File, path: Path) -> dict[str, Any]:
    options = parsed_object(_setting(file, "options", str, path))
    if options is None:
        raise DataError(f"{path}: attribute 'options' is no JSON object; expected one; write the file again")
    return check_options(options, path)


def _sources(file: h5py.File, path: Path) -> tuple[IndexSource, ...]:
    fingerprints, files = read_texts(file, "sources/fingerprint"), read_texts(file, "sources/files")
    rows, tasks = (_numbers(file, f"sources/{name}", "iu", path).tolist() for name in ("rows", "task"))
    if len({len(column) for column in (fingerprints, files, rows, tasks)}) > 1:
        raise DataError(f"{path}: the columns of 'sources' have different lengths; expected as many of each")
    sources = []
    for k, text in enumerate(files):
        try:
            names = json.loads(text)
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DataError(f"{path}: 'sources/files' of source {k} is no JSON list of strings; expected one")
        sources.append(IndexSource(fingerprints[k], tuple(names), rows[k], tasks[k]))
    return tuple(sources)

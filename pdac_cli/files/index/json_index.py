"""Index files as JSON: a header of named settings, then one kept row per line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
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
from pdac_cli.storage.json_files import parse_json
from pdac_cli.storage.reading import quote

T = TypeVar("T")


def index_to_json(index: Index) -> bytes:
    """The same index gives the same bytes; floats are written so that they read back exactly."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "meaning": MEANING,
        "method": index.method,
        "budget": index.budget,
        "seed": index.seed,
        "options": dict(sorted(index.options.items())),
        "class_counts": {str(label): count for label, count in index.class_counts.items()},
        "label_names": None if index.label_names is None else list(index.label_names),
        "sources": [
            {"fingerprint": s.fingerprint, "files": list(s.files), "rows": s.rows, "task": s.task}
            for s in index.sources
        ],
    }
    columns = [getattr(index, name).tolist() for name in INTEGER_COLUMNS]
    scores = [""] * len(index.row)
    if index.score is not None:
        scores = [f', "score": {_number(score)}' for score in index.score.tolist()]
    ids = [""] * len(index.row)
    if index.ids is not None:
        ids = [f', "id": {json.dumps(text)}' if text else "" for text in index.ids]
    lines = [
        f'    {{"source": {source}, "row": {row}, "task": {task}, "label": {label}, '
        f'"log_density": {_number(log_p)}{score}{name}}}'
        for source, row, task, label, log_p, score, name in zip(
            *columns, index.log_density.tolist(), scores, ids, strict=True
        )
    ]
    head = json.dumps(header, indent=2, allow_nan=False).removesuffix("\n}")
    tail = ""
    if index.suspects is not None:
        found = {"share": index.suspects.share, "row": index.suspects.row.tolist()}
        tail = f',\n  "suspects": {json.dumps({**found, "likely": index.suspects.likely.tolist()})}'
    return "".join([head, ',\n  "kept": [\n', ",\n".join(lines), f"\n  ]{tail}\n}}\n"]).encode()


def _number(value: float) -> str:
    if math.isnan(value):
        return "null"
    return repr(value) if math.isfinite(value) else json.dumps(str(value))  # JSON has no infinity


def index_from_json(path: Path) -> Index:
    """Read and check all of an index file."""
    content = parse_json(path, "an index file")
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{path}: is no index file; expected 'format' {FORMAT!r}; write one with pdac select -o")
    if content.get("version") != VERSION or isinstance(content.get("version"), bool):
        found = quote(str(content.get("version")))
        raise DataError(f"{path}: 'version' is {found}; expected {VERSION}; write it with this version of pdac")
    names = _get(content, "label_names", list, path) if content.get("label_names") is not None else None
    if names is not None and not all(isinstance(name, str) for name in names):
        raise DataError(f"{path}: 'label_names' has other values than strings; expected strings")
    kept = _get(content, "kept", list, path)
    integers = {name: np.array([_whole(item, name, k, path) for k, item in enumerate(kept)], np.int64)
                for name in INTEGER_COLUMNS}  # fmt: skip
    index = Index(
        **integers,
        log_density=np.array([_float(item, "log_density", k, path) for k, item in enumerate(kept)], np.float64),
        sources=tuple(_source(item, k, path) for k, item in enumerate(_get(content, "sources", list, path))),
        method=_get(content, "method", str, path),
        budget=_get(content, "budget", int, path),
        seed=_get(content, "seed", int, path),
        options=check_options(_get(content, "options", dict, path), path),
        label_names=None if names is None else tuple(names),
        score=_scores(kept, path),
        ids=_ids(kept, path),
        suspects=None if content.get("suspects") is None else _suspects(_get(content, "suspects", dict, path), path),
    )
    problem = find_problem(index)
    if problem:
        raise DataError(f"{path}: {problem}")
    counts = {str(label): count for label, count in index.class_counts.items()}
    if content.get("class_counts", counts) != counts:
        raise DataError(f"{path}: 'class_counts' differ from the labels of the kept rows; expected the same")
    return index


def check_options(options: dict[str, Any], path: Path) -> dict[str, str | int | float | bool | None]:
    """Refuse settings that are no plain values."""
    for name, value in options.items():
        infinite = isinstance(value, float) and not math.isfinite(value)
        if infinite or (value is not None and not isinstance(value, str | int | float)):
            raise DataError(f"{path}: option {quote(name)} is a {type(value).__name__}; expected a plain value")
    return options


def _source(item: Any, k: int, path: Path) -> IndexSource:
    where = f"of source {k}"
    if not isinstance(item, dict):
        raise DataError(f"{path}: source {k} is a {type(item).__name__}; expected an object")
    files = _get(item, "files", list, path, where)
    if not all(isinstance(name, str) for name in files):
        raise DataError(f"{path}: 'files' {where} has other values than strings; expected strings")
    fingerprint = _get(item, "fingerprint", str, path, where)
    rows, task = _get(item, "rows", int, path, where), _get(item, "task", int, path, where)
    return IndexSource(fingerprint, tuple(files), rows, task)


def _suspects(content: dict[str, Any], path: Path) -> SuspectRows:
    columns = {name: _get(content, name, list, path, "of the suspects") for name in ("row", "likely")}
    for name, values in columns.items():
        if not all(type(value) is int and -(2**63) <= value < 2**63 for value in values):
            raise DataError(f"{path}: '{name}' of the suspects has other values than whole numbers; expected those")
    arrays = {name: np.array(values, np.int64) for name, values in columns.items()}
    return SuspectRows(**arrays, share=_float(content, "share", 0, path))


def _get(content: dict[str, Any], name: str, kind: type[T], path: Path, where: str = "") -> T:
    """A field of the expected type; whole numbers must also fit 64 bits."""
    value = content.get(name)
    wrong = isinstance(value, bool) or (isinstance(value, int) and not -(2**63) <= value < 2**63)
    if wrong or not isinstance(value, kind):
        found = f"a {type(value).__name__}" if name in content else "missing"
        raise DataError(f"{path}: '{name}' {where}{' ' if where else ''}is {found}; expected {_KINDS[kind]}")
    return value


_KINDS: dict[type, str] = {str: "a string", int: "a whole number of 64 bits", list: "a list", dict: "an object"}


def _whole(item: Any, name: str, k: int, path: Path) -> int:
    return _get(item if isinstance(item, dict) else {}, name, int, path, f"of kept row {k:,}")


def _scores(kept: list[Any], path: Path) -> NDArray[np.float64] | None:
    if not any(isinstance(item, dict) and "score" in item for item in kept):
        return None
    return np.array([_float(item, "score", k, path) for k, item in enumerate(kept)], np.float64)


def _ids(kept: list[Any], path: Path) -> tuple[str, ...] | None:
    if not any(isinstance(item, dict) and "id" in item for item in kept):
        return None
    return tuple(
        _get(item, "id", str, path, f"of kept row {k:,}") if "id" in item else "" for k, item in enumerate(kept)
    )


def _float(item: dict[str, Any], name: str, k: int, path: Path) -> float:
    value = item.get(name, "")
    if value is None:
        return math.nan
    if isinstance(value, float) or value in ("inf", "-inf"):
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return float(value)
    found = f"a {type(value).__name__}" if name in item else "missing"
    raise DataError(f"{path}: '{name}' of kept row {k:,} is {found}; expected a number or null")

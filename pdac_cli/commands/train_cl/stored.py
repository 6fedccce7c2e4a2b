"""What a continual run stored on its way, read back: refused where it is not what pdac writes."""

from __future__ import annotations

import io
import pickle
import warnings
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from pdac_cli.commands.train_cl.report import SeedResult
from pdac_cli.engine.stream.packed_arrays import NotPacked
from pdac_cli.errors import DataError, ModelError
from pdac_cli.learning.learner import Learner
from pdac_cli.learning.loop import PROGRESS_FIELDS, is_arrays, torch_contents, unpacked
from pdac_cli.learning.memory import Memory
from pdac_cli.learning.networks.tensor_claims import find_false_claim
from pdac_cli.learning.progress import RunProgress
from pdac_cli.storage.reading import LIBRARY_ERRORS, plain

_LOAD_ERRORS: tuple[type[Exception], ...] = (*LIBRARY_ERRORS, pickle.UnpicklingError, AttributeError, AssertionError)


_FOLLOWING = ("s", "average_acc")  # from the other results


def stored_result(found: Any, path: Path) -> SeedResult:
    """Return the results of a seed, checked."""
    names = {field.name for field in fields(SeedResult)}
    if isinstance(found, dict):
        found = {name: value for name, value in found.items() if name not in _FOLLOWING}
        found = {"bytes_kept": None, **found}  # not counted by earlier versions
    if not isinstance(found, dict) or set(found) != names or not all(_CHECKS[name](found[name]) for name in names):
        raise DataError(f"{path}: its results are of another kind; expected those of pdac train-cl; run it again")
    return SeedResult(**found)


def restored(data: bytes, path: Path, learner: Learner, memory: Memory) -> RunProgress:
    """Put learner and memory back to where a checkpoint was made, and return the place."""
    found = _loaded(data, path)
    difference = _difference(found, learner)
    if difference:
        raise _damaged(path, difference)
    try:
        return unpacked(found, learner, memory)
    except NotPacked as problem:
        raise _damaged(path, str(problem)) from problem


def _loaded(data: bytes, path: Path) -> Any:
    """Return what torch reads from a checkpoint's bytes."""
    claim = find_false_claim(io.BytesIO(data))
    if claim is not None:
        raise _damaged(path, claim)
    try:
        with warnings.catch_warnings():  # on odd forms, which are read or refused all the same
            warnings.simplefilter("ignore")
            return torch_contents(data)
    except _LOAD_ERRORS as problem:
        raise _damaged(path, plain(problem)) from problem


def _difference(found: Any, learner: Learner) -> str:
    """Return how a checkpoint differs from what pdac writes; empty: in nothing."""
    if not isinstance(found, dict) or set(found) != {"learner", "memory", "progress"}:
        return "it does not hold a learner, a memory and a place"
    progress = found["progress"]
    if not isinstance(progress, dict) or set(progress) != set(PROGRESS_FIELDS):
        return "its place in the run is of another kind"
    wrong = next((name for name in PROGRESS_FIELDS if not _PLACE_CHECKS[name](progress[name])), None)
    if wrong is not None:
        return f"its {wrong!r} is of another kind"
    return learner.find_problem(found["learner"]) or (
        "" if is_arrays(found["memory"]) else "its memory is not made of arrays"
    )


def _damaged(path: Path, reason: str) -> ModelError:
    return ModelError(
        f"{path}: damaged ({reason}); expected a checkpoint of this run; remove it, and --resume begins this seed again"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _lists(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(check(each) for each in value)


def _is_triangle(value: Any) -> bool:
    """Whether these are A_{t,j}, j ≤ t, of one task or more."""
    return bool(value) and _lists(_lists(_is_number))(value) and all(len(row) == t for t, row in enumerate(value, 1))


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "method": lambda value: isinstance(value, str),
    "seed": lambda value: isinstance(value, int),
    "acc": _is_number,
    "fm": lambda value: value is None or _is_number(value),
    "accuracy": _is_triangle,
    "losses": _lists(_lists(_is_number)),
    "classes": _lists(_lists(lambda value: isinstance(value, int))),
    "train_rows": _lists(lambda value: isinstance(value, int)),
    "seconds": lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
    "bytes_kept": lambda value: value is None or _is_count(value),
    "warnings": _lists(lambda value: isinstance(value, str)),
}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_PLACE_CHECKS: dict[str, Callable[[Any], bool]] = {
    "task": _is_count,
    "epoch": _is_count,
    "step": _is_count,
    "loss": _is_number,
    "losses": _CHECKS["losses"],
    "accuracy": lambda value: value == [] or _is_triangle(value),
    "seconds": _CHECKS["seconds"],
}

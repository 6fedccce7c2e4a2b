"""What a definition may say: names, kinds of values, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from pdac_cli.errors import UsageError
from pdac_cli.options.compare import CompareOptions
from pdac_cli.options.shared import DensityOptions
from pdac_cli.options.stream import MethodOptions
from pdac_cli.options.train_cl import LearningOptions, TrainOptions

NONE = "none"  # how a definition says that an option is left out
TRAIN, COMPARE, STORAGE = "train-cl", "compare", "storage"
TOP = ("title", "measures", "reference", "seeds", "data", "options", "methods", "sweep", "plot", "small")
DATA = ("path", "test", "classes", "rows", "pixels", "options")
PLOT = ("x", "y", "by", "panel")
SMALL = ("seeds", "options", "sweep", "data")
SWEEP = ("command", "methods")  # beside the axes
SECONDS = ("selection_seconds", "run_minutes", "training_seconds", "seconds")  # what another run measures otherwise
MEASURES = {
    TRAIN: ("acc", "fm", "log_likelihood@STEP", *SECONDS[:3]),
    COMPARE: ("accuracy", "coverage", "mean_log_density", "radius", SECONDS[3]),
    STORAGE: ("model_mb",),
}

Hint = Any


def _hints(kind: type, left_out: Iterable[str]) -> dict[str, Hint]:
    hints = get_type_hints(kind)
    return {item.name: hints[item.name] for item in fields(kind) if item.name not in left_out}


DENSITY = _hints(DensityOptions, ())
LEARNING = _hints(LearningOptions, ("init", "device"))
SETTINGS = _hints(MethodOptions, ())
_OWN = ("data", "test", "output", "paper", "methods", "seeds", "seed", "resume", "download", "learning", "density",
        "settings", "run")  # fmt: skip
RUN = _hints(TrainOptions, _OWN)
_NOT_CHOICE = ("input", "budgets", "methods", "seeds", "seed", "test", "output", "limit", "density", "run")
CHOICE = {"budget": int, **_hints(CompareOptions, _NOT_CHOICE)}
OPTIONS: Mapping[str, Mapping[str, Hint]] = {
    TRAIN: {**RUN, **LEARNING, **DENSITY, **SETTINGS, "method": str},
    COMPARE: {**CHOICE, **DENSITY, "method": str},
    STORAGE: {"dim": int, "components": int, "features": int, "method": str},
}


def check_keys(where: str, found: Mapping[str, Any], allowed: Iterable[str]) -> None:
    """Refuse a key that is not allowed, naming those that are."""
    names = list(allowed)
    unknown = [name for name in found if name not in names]
    if unknown:
        raise UsageError(f"{where}: {unknown[0]!r} is not known; expected one of: {', '.join(names)}")


def expect(where: str, value: Any, kind: type | tuple[type, ...], said: str) -> Any:
    """Return the value if it is of a kind; else say what was expected."""
    is_number = isinstance(value, bool) and kind is not bool  # Python takes true for 1
    if not isinstance(value, kind) or is_number:
        raise UsageError(f"{where} is {value!r}; expected {said}")
    return value


def value_of(where: str, name: str, value: Any, command: str) -> Any:
    """Return an option's value as the command takes it."""
    hints = OPTIONS[command]
    check_keys(where, {name: value}, hints)
    return _converted(f"{where}: {name}", value, hints[name])


def _converted(where: str, value: Any, hint: Hint) -> Any:
    origin: Any = get_origin(hint)
    choices = () if origin is tuple else get_args(hint)
    if choices:
        if value == NONE and NoneType in choices:
            return None
        return _converted(where, value, next(kind for kind in choices if kind is not NoneType))
    if origin is tuple:
        listed = value if isinstance(value, list) else [value]
        return tuple(expect(where, item, int, "whole numbers") for item in listed)
    if issubclass(hint, StrEnum):
        names = [item.value for item in hint]
        if value not in names:
            raise UsageError(f"{where} is {value!r}; expected one of: {', '.join(names)}")
        return hint(value)
    if hint is float:
        return float(expect(where, value, (int, float), "a number"))
    said = {int: "a whole number", bool: "true or false", str: "a text"}[hint]
    return expect(where, value, hint, said)


def check_measure(where: str, name: str) -> None:
    """Refuse a measure that no command has."""
    known = [measure for found in MEASURES.values() for measure in found]
    stem, _, step = name.partition("@")
    if name not in known and not (stem == "log_likelihood" and step.isdigit()):
        raise UsageError(f"{where}: {name!r} is not known; expected some of: {', '.join(known)}")

"""Checks of a definition's values: each returns the value as it is meant, or says what was found and expected."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_origin

from pdac_cli.commands.experiment.schema import (
    LARGEST,
    LIKELIHOOD,
    MEASURES,
    MOST_LETTERS,
    MOST_NAME,
    MOST_VALUES,
    NONE,
    OPTIONS,
    Hint,
)
from pdac_cli.errors import UsageError
from pdac_cli.storage.reading import quote

Table = Mapping[str, Any]

_LONGEST_SHOWN = 60
_INT64 = 1 << 63
_COUNTS = ": per_class"  # the option that is a list of numbers
# They name folders, and stand in figures, where a leading underscore hides them.
_NAME = re.compile(r"[^\W_][\w .,+=()/-]*")
_LIKELIHOOD_AT = re.compile(rf"{LIKELIHOOD}@([0-9]{{1,6}})")


def shown(value: Any) -> str:
    """Return a value for a message: short, whatever it is."""
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        flat = not any(isinstance(item, dict | list) for item in value[:MOST_VALUES])
        text = f"[{', '.join(map(shown, value))}]" if flat and len(value) < 10 else ""
        return text if 0 < len(text) <= _LONGEST_SHOWN else f"a list of {len(value):,}"
    if isinstance(value, str):
        return quote(str(value), _LONGEST_SHOWN)
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length():,} bits"
    return str(value).lower() if isinstance(value, bool) else str(value)


def named(key: str) -> str:
    """Return a key for a message: as it is, or quoted and cut where it is not a plain name."""
    return key if len(key) <= _LONGEST_SHOWN and key.isprintable() else quote(key, _LONGEST_SHOWN)


def refuse(where: str, value: Any, expected: str) -> UsageError:
    """Return the error of a value that is not what was expected."""
    return UsageError(f"{where} is {shown(value)}; expected {expected}")


def check_keys(where: str, found: Collection[str], allowed: Collection[str]) -> None:
    """Refuse a key that is not allowed, naming those that are."""
    unknown = next((name for name in found if name not in allowed), None)
    if unknown is not None:
        listed = ", ".join(map(named, allowed))
        raise UsageError(f"{where}: {quote(unknown)} is not known; expected one of: {listed}")


def a_table(where: str, value: Any) -> dict[str, Any]:
    """Return a table."""
    if not isinstance(value, dict):
        raise refuse(where, value, "a table")
    if len(value) > MOST_VALUES:
        raise UsageError(f"{where} has {len(value):,} keys; expected at most {MOST_VALUES:,}")
    return value


def tables(where: str, value: Any) -> dict[str, dict[str, Any]]:
    """Return tables by name; the names may stand in paths and figures."""
    found = a_table(where, value)
    for key, each in found.items():
        a_name(f"{where}.{named(key)}: its name", key)
        a_table(f"{where}.{named(key)}", each)
    return found


def a_list(where: str, value: Any, expected: str) -> list[Any]:
    """Return a list of a bearable length."""
    if not isinstance(value, list):
        raise refuse(where, value, expected)
    if len(value) > MOST_VALUES:
        raise UsageError(f"{where} has {len(value):,} values; expected at most {MOST_VALUES:,}")
    return value


def a_text(where: str, value: Any, expected: str = "a text") -> str:
    """Return a text that a message, a file and a path can hold."""
    if not isinstance(value, str) or "\0" in value or not value.strip():
        raise refuse(where, value, expected)
    if len(value) > MOST_LETTERS:
        raise UsageError(f"{where} has {len(value):,} letters; expected at most {MOST_LETTERS:,}")
    return value


def a_name(where: str, value: Any) -> str:
    """Return the name of a data set or a method."""
    expected = f"at most {MOST_NAME} letters, digits, spaces and signs of . , + = - _ ( ) /, a letter or digit first"
    if not is_name(value):
        raise refuse(where, value, expected)
    return str(value)


def is_name(value: Any) -> bool:
    """Whether a value can name a data set or a method: in paths, tables and figures."""
    return isinstance(value, str) and len(value) <= MOST_NAME and _NAME.fullmatch(value) is not None


def names(where: str, value: Any, expected: str) -> tuple[str, ...]:
    """Return a list of names, at least one, each once."""
    found = tuple(a_name(where, item) for item in a_list(where, value, expected))
    if not found or len(set(found)) < len(found):
        raise refuse(where, value, f"{expected}, each once")
    return found


def whole(where: str, value: Any, low: int, high: int) -> int:
    """Return a whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise refuse(where, value, f"a whole number from {low:,} to {high:,}")
    return value


def value_of(where: str, name: str, value: Any, command: str) -> Any:
    """Return an option's value as the command takes it."""
    check_keys(where, (name,), OPTIONS[command])
    where = f"{where}: {name}"
    converted = _converted(where, value, OPTIONS[command][name])
    most = LARGEST.get(name)
    for number in converted if isinstance(converted, tuple) else (converted,):
        if most is not None and number is not None and number > most:
            raise refuse(where, value, f"at most {most:,}")
    return converted


def _converted(where: str, value: Any, hint: Hint) -> Any:
    origin: Any = get_origin(hint)
    choices = () if origin is tuple else get_args(hint)
    if choices:
        if value == NONE and NoneType in choices:
            return None
        return _converted(where, value, next(kind for kind in choices if kind is not NoneType))
    if origin is tuple:
        return _counts(where, value) if where.endswith(_COUNTS) else _size(where, value)
    if issubclass(hint, StrEnum):
        listed = [item.value for item in hint]
        if not isinstance(value, str) or value not in listed:
            raise refuse(where, value, f"one of: {', '.join(listed)}")
        return hint(value)
    if hint is bool:
        if not isinstance(value, bool):
            raise refuse(where, value, "true or false")
        return value
    return _number(where, value, hint) if hint in (int, float) else a_text(where, value)


def _number(where: str, value: Any, kind: type) -> int | float:
    expected = "a whole number" if kind is int else "a number"
    is_number = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    if not is_number:
        raise refuse(where, value, expected)
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise refuse(where, value, f"{expected} of at most 64 bits")
    if not math.isfinite(value):
        raise refuse(where, value, "a finite number")
    return int(value) if kind is int else float(value)


def _counts(where: str, value: Any) -> tuple[int, ...]:
    """Return one number of rows or several."""
    listed = value if isinstance(value, list) else [value]
    if not listed or len(set(map(str, listed))) < len(listed):
        raise refuse(where, value, "numbers of rows, each once")
    return tuple(whole(where, count, 1, MOST_VALUES * MOST_VALUES) for count in listed)


def _size(where: str, value: Any) -> tuple[int, ...]:
    """Return the sides of an image: one number, or height and width."""
    sides = tuple(value) if isinstance(value, list) else (value,)
    plain = all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in sides)
    if not plain or not 1 <= len(sides) <= 2:
        raise refuse(where, value, "whole numbers above 0: a side's pixels, or height and width")
    return sides


def likelihood_step(measure: str) -> int | None:
    """Return the EM step of a measure such as log_likelihood@5, None of any other measure."""
    found = _LIKELIHOOD_AT.fullmatch(measure)
    return int(found[1]) if found else None


def check_measures(where: str, found: Sequence[str], commands: Collection[str]) -> None:
    """Refuse a measure that none of the commands has, and a command none of whose measures is asked for."""
    known = [measure for command in commands for measure in MEASURES[command]]
    for measure in found:
        is_step = likelihood_step(measure) is not None and f"{LIKELIHOOD}@STEP" in known
        if (measure not in known or measure.endswith("@STEP")) and not is_step:
            having = [command for command in MEASURES if measure in MEASURES[command] and command not in commands]
            problem = f"is measured by {having[0]}, and no sweep has that command" if having else "is not known"
            raise UsageError(f"{where}: {quote(measure)} {problem}; expected some of: {', '.join(known)}")
    for command in commands:
        asked = [m for m in found if m in MEASURES[command] or likelihood_step(m) is not None]
        if not asked:
            raise UsageError(
                f"{where}: {shown(list(found))} has none that {command} measures, and a sweep has that command; "
                f"expected some of: {', '.join(MEASURES[command])}"
            )

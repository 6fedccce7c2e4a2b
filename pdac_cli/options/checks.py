"""The checks every option uses: one place compares values with the ranges that their fields declare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from pdac_cli.errors import UsageError
from pdac_cli.options.declare import Declared, declared


def require(condition: bool, message: str) -> None:
    """Raise a usage error unless the condition holds."""
    if not condition:
        raise UsageError(message)


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return what to add to a message about a word that is none of the names: the nearest, if one is near."""
    near = get_close_matches(word.lower(), list(names), n=1)
    return f"; did you mean {near[0]}?" if near else ""


@dataclass(frozen=True, kw_only=True)
class Options:
    """A group of options; its values are in the ranges that its fields declare."""

    def __post_init__(self) -> None:
        """Refuse a value outside the range of its option."""
        own = {one.name: one for one in declared(type(self))}
        for name, one in own.items():
            if name in vars(self):
                check_value(one, getattr(self, name))


def check_value(one: Declared, value: Any) -> None:
    """Refuse a value, or one of several, that its option does not allow."""
    if value is None or isinstance(value, Mapping):
        return
    if isinstance(value, tuple):
        for item in value:
            if not _allows(one, item):
                raise _refused(one, f"has {item}" if one.kind in (int, float) else f"is {str(item)!r}", item)
    elif not _allows(one, value):
        raise _refused(one, f"is {value}" if one.kind in (int, float) else f"is {str(value)!r}", value)


def value_of(one: Declared, text: str) -> Any:
    """Return the value of an option's text."""
    if one.about.parse is not None:
        return one.about.parse(one.label, text)
    try:
        value = one.kind(text)
    except ValueError:
        if one.choices:
            raise _refused(one, f"is {text!r}", text) from None
        allowed, noun = one.allowed(), "a whole number" if one.kind is int else "a number"
        expected = allowed if allowed.startswith("a ") else ", ".join(filter(None, (noun, allowed)))
        raise UsageError(f"{one.label} is {text!r}; expected {expected}") from None
    check_value(one, value)
    return value


def _refused(one: Declared, found: str, value: Any) -> UsageError:
    near = did_you_mean(str(value), one.choices) if one.choices else ""
    return UsageError(f"{one.label} {found}; expected {one.allowed()}{near}")


def _allows(one: Declared, value: Any) -> bool:
    about = one.about
    if one.choices:
        return isinstance(value, StrEnum) or value in one.choices
    if isinstance(value, bool) or not isinstance(value, int | float):
        return True
    if math.isnan(value) or (about.finite and math.isinf(value)):
        return False
    return (
        (about.minimum is None or value >= about.minimum)
        and (about.maximum is None or value <= about.maximum)
        and (about.above is None or value > about.above)
    )

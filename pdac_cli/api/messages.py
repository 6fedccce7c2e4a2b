"""What Python users are told: options by their parameters' names where the command line has flags.

Messages are written once, with flags, and an option's flags stand in its declaration; so does what its values look
like.  That is enough to turn `--head` into `head=True` and `--ridge 0.1` into `floor=0.1` where a message leaves the
package by this door.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

from pdac_cli.console import Silent
from pdac_cli.errors import DataError, PdacError, UsageError
from pdac_cli.options.checks import value_of
from pdac_cli.options.declare import Declared, declared
from pdac_cli.options.fit import FitOptions
from pdac_cli.options.select import SelectOptions
from pdac_cli.options.stream import StreamOptions

NO_NAMES: Mapping[str, str] = {}
FORGOTTEN = "what fit found is forgotten: partial_fit begins anew; call partial_fit from the first rows on"
_FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z-]*)(?: ([\w.+-]*[\w]))?")


class ParameterError(UsageError, ValueError):
    """A parameter, or a combination of parameters, that cannot be meant."""


class InputError(DataError, ValueError):
    """Rows or labels that cannot be used."""


class PdacWarning(UserWarning):
    """Something that the caller should act on."""


def in_python(text: str, names: Mapping[str, str] = NO_NAMES) -> str:
    """Return a message with parameters in place of flags; `names` are those that differ from the options' fields."""

    def named(found: re.Match[str]) -> str:
        flag, value = found[1], found[2]
        several = _by_flag().get(flag)
        if several is None:
            return found[0]
        one = next((one for one in several if value is not None and _fits(one, value)), several[0])
        name = names.get(one.name, one.name)
        if one.is_switch and value not in ("is", "has"):
            given = flag == one.flags[0].partition("/")[0]
            return f"{name}={given}{'' if value is None else f' {value}'}"
        if value is None:
            return name
        if not _fits(one, value):
            return f"{name} {value}"
        return f"{name}={value}" if one.kind in (int, float) and one.about.parse is None else f"{name}={value!r}"

    return _FLAG.sub(named, text)


@contextmanager
def python_messages(names: Mapping[str, str] = NO_NAMES) -> Iterator[Silent]:
    """Give a console that shows nothing; raise what is raised, and warn of what is warned of, in Python's words."""
    console = Silent()
    try:
        yield console
    except PdacError as problem:
        kind = type(problem)
        if isinstance(problem, UsageError):
            kind = ParameterError
        elif isinstance(problem, DataError):
            kind = InputError
        raise kind(in_python(str(problem), names)) from None
    finally:
        for text in console.warnings:
            warnings.warn(in_python(text, names), PdacWarning, stacklevel=4)


@cache
def _by_flag() -> Mapping[str, Sequence[Declared]]:
    """Return the options that messages may speak of, by every way to write their flags: verbs share some."""
    found: dict[str, list[Declared]] = {}
    for kind in (SelectOptions, StreamOptions, FitOptions):
        for one in declared(kind):
            for flag in one.flags:
                for part in flag.split("/"):
                    found.setdefault(part, []).append(one)
    return found


def _fits(one: Declared, value: str) -> bool:
    """Whether a word after a flag is a value of it, and not the sentence going on."""
    if one.choices:
        return value in one.choices
    if one.kind not in (int, float) and one.about.parse is None:
        return False
    try:
        value_of(one, value)
    except UsageError:
        return False
    return True

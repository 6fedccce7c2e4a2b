"""Options that are given and have no effect on the run are refused, with what they belong to.

A field says where its option has an effect: ``option(…, applies=(FOLLOWED,))``, a group says it of options it shares
with other verbs, and what a method owns has an effect where the method is run.  Defaults and what a preset implies are
never refused: only names in ``given`` are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from pdac_cli.errors import UsageError
from pdac_cli.options.declare import Applies, Declared, declared


@dataclass(frozen=True)
class Reduced:
    """A run that is only a part of what the verb does."""

    to: str  # what the idle options belong to, in words
    idle: Callable[[Declared], bool]


def used_by(*methods: str) -> Applies:
    """Return that an option has an effect where one of the methods is run."""
    return Applies(_methods(methods), lambda options: not set(methods).isdisjoint(options.run_methods))


def idle_options(options: Any) -> list[tuple[Declared, str]]:
    """Return the options that are given and have no effect, each with what it belongs to."""
    reduced = options.reduced()
    found = []
    for one in declared(type(options)):
        if one.name in options.given:
            belongs = reduced.to if reduced is not None and reduced.idle(one) else _belongs(one, options)
            if belongs is not None:
                found.append((one, belongs))
    return found


def refuse_idle(options: Any) -> None:
    """Refuse what `idle_options` finds: all of it that belongs to the same."""
    found = idle_options(options)
    if found:
        to = found[0][1]
        raise idle_error([_flag(one, options) for one, belongs in found if belongs == to], to)


def refuse_given(options: Any, names: Collection[str], to: str) -> None:
    """Refuse those of the options that are given: the data, which was looked at, leaves them without effect."""
    flags = [_flag(one, options) for one in declared(type(options)) if one.name in names and one.name in options.given]
    if flags:
        raise idle_error(flags, to)


def idle_error(flags: list[str], to: str) -> UsageError:
    """Return the error of options that have no effect."""
    listed = _joined(flags, "and")
    one = len(flags) == 1
    return UsageError(
        f"{listed} {'has' if one else 'have'} no effect on this run; {'it belongs' if one else 'they belong'} to {to}; "
        f"leave {'it' if one else 'them'} out"
    )


def _belongs(one: Declared, options: Any) -> str | None:
    """Return what an option without effect belongs to, None of one that has an effect."""
    owners = one.about.owners
    if owners and not used_by(*owners).when(options):
        return _methods(owners)
    return next((each.to for each in one.about.applies if not each.when(options)), None)


def _methods(names: Iterable[str]) -> str:
    listed = list(names)
    return f"the method{'s' if len(listed) > 1 else ''} {_joined(listed, 'and')}"


def _joined(words: list[str], last: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def _flag(one: Declared, options: Any) -> str:
    """Return an option as it was given; a switch that is off by its other name."""
    on, _, off = one.flags[0].partition("/") if one.flags else (one.label, "", "")
    return off if off and _value(options, one.name) is False else on


def _value(options: Any, name: str) -> Any:
    """Return the value of an option, wherever among the groups it is."""
    if name in vars(options):
        return vars(options)[name]
    inner = [value for value in vars(options).values() if hasattr(type(value), "__dataclass_fields__")]
    return next((found for value in inner if (found := _value(value, name)) is not None), None)

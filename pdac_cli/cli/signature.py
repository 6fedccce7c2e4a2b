"""A Typer command made from a verb's options: every option's flags, help and completion come from its field.

Typer is given texts only, None where an option is not named; the options read and check them, in one way for all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from pdac_cli.cli.reports import print_summary
from pdac_cli.cli.verbs import Verb
from pdac_cli.errors import DataError, UsageError
from pdac_cli.options.checks import value_of
from pdac_cli.options.declare import Declared, build
from pdac_cli.options.shared import VerbOptions

_BY_FLAG = "_by_flag"  # of an argument that can be given by a flag too


def command_of(verb: Verb) -> Callable[..., None]:
    """Return the function that Typer makes a command of."""

    def run(**texts: Any) -> None:
        options = options_of(verb, texts)
        summary = verb.run(options)
        if summary is not None:
            print_summary(summary, options.run, verb.is_table)
        if problem := getattr(summary, "problem", ""):  # said after all that was found
            raise DataError(problem)

    parameters = [parameter for one in verb.declared() for parameter in _parameters(one)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__name__, run.__doc__ = verb.name.replace("-", "_"), verb.help
    return run


def options_of(verb: Verb, texts: Mapping[str, Any]) -> VerbOptions:
    """Return the verb's options from the texts of those that are named; refuse where a required one is missing."""
    values: dict[str, Any] = {}
    for one in verb.declared():
        found = _found(one, texts)
        if found is not None:
            values[one.name] = _value(one, found)
        elif one.about.required:
            what = one.about.help[0].lower() + one.about.help[1:].rstrip(".")
            named = one.label if one.about.argument else f"{one.label} {one.metavar}"
            raise UsageError(f"{named} is missing; expected {what}; see pdac {verb.name} --help")
    return build(verb.options, values)


def _found(one: Declared, texts: Mapping[str, Any]) -> Any:
    by_place, by_flag = texts.get(one.name), texts.get(one.name + _BY_FLAG)
    if one.about.once and isinstance(by_place, list) and len(by_place) > 1:
        raise UsageError(f"{one.label} is given {len(by_place)} times; expected it once; run one command for each")
    if by_place and by_flag is not None:
        raise UsageError(f"data is given twice, as an argument and by {one.flags[0]}; expected it once")
    return [by_flag] if by_flag is not None else by_place


def _value(one: Declared, found: Any) -> Any:
    if isinstance(found, bool):
        return found
    if not isinstance(found, list):
        return value_of(one, found)
    if one.about.repeated and one.about.parse is not None:
        return one.about.parse(one.label, found)
    values = tuple(value_of(one, text) for text in found)
    return values if one.is_several else values[0]


def _parameters(one: Declared) -> list[inspect.Parameter]:
    about, made = one.about, []
    facts: dict[str, Any] = {"help": about.help, "metavar": one.metavar or None, "show_default": False}
    if one.offered:
        facts["autocompletion"] = _completion(one)
    if about.argument:
        several = list[str] | None if one.is_several else str | None
        made.append(_parameter(one.name, several, typer.Argument(**facts)))
        if about.flags:
            made.append(_parameter(one.name + _BY_FLAG, str | None, typer.Option(*about.flags, **facts)))
    else:
        hint = bool | None if one.is_switch else list[str] | None if about.repeated or about.once else str | None
        made.append(_parameter(one.name, hint, typer.Option(*one.flags, **facts)))
    return made


def _parameter(name: str, hint: Any, info: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[hint, info])


def _completion(one: Declared) -> Callable[[str], list[str]]:
    """Return what offers the choices that begin as the word does; in a list with commas, for its last part."""
    is_list = one.about.parse is not None

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",") if is_list else ("", "", incomplete)
        named = before.split(",")
        return [before + comma + choice for choice in one.offered if choice.startswith(last) and choice not in named]

    return complete

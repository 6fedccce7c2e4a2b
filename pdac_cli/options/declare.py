"""How an option is declared: default, help, allowed range, flags and panel stand in its dataclass field, once.

The command line, the checks, the documentation and the experiments' definitions are made from these fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

_OPTION, _GROUP = "option", "group"
T = TypeVar("T")


class Panel(StrEnum):
    """The parts of a verb's help, in order."""

    INPUT = "Input"
    KEEP = "What to keep"
    DENSITY = "Density"
    STREAMING = "Streaming"
    TASKS = "Tasks and seeds"
    NETWORK = "Network and images"
    RESOURCES = "Resources and seed"
    CLUSTER = "Cluster"
    OUTPUT = "Output"


@dataclass(frozen=True)
class Applies:
    """Where an option has an effect; elsewhere it is refused, `effect.py`."""

    to: str  # what it belongs to, in words: "--density class"
    when: Callable[[Any], bool]  # of the verb's options


@dataclass(frozen=True, kw_only=True)
class About:
    """What a field says of its option."""

    help: str
    panel: Panel
    flags: tuple[str, ...] = ()  # empty: --name
    metavar: str = ""  # empty: by its type
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None  # larger than this, not equal to it
    finite: bool = True
    expected: str = ""  # what is allowed, in words; empty: made from the range
    choices: tuple[str, ...] = ()  # of a text; an enumeration has its own
    offered: tuple[str, ...] = ()  # in place of choices, where the class itself checks what is allowed
    parse: Callable[[str, Any], Any] | None = None  # (flag, text) to a value; None: by its type
    otherwise: str = ""  # what None, or nothing, stands for
    argument: bool = False  # given by its place; with flags, by them too
    required: bool = False
    repeated: bool = False  # may be given several times
    once: bool = False  # refused where it is given again; of other options the last one counts
    applies: tuple[Applies, ...] = ()  # all of them must hold for it to have an effect
    owners: tuple[str, ...] = ()  # the methods it belongs to; empty: it is no method's own


def option(default: Any = MISSING, *, help: str, panel: Panel, **about: Any) -> Any:  # noqa: A002
    """Declare an option; without a default it is required."""
    facts = About(help=help, panel=panel, **{"required": default is MISSING, **about})
    if isinstance(default, dict):
        return field(default_factory=lambda: dict(default), metadata={_OPTION: facts})
    return field(default=default, metadata={_OPTION: facts})


def group(
    kind: type[T],
    *,
    leave_out: tuple[str, ...] = (),
    help: Mapping[str, str] | None = None,  # noqa: A002
    applies: Mapping[str, tuple[Applies, ...]] | None = None,
) -> Any:
    """Declare a group of options; those left out keep their defaults and are not on the command line.

    `help` replaces the text of options that mean something narrower in this verb, `applies` says of its options where
    they have an effect.  The groups of a class with `by_method` belong to the methods of their names.
    """
    about = _Group(kind, frozenset(leave_out), help or {}, applies or {})
    return field(default_factory=kind, metadata={_GROUP: about})


@dataclass(frozen=True)
class _Group:
    kind: type
    left_out: frozenset[str]
    help: Mapping[str, str]
    applies: Mapping[str, tuple[Applies, ...]]

    def about(self, one: Declared, owner: str) -> About:
        """Return what is said of one of its options, which may belong to a method."""
        owners = (owner,) if owner else one.about.owners
        applies = (*one.about.applies, *self.applies.get(one.name, ()))
        text = self.help.get(one.name, one.about.help)
        return replace(one.about, help=text, applies=applies, owners=owners)


@dataclass(frozen=True)
class Declared:
    """An option of a verb, as its field declares it."""

    name: str  # of the field
    hint: Any  # the field's type
    default: Any  # MISSING where there is none
    about: About

    @property
    def flags(self) -> tuple[str, ...]:
        """How it is given, the long form first."""
        if self.about.argument:
            return self.about.flags
        return self.about.flags or (f"--{self.name.replace('_', '-')}",)

    @property
    def label(self) -> str:
        """What messages call it: its long flag, or its metavar where it is given by its place."""
        return self.metavar if self.about.argument else self.flags[0].partition("/")[0]

    @property
    def kind(self) -> Any:
        """The type of one value: without None, and of a tuple's items."""
        kinds = [kind for kind in get_args(self.hint) if kind is not NoneType] if _is_union(self.hint) else [self.hint]
        return get_args(kinds[0])[0] if get_origin(kinds[0]) is tuple else kinds[0]

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts it takes, where they can be listed."""
        if isinstance(self.kind, type) and issubclass(self.kind, StrEnum):
            return self.about.choices or tuple(item.value for item in self.kind)
        return self.about.choices

    @property
    def offered(self) -> tuple[str, ...]:
        """The texts that help lists and shells complete."""
        return self.about.offered or self.choices

    @property
    def is_several(self) -> bool:
        """Whether its value is a tuple."""
        return any(get_origin(kind) is tuple for kind in (self.hint, *get_args(self.hint)))

    @property
    def is_switch(self) -> bool:
        """Whether it is given without a value."""
        return self.kind is bool

    @property
    def metavar(self) -> str:
        """What stands for its value in help; empty for a switch."""
        if self.is_switch:
            return ""
        named = {int: "N", float: "X"}.get(self.kind, "PATH" if self.kind.__name__ == "Path" else "TEXT")
        return self.about.metavar or ("NAME" if self.offered else named)

    def allowed(self) -> str:
        """Return what is allowed, in words; empty: anything of its type."""
        about = self.about
        if about.expected:
            return about.expected
        if self.choices:
            return f"one of: {', '.join(self.choices)}"
        noun = "a whole number" if self.kind is int else "a number"
        if about.above is not None:
            return f"{noun} above {about.above:g}" + (
                "" if about.maximum is None else f" and at most {about.maximum:g}"
            )
        if about.minimum is not None and about.maximum is not None:
            return f"{noun} from {about.minimum:g} to {about.maximum:g}"
        if about.minimum is not None:
            return f"{about.minimum:g} or more" if about.minimum == 0 else f"at least {about.minimum:g}"
        return f"a finite {noun[2:]}" if self.kind is float else ""


def declared(kind: type) -> tuple[Declared, ...]:
    """Return the options of a class and of its groups, in order; one that several groups share comes once."""
    return _declared(kind)


@cache
def _declared(kind: Any) -> tuple[Declared, ...]:
    found: dict[str, Declared] = {}
    hints = get_type_hints(kind)
    for item in fields(kind):
        if _OPTION in item.metadata:
            found.setdefault(item.name, Declared(item.name, hints[item.name], _default(item), item.metadata[_OPTION]))
        elif _GROUP in item.metadata:
            inner: _Group = item.metadata[_GROUP]
            for one in declared(inner.kind):
                if one.name not in inner.left_out:
                    about = inner.about(one, item.name.replace("_", "-") if getattr(kind, "by_method", False) else "")
                    known = found.setdefault(one.name, replace(one, about=about))
                    if known.about.owners:  # perhaps another owner of the same option
                        owners = tuple(dict.fromkeys([*known.about.owners, *about.owners]))
                        found[one.name] = replace(known, about=replace(known.about, owners=owners))
    return tuple(found.values())


def build(kind: type[T], values: Mapping[str, Any], *, refuse_idle: bool = True) -> T:
    """Make options from values by name, groups flattened; a group may also be given as a whole.

    What follows from the values (a preset's, say) stands in for options that are not among them.  A verb's options
    that are given and have no effect are refused, unless they were stored or declared for several runs.
    """
    follows: Mapping[str, Any] = getattr(kind, "implied", lambda _given: {})(values)
    made = _made(kind, {**follows, **values})
    if any(item.name == "given" for item in fields(kind)):  # type: ignore[arg-type]
        made["given"] = frozenset(values)
    built = kind(**made)
    if refuse_idle:
        getattr(built, "check_effect", lambda: None)()
    return built


def _made(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for item in fields(kind):
        if item.name in values:
            made[item.name] = values[item.name]
        elif _GROUP in item.metadata:
            inner: _Group = item.metadata[_GROUP]
            named = {name: value for name, value in values.items() if name not in inner.left_out}
            made[item.name] = inner.kind(**_made(inner.kind, named))
    return made


def _default(item: Any) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _is_union(hint: Any) -> bool:
    return NoneType in get_args(hint)

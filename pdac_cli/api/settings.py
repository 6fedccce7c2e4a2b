"""Options from keyword arguments: the same dataclasses that the command line fills in, with the same checks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

from pdac_cli.errors import UsageError
from pdac_cli.options.checks import Options, check_value, did_you_mean, value_of
from pdac_cli.options.declare import Declared, build, declared
from pdac_cli.options.select import SelectOptions
from pdac_cli.options.shared import LARGEST_SEED, InputOptions

# What belongs to files, to a terminal or to one call of a command, and so is no parameter.
_OF_ROWS = {one.name for one in declared(InputOptions)} - {"chunk_rows"}  # which `FeatureSet` is given
NOT_PARAMETERS = _OF_ROWS | {"output", "print", "buffer", "task", "force", "json", "quiet", "verbose"}
O = TypeVar("O", bound=Options)  # noqa: E741


def options_of(kind: type[O], given: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> O:
    """Make options; None stands for the option's own default.  `more` are options by the names of their fields."""
    known = {one.name: one for one in declared(kind) if one.name not in NOT_PARAMETERS}
    for name in more or {}:
        if name not in known:
            near = did_you_mean(str(name), known)
            raise UsageError(f"options has {name!r}; expected some of: {', '.join(known)}{near}")
        if given.get(name) is not None:
            raise UsageError(f"{name} is given twice, as a parameter and in options; expected it once")
    values = {**given, **(more or {})}
    return build(kind, {name: _value(known[name], value) for name, value in values.items() if value is not None})


def seed_of(random_state: Any) -> int | None:
    """Return the seed: a whole number as it is, one drawn from a generator; None: the option's default."""
    if random_state is None:
        return None
    if isinstance(random_state, Integral):
        return int(random_state)
    for draw in ("integers", "randint"):  # of NumPy's generators, the new kind and the old
        if hasattr(random_state, draw):
            return int(getattr(random_state, draw)(min(2**31, LARGEST_SEED)))
    raise UsageError(f"random_state is {random_state!r}; expected a whole number, a generator of NumPy, or None")


def seed_value(random_state: Any) -> int:
    """Return the seed, checked, the default of the commands where there is none."""
    one = next(one for one in declared(SelectOptions) if one.name == "seed")
    seed = seed_of(random_state)
    if seed is not None:
        check_value(one, seed)
    return int(one.default) if seed is None else seed


def jobs_of(n_jobs: int | None) -> int | None:
    """Return the number of threads; None and -1: what the process may use."""
    return None if n_jobs == -1 else n_jobs


def _value(one: Declared, value: Any) -> Any:
    """Return a value as the option's field has it; refuse one of another type."""
    if one.kind is bool:
        if not isinstance(value, bool | int) or value not in (0, 1):
            raise _refused(one, value, "True or False")
        return bool(value)
    if one.kind is int and one.about.parse is None:
        if not isinstance(value, Integral) or isinstance(value, bool):
            raise _refused(one, value, one.allowed() or "a whole number")
        return int(value)
    if one.kind is float:
        if not isinstance(value, Real) or isinstance(value, bool):
            raise _refused(one, value, one.allowed())
        return float(value)
    if one.kind is Path:
        if not isinstance(value, str | os.PathLike):
            raise _refused(one, value, "a path")
        return Path(value)
    if isinstance(value, str) and (one.choices or one.about.parse is not None):
        return value_of(one, str(value))
    if isinstance(value, Integral) and one.kind is int:  # a size in bytes
        return int(value)
    raise _refused(one, value, one.allowed() or "text")


def _refused(one: Declared, value: Any, expected: str) -> UsageError:
    return UsageError(f"{one.label} is {value!r}; expected {expected}")

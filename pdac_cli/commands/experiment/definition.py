"""Definitions of experiments: what is swept over what, checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pdac_cli.commands.experiment.checks import (
    Table,
    a_list,
    a_text,
    check_keys,
    check_measures,
    names,
    refuse,
    value_of,
    whole,
)
from pdac_cli.commands.experiment.reading import preset_names, read
from pdac_cli.commands.experiment.schema import (
    COMPARE,
    DEFAULT_MEASURES,
    LARGEST,
    LIKELIHOOD,
    METHOD,
    MOST_SEEDS,
    OPTIONS,
    STEP,
    SWEEP,
    TRAIN,
)
from pdac_cli.commands.train_cl.methods import reference_among
from pdac_cli.errors import UsageError
from pdac_cli.options.experiment import ExperimentOptions

_LARGEST_COUNT = (1 << 31) - 1


@dataclass(frozen=True)
class DataSet:
    """Where a data set is, and how large it is taken to be in an estimate."""

    path: str | None = None
    test: str | None = None
    classes: int = 10
    rows: int | None = None  # to learn from, of a class
    pixels: int | None = None  # of an image's side; None: features
    options: Table = field(default_factory=dict)


@dataclass(frozen=True)
class Sweep:
    """Every combination of the axes' values, for every method."""

    command: str
    methods: tuple[str, ...]
    axes: Mapping[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Definition:
    """An experiment."""

    name: str
    title: str
    measures: tuple[str, ...]
    reference: str | None  # the method that the others are compared with
    seeds: int
    data: Mapping[str, DataSet]
    options: Table
    methods: Mapping[str, Table]
    sweeps: tuple[Sweep, ...]
    plots: tuple[Mapping[str, str], ...]


def preset_titles() -> dict[str, str]:
    """Return the title of each definition that is shipped."""
    return {name: load(ExperimentOptions(preset=name)).title for name in preset_names()}


def load(options: ExperimentOptions) -> Definition:
    """Read the definition that the options name, at the scale and with the changes they ask for, and check it."""
    name, raw = read(options)
    sweeps = _sweeps(name, raw["sweep"])
    commands = list(dict.fromkeys(sweep.command for sweep in sweeps))
    _check_options("--set", dict.fromkeys(options.changes), commands, values=False)
    _check_options(f"{name}: [options]", raw["options"], commands)
    for label, table in raw["methods"].items():
        _check_options(f"{name}: [methods.{label}]", table, commands, method=True)
    _check_small(name, raw.get("small", {}), commands)
    data = {key: _data(f"{name}: [data.{key}]", table, commands) for key, table in raw["data"].items()}
    if not data:
        raise UsageError(f"{name}: has no data set; expected [data.NAME]")
    check_keys("--data", options.data, data)
    check_keys("--test", options.test, data)
    measures = _measures(f"{name}: measures", raw.get("measures"), commands)
    for plot in raw.get("plot", []):
        _check_plot(f"{name}: [[plot]]", plot, measures, sweeps)
    return Definition(
        name=name,
        title=raw.get("title", name),
        measures=measures,
        reference=_reference(name, raw.get("reference"), options.reference, sweeps),
        seeds=whole("--seeds", options.seeds or raw.get("seeds", 3), 1, MOST_SEEDS),
        data=data,
        options=raw["options"],
        methods=raw["methods"],
        sweeps=_wanted(sweeps, options.methods),
        plots=tuple(raw.get("plot", [])),
    )


def _sweeps(name: str, found: Sequence[Table]) -> tuple[Sweep, ...]:
    if not found:
        raise UsageError(f"{name}: has no sweep; expected [[sweep]] with methods and axes such as budget = [200, 500]")
    return tuple(_sweep(f"{name}: [[sweep]]", table) for table in found)


def _sweep(where: str, table: Table) -> Sweep:
    command = table.get("command", TRAIN)
    check_keys(f"{where}: command", (command,), OPTIONS)
    check_keys(where, table, [*SWEEP, *OPTIONS[command]])
    if not table.get("methods"):
        raise UsageError(f'{where}: has no methods; expected a list of methods, such as methods = ["uniform", "pdac"]')
    axes = {axis: _axis(where, axis, values, command) for axis, values in table.items() if axis not in SWEEP}
    if command == COMPARE and "budget" not in axes:
        raise UsageError(f"{where}: has no budget; expected one for compare, such as budget = [200, 500]")
    return Sweep(command, names(f"{where}: methods", table["methods"], "a list of methods"), axes)


def _axis(where: str, axis: str, values: Any, command: str) -> tuple[Any, ...]:
    listed = a_list(f"{where}: {axis}", values if isinstance(values, list) else [values], "a list of values")
    found = tuple(value_of(where, axis, value, command) for value in listed)
    if len(set(found)) < len(found) or not found:
        raise refuse(f"{where}: {axis}", values, "values, each once")
    return found


def _wanted(sweeps: tuple[Sweep, ...], methods: Sequence[str]) -> tuple[Sweep, ...]:
    """Keep the methods that are asked for, all where none is named."""
    check_keys("--methods", methods, dict.fromkeys(method for sweep in sweeps for method in sweep.methods))
    if not methods:
        return sweeps
    kept = [replace(sweep, methods=tuple(m for m in sweep.methods if m in methods)) for sweep in sweeps]
    return tuple(sweep for sweep in kept if sweep.methods)


def _data(where: str, table: Table, commands: Sequence[str]) -> DataSet:
    _check_options(f"{where}: options", table.get("options", {}), commands)
    for number in ("classes", "rows", "pixels"):
        if number in table:
            whole(f"{where}: {number}", table[number], 1, LARGEST.get(number, _LARGEST_COUNT))
    return DataSet(**table)


def _measures(where: str, given: Any, commands: Sequence[str]) -> tuple[str, ...]:
    if given is None:
        return tuple(measure for command in commands for measure in DEFAULT_MEASURES[command])
    found = [a_text(where, each, "a list of names") for each in a_list(where, given, "a list of names")]
    if not found or len(set(found)) < len(found):
        raise refuse(where, given, "a list of names, each once")
    check_measures(where, found, commands)
    return tuple(found)


def _reference(name: str, given: str | None, asked: str | None, sweeps: Sequence[Sweep]) -> str | None:
    """Return the method that others are compared with: the one named, else the one that draws uniformly."""
    known = list(dict.fromkeys(method for sweep in sweeps for method in sweep.methods))
    for where, method in (("--reference", asked), (f"{name}: reference", given)):
        if method is not None:
            check_keys(where, (method,), known)
            return method
    return reference_among(known)


def _check_options(
    where: str, found: Table, commands: Sequence[str], *, method: bool = False, values: bool = True
) -> None:
    """Refuse options that none of the commands has, and values of another kind."""
    known = dict.fromkeys(option for command in commands for option in OPTIONS[command] if method or option != METHOD)
    check_keys(where, found, known)
    for option, value in found.items() if values else ():
        value_of(where, option, value, next(command for command in commands if option in OPTIONS[command]))


def _check_small(name: str, small: Table, commands: Sequence[str]) -> None:
    """Refuse, also where it is not used, what the reduced size could not be run with."""
    _check_options(f"{name}: [small.options]", small.get("options", {}), commands)
    for key, table in small.get("data", {}).items():
        _check_options(f"{name}: [small.data.{key}]", table, commands)
    where = f"{name}: [small.sweep]"
    _check_options(where, small.get("sweep", {}), commands, values=False)
    for axis, values in small.get("sweep", {}).items():
        _axis(where, axis, values, next(command for command in commands if axis in OPTIONS[command]))


def _check_plot(where: str, plot: Mapping[str, str], measures: Sequence[str], sweeps: Sequence[Sweep]) -> None:
    """Refuse axes of a figure that no run has, or that are not numbers."""
    axes: dict[str, list[Any]] = {}
    for sweep in sweeps:
        for axis, values in sweep.axes.items():
            axes.setdefault(axis, []).extend(values)
    steps = plot["x"] == STEP
    check_keys(f"{where}: x", (plot["x"],), [STEP, *axes])
    check_keys(f"{where}: y", (plot["y"],), [LIKELIHOOD] if steps else measures)
    for value in axes.get(plot["x"], []):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refuse(f"{where}: x = {plot['x']}, a value of which", value, "numbers")
    if steps and not any(measure.startswith(LIKELIHOOD) for measure in measures):
        raise UsageError(f"{where}: x is {STEP}; expected {LIKELIHOOD}@STEP among the measures")
    for key in ("by", "panel"):
        check_keys(f"{where}: {key}", [plot[key]] if key in plot else (), ["data", "method", "task", "seed", *axes])

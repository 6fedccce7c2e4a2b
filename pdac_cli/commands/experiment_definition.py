"""Definitions of experiments: what is swept over what, read from TOML and checked before anything runs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from pdac_cli.commands.experiment_schema import (
    COMPARE,
    DATA,
    OPTIONS,
    PLOT,
    SMALL,
    SWEEP,
    TOP,
    TRAIN,
    check_keys,
    check_measure,
    expect,
    value_of,
)
from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.messages import check_readable
from pdac_cli.options.experiment import ExperimentOptions, Scale

Table = Mapping[str, Any]


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
    reference: str | None
    seeds: int
    data: Mapping[str, DataSet]
    options: Table
    methods: Mapping[str, Table]
    sweeps: tuple[Sweep, ...]
    plots: tuple[Mapping[str, str], ...]


def preset_names() -> list[str]:
    """Return the names of the definitions that are shipped."""
    return sorted(entry.name.removesuffix(".toml") for entry in _presets().iterdir() if entry.name.endswith(".toml"))


def preset_titles() -> dict[str, str]:
    """Return the title of each definition that is shipped."""
    return {name: load(ExperimentOptions(preset=name)).title for name in preset_names()}


def load(options: ExperimentOptions) -> Definition:
    """Read the definition that the options name, at the scale and with the changes they ask for."""
    name, raw = _read(options)
    check_keys(name, raw, TOP)
    small = _table(name, raw, "small")
    check_keys(f"{name}: [small]", small, SMALL)
    if options.scale is Scale.SMALL:
        if not small:
            raise UsageError(f"{name}: has no [small] part; expected one for --scale small; add it, or use --set")
        raw = _scaled(name, raw, small)
    return _definition(name, _changed(raw, _changes(options.changes)), options)


def _read(options: ExperimentOptions) -> tuple[str, dict[str, Any]]:
    if options.preset is not None:
        if options.preset not in preset_names():
            raise UsageError(f"--preset is {options.preset!r}; expected one of: {', '.join(preset_names())}")
        return options.preset, tomllib.loads((_presets() / f"{options.preset}.toml").read_text("utf-8"))
    path = options.definition or Path()
    check_readable(path, "a definition in TOML")
    try:
        return path.stem, tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise DataError(f"{path}: is no TOML ({problem}); expected a definition; see pdac experiment --list") from None


def _definition(name: str, raw: Table, options: ExperimentOptions) -> Definition:
    """Check everything and return it."""
    sweeps = _sweeps(name, raw, options.methods)
    commands = list(dict.fromkeys(sweep.command for sweep in sweeps))
    common = _table(name, raw, "options")
    _check_options(f"{name}: [options]", common, commands)
    data = {key: _data(name, key, value, commands) for key, value in _table(name, raw, "data").items()}
    if not data:
        raise UsageError(f"{name}: has no data set; expected [data.NAME]")
    for given in (*options.data, *options.test):
        check_keys("--data or --test", {given: 0}, data)
    methods = _table(name, raw, "methods")
    for label, found in methods.items():
        where = f"{name}: [methods.{label}]"
        _check_options(where, expect(where, found, dict, "a table"), commands)
    measures = expect(f"{name}: measures", raw.get("measures", ["acc", "fm"]), list, "a list of names")
    for measure in measures:
        check_measure(f"{name}: measures", measure)
    plots = expect(f"{name}: plot", raw.get("plot", []), list, "[[plot]] tables")
    for plot in plots:
        check_keys(f"{name}: [[plot]]", plot, PLOT)
    seeds = expect(f"{name}: seeds", raw.get("seeds", 3), int, "a whole number")
    return Definition(
        name,
        expect(f"{name}: title", raw.get("title", name), str, "a text"),
        tuple(measures),
        _reference(name, raw.get("reference"), sweeps),
        options.seeds or seeds,
        data,
        common,
        methods,
        sweeps,
        tuple(plots),
    )


def _sweeps(name: str, raw: Table, wanted: Sequence[str]) -> tuple[Sweep, ...]:
    found = expect(f"{name}: sweep", raw.get("sweep", []), list, "[[sweep]] tables")
    if not found:
        raise UsageError(f"{name}: has no sweep; expected [[sweep]] with methods and axes such as budget = [200, 500]")
    sweeps = [_sweep(f"{name}: [[sweep]]", table) for table in found]
    known = list(dict.fromkeys(method for sweep in sweeps for method in sweep.methods))
    for method in wanted:
        check_keys("--methods", {method: 0}, known)
    if not wanted:
        return tuple(sweeps)
    kept = [Sweep(s.command, tuple(m for m in s.methods if m in wanted), s.axes) for s in sweeps]
    return tuple(sweep for sweep in kept if sweep.methods)


def _sweep(where: str, table: Table) -> Sweep:
    command = table.get("command", TRAIN)
    check_keys(f"{where}: command", {command: 0}, OPTIONS)
    methods = expect(f"{where}: methods", table.get("methods"), list, "a list of methods")
    axes = {}
    for axis, values in table.items():
        if axis not in SWEEP:
            listed = values if isinstance(values, list) else [values]
            check_keys(where, {axis: 0}, [*SWEEP, *OPTIONS[command]])
            axes[axis] = tuple(value_of(where, axis, value, command) for value in listed)
            if len(set(axes[axis])) < len(axes[axis]) or not listed:
                raise UsageError(f"{where}: {axis} is {values}; expected values, each once")
    if command == COMPARE and "budget" not in axes:
        raise UsageError(f"{where}: has no budget; expected one for compare, such as budget = [200, 500]")
    return Sweep(command, tuple(methods), axes)


def _data(name: str, key: str, table: Any, commands: Sequence[str]) -> DataSet:
    where = f"{name}: [data.{key}]"
    check_keys(where, expect(where, table, dict, "a table"), DATA)
    _check_options(f"{where} options", expect(f"{where}: options", table.get("options", {}), dict, "a table"), commands)
    for number in ("classes", "rows", "pixels"):
        expect(f"{where}: {number}", table.get(number, 1), int, "a whole number")
    for text in ("path", "test"):
        expect(f"{where}: {text}", table.get(text, ""), str, "a path")
    return DataSet(**table)


def _reference(name: str, given: Any, sweeps: Sequence[Sweep]) -> str | None:
    """Return the method that others are compared with: the one named, else the one that draws uniformly."""
    known = [method for sweep in sweeps for method in sweep.methods]
    if given is not None:
        return str(expect(f"{name}: reference", given, str, "a method"))
    return next((method for method in ("uniform", "er") if method in known), None)


def _check_options(where: str, found: Table, commands: Sequence[str]) -> None:
    """Refuse options that none of the commands has, and values of another kind."""
    for option, value in found.items():
        having = [command for command in commands if option in OPTIONS[command]]
        if not having:
            check_keys(where, {option: value}, dict.fromkeys(n for command in commands for n in OPTIONS[command]))
        value_of(where, option, value, having[0])


def _scaled(name: str, raw: Table, small: Table) -> dict[str, Any]:
    """Return the definition with what its [small] part says in place of its own."""
    out = {**raw, "seeds": small.get("seeds", raw.get("seeds", 3))}
    out = _changed(out, {**_table(name, small, "sweep"), **_table(name, small, "options")})
    own = _table(name, small, "data")
    check_keys(f"{name}: [small.data]", own, out["data"])
    for key, options in own.items():
        data = out["data"][key]
        out["data"][key] = {**data, "options": {**data.get("options", {}), **options}}
    return out


def _changed(raw: Table, changes: Table) -> dict[str, Any]:
    """Put other values in place: of the axes of that name, else of the option, wherever it is given."""
    out, sweeps = dict(raw), []
    for sweep in raw.get("sweep", []):
        sweeps.append({key: changes[key] if key in changes and key not in SWEEP else old for key, old in sweep.items()})
    swept = {key for sweep in sweeps for key in sweep}
    rest = {key: value for key, value in changes.items() if key not in swept}
    for part in ("data", "methods"):
        out[part] = {key: _without(table, rest) for key, table in raw.get(part, {}).items()}
    return {**out, "sweep": sweeps, "options": {**raw.get("options", {}), **rest}}


def _without(table: Any, changes: Table) -> Any:
    """Leave out what a change overrides."""
    if not isinstance(table, dict):
        return table
    kept = {key: value for key, value in table.items() if key not in changes or key in DATA}
    if isinstance(kept.get("options"), dict):
        kept["options"] = {key: value for key, value in kept["options"].items() if key not in changes}
    return kept


def _changes(given: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for name, text in given.items():
        try:
            found[name] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            found[name] = text  # a bare word
    return found


def _table(name: str, raw: Table, key: str) -> dict[str, Any]:
    return dict(expect(f"{name}: {key}", raw.get(key, {}), dict, f"a [{key}] table"))


def _presets() -> Any:
    return files("pdac_cli") / "presets"

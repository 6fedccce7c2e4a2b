"""A definition's TOML: read, its form checked, and put at the scale and with the changes that are asked for."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from pdac_cli.commands.experiment.checks import Table, a_list, a_table, a_text, check_keys, tables, whole
from pdac_cli.commands.experiment.schema import DATA, MOST_BYTES, MOST_SEEDS, PLOT, SMALL, SWEEP, TOP
from pdac_cli.errors import DataError, UsageError
from pdac_cli.options.experiment import ExperimentOptions, Scale
from pdac_cli.storage.reading import check_readable, plain, quote

_NOT_TOML = (ValueError, RecursionError)  # tomllib's own is a ValueError; arrays in arrays without end


def preset_names() -> list[str]:
    """Return the names of the definitions that are shipped."""
    return sorted(entry.name.removesuffix(".toml") for entry in _presets().iterdir() if entry.name.endswith(".toml"))


def read(options: ExperimentOptions) -> tuple[str, dict[str, Any]]:
    """Return the name and the content of the definition that the options name, at their scale and with their changes.

    Every table is one and every list is one; the values of options are yet to be checked.
    """
    name, raw = _read(options)
    _check_form(name, raw)
    small = raw.get("small", {})
    if options.scale is Scale.SMALL:
        if not small:
            raise UsageError(f"{name}: has no [small] part; expected one for --scale small; add it, or use --set")
        raw = _scaled(raw, small)
    return name, _changed(raw, _changes(options.changes))


def _read(options: ExperimentOptions) -> tuple[str, dict[str, Any]]:
    if options.preset is not None:
        if options.preset not in preset_names():
            raise UsageError(f"--preset is {quote(options.preset)}; expected one of: {', '.join(preset_names())}")
        return options.preset, tomllib.loads((_presets() / f"{options.preset}.toml").read_text("utf-8"))
    path = options.definition or Path()
    check_readable(path, "a definition in TOML")
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise DataError(f"{path}: has more than {MOST_BYTES:,} bytes; expected a definition in TOML")
    try:
        return path.stem, tomllib.loads(content.decode("utf-8"))
    except _NOT_TOML as problem:
        said = "lists within lists" if isinstance(problem, RecursionError) else plain(problem)
        raise DataError(f"{path}: is not TOML ({said}); expected a definition; see pdac experiment --list") from problem


def _check_form(name: str, raw: Table) -> None:
    """Refuse what is not of the form of a definition: keys, tables, lists, texts and counts."""
    check_keys(name, raw, TOP)
    for key in ("title", "reference"):
        if key in raw:
            a_text(f"{name}: {key}", raw[key])
    whole(f"{name}: seeds", raw.get("seeds", 1), 1, MOST_SEEDS)
    a_table(f"{name}: [options]", raw.get("options", {}))
    tables(f"{name}: methods", raw.get("methods", {}))
    for key, table in tables(f"{name}: data", raw.get("data", {})).items():
        where = f"{name}: [data.{key}]"
        check_keys(where, table, DATA)
        a_table(f"{where}: options", table.get("options", {}))
        for text in ("path", "test"):
            if text in table:
                a_text(f"{where}: {text}", table[text], "a path")
    for table in _tables_in(name, raw, "sweep"):
        a_list(f"{name}: [[sweep]]: methods", table.get("methods", []), "a list of methods")
        a_text(f"{name}: [[sweep]]: command", table.get("command", "-"))
    for table in _tables_in(name, raw, "plot"):
        check_keys(f"{name}: [[plot]]", table, PLOT)
        for key in ("x", "y", *table):
            a_text(f"{name}: [[plot]]: {key}", table.get(key, ""))
    _check_small(name, raw)


def _check_small(name: str, raw: Table) -> None:
    where = f"{name}: [small]"
    small = a_table(where, raw.get("small", {}))
    check_keys(where, small, SMALL)
    whole(f"{where}: seeds", small.get("seeds", 1), 1, MOST_SEEDS)
    for part in ("options", "sweep"):
        a_table(f"{where}: {part}", small.get(part, {}))
    check_keys(f"{name}: [small.data]", tables(f"{name}: small.data", small.get("data", {})), raw.get("data", {}))


def _tables_in(name: str, raw: Table, key: str) -> list[dict[str, Any]]:
    where = f"{name}: [[{key}]]"
    return [a_table(where, table) for table in a_list(f"{name}: {key}", raw.get(key, []), f"[[{key}]] tables")]


def _scaled(raw: Table, small: Table) -> dict[str, Any]:
    """Return the definition with what its [small] part says in place of its own."""
    out = {**raw, "seeds": small.get("seeds", raw.get("seeds", 3))}
    out = _changed(out, {**small.get("sweep", {}), **small.get("options", {})})
    for key, options in small.get("data", {}).items():
        data = out["data"][key]
        out["data"][key] = {**data, "options": {**data.get("options", {}), **options}}
    return out


def _changed(raw: Table, changes: Table) -> dict[str, Any]:
    """Put other values in place: of the axes of that name, else of the option, wherever it is given."""
    out, sweeps = dict(raw), []
    for sweep in raw.get("sweep", []):
        sweeps.append({key: changes[key] if key in changes and key not in SWEEP else old for key, old in sweep.items()})
    swept = {key for sweep in sweeps for key in sweep if key not in SWEEP}
    rest = {key: value for key, value in changes.items() if key not in swept}
    for part in ("data", "methods"):
        out[part] = {key: _without(table, rest) for key, table in raw.get(part, {}).items()}
    return {**out, "sweep": sweeps, "options": {**raw.get("options", {}), **rest}}


def _without(table: Table, changes: Table) -> Table:
    """Leave out what a change overrides."""
    kept = {key: value for key, value in table.items() if key not in changes or key in DATA}
    if "options" in kept and isinstance(kept["options"], dict):
        kept["options"] = {key: value for key, value in kept["options"].items() if key not in changes}
    return kept


def _changes(given: Mapping[str, str]) -> dict[str, Any]:
    return {name: _change(text) for name, text in given.items()}


def _change(text: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")
    except _NOT_TOML:
        return text  # a bare word
    return found["value"] if len(found) == 1 else text


def _presets() -> Any:
    return files("pdac_cli") / "presets"

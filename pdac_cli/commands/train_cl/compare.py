"""``pdac train-cl --compare``: finished runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pdac_cli.commands.train_cl.report import MEASURES, MethodResult, SeedResult, by_method, difference_of
from pdac_cli.commands.train_cl.stored import stored_result
from pdac_cli.console import printable
from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.results.runs import read_results
from pdac_cli.options.train_cl import REFERENCE_METHODS
from pdac_cli.reports.table import Table, interval_text, spread


@dataclass(frozen=True)
class Comparison:
    """Runs and methods, each beside the first that draws uniformly from the same data."""

    methods: list[MethodResult]  # named RUN METHOD
    differences: list[dict[str, Any]]  # of each row to the one it is compared with

    def text(self) -> str:
        """Return the comparison for people."""
        rows = []
        for row, found in zip(self.methods, self.differences, strict=True):
            means = ["" if values is None else spread(values) for values in (row.acc, row.fm, row.s)]
            same = row.method == found["against"]
            parts = ["" if same else interval_text(found.get(name)) for name in MEASURES]
            rows.append([row.method, len(row.seeds), *means, *parts])
        heads = [name.upper() for name in MEASURES]
        columns = ["run", "seeds", *heads, *(f"{head} difference" for head in heads)]
        against = printable(", ".join(dict.fromkeys(found["against"] for found in self.differences)))
        table = Table.of(columns, rows, left=["run"]).text(ruled=True)
        return f"{table}\ndifferences: minus {against}; over shared seeds, with 95 % intervals"


def compare(paths: Sequence[str], reference: str | None = None) -> Comparison:
    """Tabulate runs with paired differences over the seeds they share with the one they are compared with."""
    if not paths:
        raise UsageError("--compare is given without runs; expected their folders, such as runs/*")
    groups: dict[str, list[MethodResult]] = {}  # by the data
    rows: list[MethodResult] = []
    for path in paths:
        data, results = stored_run(Path(path))
        named = [replace(method, method=f"{Path(path).name} {method.method}") for method in by_method(results)]
        groups.setdefault(data, []).extend(named)
        rows += named
    if reference is not None and not any(_is(row, reference) for row in rows):
        known = ", ".join(dict.fromkeys(row.method for row in rows))
        raise UsageError(f"--reference is {reference!r}; expected a method of these runs: {known}")
    others = {row.method: _reference(group, reference) for group in groups.values() for row in group}
    return Comparison(rows, [difference_of(row, others[row.method]) for row in rows])


def stored_run(path: Path) -> tuple[str, list[SeedResult]]:
    """Return what says which data a run is on, and its results."""
    found = read_results(path)
    listed, config = found.get("results"), found.get("config")
    if not isinstance(listed, list) or not isinstance(config, dict) or not {"fingerprint", "test_rows"} <= set(config):
        raise DataError(f"{path}: its results are of another kind; expected those of pdac train-cl")
    if not listed:
        raise DataError(f"{path}: has no results; expected those of pdac train-cl; run it again")
    results = [stored_result(result, path) for result in listed]
    if len({len(result.accuracy) for result in results}) > 1:
        raise DataError(f"{path}: its seeds differ in their tasks; expected those of one run of pdac train-cl")
    return f"{config['fingerprint']} {config['test_rows']}", results


def _reference(group: list[MethodResult], named: str | None) -> MethodResult:
    """Return the first run of the method named, else of one that draws uniformly, else the last of all."""
    wanted = REFERENCE_METHODS if named is None else (named,)
    return next((row for row in group if any(_is(row, method) for method in wanted)), group[-1])


def _is(row: MethodResult, method: str) -> bool:
    return row.method == method or row.method.endswith(f" {method}")

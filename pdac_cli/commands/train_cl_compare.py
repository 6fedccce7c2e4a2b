"""``pdac train-cl --compare``: finished runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from pdac_cli.commands.train_cl_report import MethodResult, by_method, difference_of, rendered, spread
from pdac_cli.commands.train_cl_stored import stored_result
from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.runs import read_results


@dataclass(frozen=True)
class Comparison:
    """Runs and methods, each beside the first that draws uniformly from the same data."""

    rows: list[MethodResult]
    differences: list[dict[str, Any]]  # of each row to the one it is compared with

    def text(self) -> str:
        """Return the comparison for people."""
        table = Table(box=box.SIMPLE)
        for name in ("run", "seeds", "ACC", "FM", "ACC difference", "FM difference"):
            table.add_column(name, justify="left" if name == "run" else "right", no_wrap=name != "run", overflow="fold")
        for row, found in zip(self.rows, self.differences, strict=True):
            fm = "" if row.fm is None else spread(row.fm)
            parts = [interval_text(found.get(name)) for name in ("acc", "fm")]
            same = row.method == found["against"]
            table.add_row(row.method, str(len(row.seeds)), spread(row.acc), fm, *(["", ""] if same else parts))
        against = ", ".join(dict.fromkeys(found["against"] for found in self.differences))
        return f"{rendered(table)}\ndifferences: minus {against}; over shared seeds, with 95 % intervals"


def compare(paths: Sequence[str]) -> Comparison:
    """Tabulate runs with paired differences over the seeds they share with the one they are compared with."""
    if not paths:
        raise UsageError("--compare is given without runs; expected their folders, such as runs/*")
    groups: dict[str, list[MethodResult]] = {}  # by the data
    rows: list[MethodResult] = []
    for path in paths:
        found = read_results(Path(path))
        try:
            results = [stored_result(result, Path(path)) for result in found["results"]]
            data = f"{found['config']['fingerprint']} {found['config']['test_rows']}"
            named = [replace(method, method=f"{Path(path).name} {method.method}") for method in by_method(results)]
        except (LookupError, TypeError, ValueError):
            raise DataError(f"{path}: its results are of another kind; expected those of pdac train-cl") from None
        if not named:
            raise DataError(f"{path}: has no results; expected those of pdac train-cl; run it again")
        groups.setdefault(data, []).extend(named)
        rows += named
    reference = {row.method: _reference(group) for group in groups.values() for row in group}
    return Comparison(rows, [difference_of(row, reference[row.method]) for row in rows])


def _reference(group: list[MethodResult]) -> MethodResult:
    return next((row for row in group if row.method.endswith((" uniform", " er"))), group[0])


def interval_text(found: Mapping[str, Any] | None) -> str:
    """Return a difference and its interval for people."""
    if found is None:
        return ""
    if found["low"] is None:
        return f"{found['mean']:+.2f}"
    return f"{found['mean']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"

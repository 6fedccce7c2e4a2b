"""``pdac train-cl --compare``: finished runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from pdac_cli.commands.train_cl_report import MethodResult, SeedResult, by_method, difference_of, rendered, spread
from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.runs import read_results


@dataclass(frozen=True)
class Comparison:
    """Runs and methods, each beside the first that draws uniformly."""

    reference: str
    rows: list[MethodResult]
    differences: list[dict[str, Any]]

    def text(self) -> str:
        """Return the comparison for people."""
        table = Table(box=box.SIMPLE)
        for name in ("run", "seeds", "ACC", "FM", "ACC difference", "FM difference"):
            table.add_column(name, justify="left" if name == "run" else "right", overflow="fold")
        for row, found in zip(self.rows, self.differences, strict=True):
            fm = "" if row.fm is None else spread(row.fm)
            parts = [_interval(found.get(name)) for name in ("acc", "fm")]
            same = row.method == self.reference
            table.add_row(row.method, str(len(row.seeds)), spread(row.acc), fm, *(["", ""] if same else parts))
        return f"{rendered(table)}\ndifferences: minus {self.reference}, over shared seeds, 95 % intervals"


def compare(paths: Sequence[str]) -> Comparison:
    """Tabulate runs with paired differences over the seeds they share with the reference."""
    if not paths:
        raise UsageError("--compare is given without runs; expected their folders, such as runs/*")
    rows: list[MethodResult] = []
    for path in paths:
        found = read_results(Path(path))
        try:
            results = [SeedResult(**result) for result in found["results"]]
        except (KeyError, TypeError):
            raise DataError(f"{path}: its results are of another kind; expected those of pdac train-cl") from None
        name = Path(path).name
        rows += [replace(method, method=f"{name} {method.method}") for method in by_method(results)]
    plain = [row for row in rows if row.method.endswith((" uniform", " er"))]
    reference = (plain or rows)[0]
    return Comparison(reference.method, rows, [difference_of(row, reference) for row in rows])


def _interval(found: dict[str, Any] | None) -> str:
    if found is None:
        return ""
    if found["low"] is None:
        return f"{found['mean']:+.2f}"
    return f"{found['mean']:+.2f} [{found['low']:+.2f}, {found['high']:+.2f}]"

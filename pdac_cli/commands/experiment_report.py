"""An experiment's tables and figures, for people and for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from pdac_cli.commands.experiment_definition import Definition
from pdac_cli.commands.experiment_results import Cell, Point, Result, is_measured_anew
from pdac_cli.commands.train_cl_compare import interval_text
from pdac_cli.commands.train_cl_report import rendered, spread
from pdac_cli.files import plots
from pdac_cli.files.atomic import write_bytes
from pdac_cli.files.runs import write_json

_STEP = "step"
_WIDTH = 200  # a table that is cut says nothing


@dataclass(frozen=True)
class ExperimentSummary:
    """What an experiment came to."""

    output: str
    title: str
    reference: str | None
    runs: int
    left_out: list[str]  # data sets that are not there
    cells: list[Cell]

    def text(self) -> str:
        """Return the tables: one for each kind of measures."""
        groups: dict[tuple[str, ...], list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault(tuple(cell.values), []).append(cell)
        lines = [self.title, *(_table(cells) for cells in groups.values())]
        if any(cell.differences for cell in self.cells):
            lines.append(
                f"mean ± standard deviation over seeds; difference: minus {self.reference}, by paired seeds [95 %]"
            )
        for name in self.left_out:
            lines.append(f"note: {name} is left out: where it is was not said; add --data {name}=PATH")
        return "\n".join([*lines, f"results in {self.output}"])


def _table(cells: Sequence[Cell]) -> str:
    """Return cells of the same measures as a table; axes of a single value are said once, above it."""
    axes = list(dict.fromkeys(axis for cell in cells for axis in cell.axes))
    shown = [axis for axis in axes if len({cell.axes.get(axis) for cell in cells}) > 1]
    fixed = ", ".join(f"{axis} {cells[0].axes[axis]}" for axis in axes if axis not in shown)
    table = Table(box=box.SIMPLE)
    for name in ("data", *shown, "method", "seeds"):
        table.add_column(name, justify="right" if name == "seeds" else "left", no_wrap=True)
    differs = [name for name in cells[0].values if any(name in cell.differences for cell in cells)]
    for name in cells[0].values:
        table.add_column(name, justify="right", no_wrap=True)
        if name in differs:
            table.add_column("difference", justify="right", no_wrap=True)
    for cell in cells:
        row = [cell.data, *(cell.axes.get(axis, "") for axis in shown), cell.method, str(len(cell.seeds))]
        for name, values in cell.values.items():
            row.append(spread(values))
            if name in differs:
                row.append(interval_text(cell.differences.get(name) or None))
        table.add_row(*row)
    return "\n".join([*([fixed] if fixed else []), rendered(table, _WIDTH)])


def write_results(
    folder: Path, definition: Definition, results: Sequence[Result], summary: ExperimentSummary, points: Sequence[Point]
) -> None:
    """Write the runs, the table and the figures; what seconds were measured stands apart from what is reproducible."""
    lasting = [name for name in definition.measures if not is_measured_anew(name)]
    times = [name for name in _measured(results) if is_measured_anew(name)]
    _write_csv(folder / "results.csv", [result.row(lasting) for result in results])
    if times:
        _write_csv(folder / "times.csv", [result.row(times) for result in results])
    if points:
        _write_csv(folder / "log-likelihood.csv", points)
    _write_csv(folder / "table.csv", [cell.row() for cell in summary.cells])
    panels = [panel for plot in definition.plots for panel in _panels(plot, summary.cells, points)]
    if panels:
        plots.write_figure(folder / "figure", panels, min(3, len(panels)))
    content = {"title": definition.title, "reference": definition.reference, "left_out": summary.left_out}
    write_json(folder / "results.json", {**content, "cells": [asdict(cell) for cell in summary.cells]})  # last


def _panels(plot: Mapping[str, str], cells: Sequence[Cell], points: Sequence[Point]) -> list[plots.Panel]:
    """Return a panel for each data set, or whatever the plot divides by."""
    x, y, by, panel = plot["x"], plot["y"], plot.get("by", "method"), plot.get("panel", "data")
    rows = list(points) if x == _STEP else [cell.row() for cell in cells]
    rows = [row for row in rows if row.get(x) is not None and row.get(y) is not None]
    return [
        plots.curves(str(name), x, y, _curves([row for row in rows if row.get(panel) == name], x, y, by))
        for name in dict.fromkeys(row.get(panel) for row in rows)
    ]


def _curves(rows: Sequence[Mapping[str, Any]], x: str, y: str, by: str) -> dict[str, plots.Curve]:
    found = {}
    for name in dict.fromkeys(row.get(by) for row in rows):
        mine = [row for row in rows if row.get(by) == name]
        places = sorted({float(row[x]) for row in mine})
        values = [[float(row[y]) for row in mine if float(row[x]) == place] for place in places]
        spreads = [float(next((row.get(f"{y}_sd") or 0.0) for row in mine if float(row[x]) == p)) for p in places]
        means = [float(np.mean(listed)) for listed in values]
        low, high = ([m + sign * s for m, s in zip(means, spreads, strict=True)] for sign in (-1, 1))
        found[str(name) if by in ("method", "data") else f"{by} {name}"] = plots.Curve(places, means, low, high)
    return found


def _measured(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(name for result in results for name in result.measures))


def _write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    out = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_bytes(path, out.getvalue().encode(), force=True)

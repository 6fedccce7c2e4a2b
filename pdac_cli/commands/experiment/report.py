"""An experiment's tables and figures, for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pdac_cli.commands.experiment.definition import Definition
from pdac_cli.commands.experiment.head_tables import head_tables, markdown, rank_table
from pdac_cli.commands.experiment.ranks import MeanRanks
from pdac_cli.commands.experiment.results import Cell, Point, Result, is_measured_anew
from pdac_cli.commands.experiment.schema import LINEAR, STEP, TRIAL_HEADS
from pdac_cli.console import printable
from pdac_cli.files.results.runs import write_json
from pdac_cli.reports import plots, rank_plot
from pdac_cli.reports.table import Table, interval_text, spread
from pdac_cli.storage.atomic import write_bytes


@dataclass(frozen=True)
class ExperimentSummary:
    """The results of an experiment."""

    output: str
    title: str
    reference: str | None
    runs: int
    left_out: list[str]  # data sets that are not there
    cells: list[Cell]
    ranks: list[MeanRanks] = field(default_factory=list)  # of a head-to-head

    def text(self) -> str:
        """Return the tables: one for each kind of measures."""
        groups: dict[tuple[str, ...], list[Cell]] = {}
        trials = [cell for cell in self.cells if LINEAR in cell.values]
        for cell in self.cells:
            if cell in trials:
                continue
            groups.setdefault(tuple(cell.values), []).append(cell)
        lines = [printable(self.title), *(_table(cells) for cells in groups.values())]
        lines += [table.text(ruled=True) for table in head_tables(trials, self.reference)]
        if trials:
            lines.append(
                f"accuracy in %, mean of a logistic and a ridge head; other rules: minus {self.reference}, ± half of "
                "the 95 % interval over paired seeds; the other heads are in tables.md"
            )
        if self.ranks:
            lines.append(rank_table(self.ranks).text(ruled=True))
        if any(cell.differences for cell in self.cells if cell not in trials):
            lines.append(
                f"mean ± standard deviation over seeds; difference: minus {self.reference}, by paired seeds [95 %]"
            )
        for name in self.left_out:
            lines.append(f"note: {name} is left out: where it is was not said; add --data {name}=PATH")
        return "\n".join([*lines, f"results in {printable(self.output)}"])


def _table(cells: Sequence[Cell]) -> str:
    """Return cells of the same measures as a table; axes of a single value are said once, above it."""
    axes = list(dict.fromkeys(axis for cell in cells for axis in cell.axes))
    shown = [axis for axis in axes if len({cell.axes.get(axis) for cell in cells}) > 1]
    fixed = ", ".join(f"{axis} {cells[0].axes[axis]}" for axis in axes if axis not in shown)
    differs = [name for name in cells[0].values if any(name in cell.differences for cell in cells)]
    texts = ["data", *shown, "method"]
    columns = [*texts, "seeds"]
    for name in cells[0].values:
        columns += [name, "difference"] if name in differs else [name]
    rows = []
    for cell in cells:
        row: list[str | int] = [cell.data, *(cell.axes.get(axis, "") for axis in shown), cell.method, len(cell.seeds)]
        for name, values in cell.values.items():
            row.append(spread(values))
            if name in differs:
                row.append(interval_text(cell.differences.get(name)))
        rows.append(row)
    return Table.of(columns, rows, fixed, left=texts).text(ruled=True)


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
    if summary.ranks:
        found = [
            rank_plot.critical_difference(one.heads, one.mean_ranks, one.critical_difference) for one in summary.ranks
        ]
        plots.write_figure(folder / "ranks", found, 2)
    trials = [cell for cell in summary.cells if LINEAR in cell.values]
    if trials:
        write_bytes(folder / "tables.md", _head_document(trials, summary).encode(), force=True)
    content = {"title": definition.title, "reference": definition.reference, "left_out": summary.left_out}
    lists = {"ranks": [asdict(one) for one in summary.ranks], "cells": [asdict(cell) for cell in summary.cells]}
    write_json(folder / "results.json", {**content, **lists})  # last


def _head_document(trials: Sequence[Cell], summary: ExperimentSummary) -> str:
    """Return the tables of every head as Markdown."""
    parts = [f"# {printable(summary.title)}\n"]
    for head in TRIAL_HEADS:
        parts.append(f"## {head}\n\n{markdown(head_tables(trials, summary.reference, head))}")
    return "\n".join([*parts, *([markdown([rank_table(summary.ranks)])] if summary.ranks else [])])


def _panels(plot: Mapping[str, str], cells: Sequence[Cell], points: Sequence[Point]) -> list[plots.PlotPanel]:
    """Return a panel for each data set, or whatever the plot divides by."""
    x, y, by, panel = plot["x"], plot["y"], plot.get("by", "method"), plot.get("panel", "data")
    rows = list(points) if x == STEP else [cell.row() for cell in cells]
    rows = [row for row in rows if _is_number(row.get(x)) and _is_number(row.get(y))]
    return [
        plots.curves(str(name), x, y, _curves([row for row in rows if row.get(panel) == name], x, y, by))
        for name in dict.fromkeys(row.get(panel) for row in rows)
    ]


def _is_number(value: Any) -> bool:
    """Whether a value is a number, or a text of one; runs of other definitions may have "none" on an axis."""
    try:
        return value is not None and math.isfinite(float(value))
    except ValueError:
        return False


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
    write_bytes(path, Table.of_records(rows).csv().encode(), force=True)

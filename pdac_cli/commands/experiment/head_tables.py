"""The tables of a head-to-head: for each data set and corruption the rules beside the reference, and ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdac_cli.commands.experiment.ranks import MeanRanks
from pdac_cli.commands.experiment.results import Cell
from pdac_cli.commands.experiment.schema import LINEAR, ROWS
from pdac_cli.reports.table import Table

_RANKS = "mean rank over cells, 1 is best"


def head_tables(cells: Sequence[Cell], reference: str | None, measure: str = LINEAR) -> list[Table]:
    """Return a table for each data set and corruption: a head's accuracy of the reference, differences of others."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        fixed = [f"{axis} {value}" for axis, value in cell.axes.items() if axis != ROWS]
        groups.setdefault(", ".join([cell.data, *fixed]), []).append(cell)
    return [_table(title, mine, reference, measure) for title, mine in groups.items()]


def _table(title: str, cells: Sequence[Cell], reference: str | None, measure: str) -> Table:
    sizes = sorted({int(cell.axes[ROWS]) for cell in cells})
    rules = list(dict.fromkeys(cell.method for cell in cells))
    found = {(cell.method, int(cell.axes[ROWS])): cell for cell in cells if measure in cell.values}
    lines = []
    for rule in rules:
        mine = [found.get((rule, size)) for size in sizes]
        seeds = [len(cell.seeds) for cell in mine if cell is not None]
        lines.append([rule, max(seeds, default=0), *(_entry(cell, reference, measure) for cell in mine)])
    return Table.of(["rule", "seeds", *(f"{size} a class" for size in sizes)], lines, title, left=["rule"])


def _entry(cell: Cell | None, reference: str | None, measure: str) -> str:
    """Return the reference's accuracy, or the difference to it with half of its 95 % interval."""
    if cell is None:
        return ""
    if cell.method == reference or not cell.differences.get(measure):
        return f"{np.mean(cell.values[measure]):.1f}"
    found: Mapping[str, Any] = cell.differences[measure]
    half = "" if found["high"] is None else f" ± {found['high'] - found['mean']:.1f}"
    return f"{found['mean']:+.1f}{half}"


def rank_table(ranking: Sequence[MeanRanks]) -> Table:
    """Return the mean ranks under all heads and under each."""
    rules = list(dict.fromkeys(rule for one in ranking for rule in one.mean_ranks))
    columns = ["rule", *(one.heads for one in ranking)]
    lines: list[list[str]] = []
    for rule in rules:
        ranks = (one.mean_ranks.get(rule) for one in ranking)
        lines.append([rule, *("" if rank is None else f"{rank:.2f}" for rank in ranks)])
    lines.append(["critical difference", *(f"{one.critical_difference:.2f}" for one in ranking)])
    lines.append(["cells", *(str(one.cells) for one in ranking)])
    return Table.of(columns, lines, _RANKS, left=["rule"])


def markdown(tables: Sequence[Table]) -> str:
    """Return tables as Markdown."""
    out = []
    for table in tables:
        heads = [*(("**" + table.title + "**", "") if table.title else ())]
        rows = [table.columns, tuple(":---" if name in table.left else "---:" for name in table.columns), *table.rows]
        out += [*heads, *("| " + " | ".join("" if c is None else str(c) for c in row) + " |" for row in rows), ""]
    return "\n".join(out)

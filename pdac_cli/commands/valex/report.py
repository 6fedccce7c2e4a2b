"""The results of the validation experiment: tables, files and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.commands.valex.claims import HOLDS, ORDER, Bin, Claim, Trials, name_of
from pdac_cli.console import printable
from pdac_cli.files.results.runs import write_json
from pdac_cli.metrics import mean_interval
from pdac_cli.options.valex import Strategy
from pdac_cli.reports import plots
from pdac_cli.reports.table import Table
from pdac_cli.storage.atomic import write_bytes


@dataclass(frozen=True)
class Line:
    """One strategy at one buffer size; intervals are 95 % over trials."""

    size: int
    strategy: str
    trials: int
    mse: float
    mse_low: float
    mse_high: float
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    variance: float  # mse = variance + bias
    bias: float
    density: float  # mean p(z) of the buffer


@dataclass(frozen=True)
class ValexSummary:
    """The results of the experiment."""

    output: str
    trials: int
    bayes_accuracy: float
    lines: list[Line]
    bins: list[dict[str, float]]
    claims: list[dict[str, Any]]
    batch: int
    floor: float  # of the estimate's covariances
    start: str  # of its EM
    seconds: float

    def text(self) -> str:
        """Return the tables."""
        return "\n".join([
            f"C2: mean squared error to the Bayes posterior, accuracy; {self.trials} trials (± half a 95 % interval)",
            self._errors(),
            f"the Bayes classifier's accuracy is {100 * self.bayes_accuracy:.1f} %",
            "",
            "C2, claim by claim: difference of the error, paired by trial (± half a 95 % interval)",
            self._c2(),
            "",
            "C1: mean variance of the predictions in cells of rising p_i, five equal bins, under uniform drawing",
            self._c1(),
            "",
            "C1 in one and the same cell: change of its variance from uniform drawing to drawing by p",
            self._same(),
            "",
            *self.verdicts(),
            f"batches of {self.batch}, floor {self.floor:g}, {self.start} start: --grid tells what depends on these",
            f"results in {printable(self.output)} ({self.seconds:.0f} s)",
        ])  # fmt: skip

    def verdicts(self) -> list[str]:
        """Say of each claim at which N it holds, is reversed, or stays open."""
        out = []
        for name in dict.fromkeys(claim["claim"] for claim in self.claims):
            mine = [claim for claim in self.claims if claim["claim"] == name]
            parts = []
            for verdict in dict.fromkeys(claim["verdict"] for claim in mine):
                sizes = [f"{claim['size']:,}" for claim in mine if claim["verdict"] == verdict]
                parts.append(f"{verdict} at {'every N' if len(sizes) == len(mine) else 'N = ' + ', '.join(sizes)}")
            out.append(f"{name}: {'; '.join(parts)}")
        return out

    def _errors(self) -> str:
        strategies = list(dict.fromkeys(line.strategy for line in self.lines))
        rows = []
        for size in dict.fromkeys(line.size for line in self.lines):
            mine = {line.strategy: line for line in self.lines if line.size == size}
            rows.append([f"{size:,}", *(_error(mine[name]) if name in mine else "" for name in strategies)])
        return Table.of(["N", *map(shown, strategies)], rows, left=["N"]).text()

    def _c2(self) -> str:
        names = [name_of(first, second) for first, second in ORDER]
        return self._claims(names, [name.removeprefix("C2: ") for name in names])

    def _same(self) -> str:
        names = [name for name in dict.fromkeys(claim["claim"] for claim in self.claims) if "same cell" in name]
        return self._claims(names, ["where p_i is raised", "where p_i is lowered (minus the change)"])

    def _claims(self, names: Sequence[str], heads: Sequence[str]) -> str:
        found = {(claim["claim"], claim["size"]): claim for claim in self.claims}
        rows = []
        for size in dict.fromkeys(claim["size"] for claim in self.claims if claim["claim"] == names[0]):
            rows.append([f"{size:,}", *(difference_text(found[name, size]) for name in names)])
        return Table.of(["N", *heads], rows, left=["N"]).text()

    def _c1(self) -> str:
        rows = []
        ranks = {claim["size"]: claim for claim in self.claims if claim["claim"] == "C1: rank correlation"}
        for size, claim in ranks.items():
            means = {int(found["bin"]): found["mean"] for found in self.bins if found["size"] == size}
            cells = [f"{means[k]:.4f}" if k in means else "" for k in range(1, 6)]
            rows.append([f"{size:,}", *cells, difference_text(claim)])
        columns = ["N", *(f"bin {k}" for k in range(1, 6)), "rank correlation"]
        return Table.of(columns, rows, left=["N"]).text()


def lines_of(trials: Trials) -> list[Line]:
    """Return the table of C2, by buffer size and strategy."""
    found = []
    for strategy, size in sorted(trials, key=lambda key: (key[1], list(Strategy).index(key[0]))):
        mine = trials[strategy, size]
        mse, accuracy = mean_interval(mine.mse), mean_interval(mine.accuracy)
        found.append(
            Line(
                size, strategy.value, len(mine.mse), mse.mean, mse.low or 0.0, mse.high or 0.0, accuracy.mean,
                accuracy.low or 0.0, accuracy.high or 0.0, mine.variance, mine.bias, float(mine.density.mean()),
            )
        )  # fmt: skip
    return found


def write_files(summary: ValexSummary, trials: Trials, bins: Sequence[Bin], cells: Mapping[int, Array]) -> None:
    """Write the tables; `cells` are p_i (cells,) of uniform drawing and each size's variance."""
    folder = Path(summary.output)
    keys = [(strategy, size, k) for strategy, size in trials for k in range(len(trials[strategy, size].mse))]
    each = [
        {"size": size, "strategy": strategy.value, "trial": k, "mse": trials[strategy, size].mse[k],
         "accuracy": trials[strategy, size].accuracy[k], "density": trials[strategy, size].density[k]}
        for strategy, size, k in keys
    ]  # fmt: skip
    write_csv(folder / "c2.csv", [asdict(line) for line in summary.lines])
    write_csv(folder / "c2-trials.csv", each)
    write_csv(folder / "c1.csv", summary.bins)
    write_csv(folder / "claims.csv", summary.claims)
    write_csv(
        folder / "c1-cells.csv",
        [
            {"size": size, "cell": k, "p": float(p), "variance": float(v)}
            for size in cells
            if size > 0
            for k, (p, v) in enumerate(zip(cells[0], cells[size], strict=True))
        ],
    )
    _draw_c1(folder, bins)
    _draw_c2(folder, summary.lines)
    write_json(folder / "results.json", asdict(summary))  # last: where it is, all are


def bin_rows(bins: Iterable[Bin]) -> list[dict[str, float]]:
    """Return what box plots show, as numbers."""
    rows = []
    for b in bins:
        interval = mean_interval(b.groups)
        quartiles = dict(zip(("q1", "median", "q3"), np.quantile(b.values, [0.25, 0.5, 0.75]).tolist(), strict=True))
        rows.append({
            "size": b.size, "bin": b.number, "p_low": b.low, "p_high": b.high, "cells": len(b.values),
            "mean": interval.mean, "mean_low": interval.low or 0.0, "mean_high": interval.high or 0.0, **quartiles,
        })  # fmt: skip
    return rows


def claim_rows(claims: Iterable[Claim]) -> list[dict[str, Any]]:
    """Return claims with their verdicts."""
    return [{**asdict(claim), "verdict": claim.verdict} for claim in claims]


def _draw_c1(folder: Path, bins: Sequence[Bin]) -> None:
    panels = []
    for size in dict.fromkeys(b.size for b in bins):
        found = {f"{1e3 * b.low:.2f}–{1e3 * b.high:.2f}": b.values for b in bins if b.size == size}
        panels.append(plots.boxes(f"C1, N = {size:,}", "p_i in thousandths", "variance in a cell", found))
    plots.write_figure(folder / "c1", panels, 2)


def _draw_c2(folder: Path, lines: Sequence[Line]) -> None:
    def curve(strategy: str, name: str) -> plots.Curve:
        mine = [line for line in lines if line.strategy == strategy]
        x, y = [line.size for line in mine], [getattr(line, name) for line in mine]
        if name not in ("mse", "accuracy"):
            return plots.Curve(x, y)
        return plots.Curve(x, y, *([getattr(line, f"{name}_{end}") for line in mine] for end in ("low", "high")))

    strategies = list(dict.fromkeys(line.strategy for line in lines))
    sizes = list(dict.fromkeys(line.size for line in lines))
    panels = [
        plots.curves(title, "N", label, {shown(s): curve(s, name) for s in strategies}, log_x=True, log_y=log)
        for title, label, name, log in (
            ("C2: error", "MSE to the Bayes posterior", "mse", True),
            ("accuracy", "accuracy", "accuracy", False),
            ("variance part of the error", "variance over trials", "variance", True),
            ("bias part of the error", "squared bias of the mean prediction", "bias", True),
        )
    ]
    by = {(line.strategy, line.size): line.density for line in lines}
    heights = {shown(s): [by.get((s, size), 0.0) for size in sizes] for s in strategies}
    panels.append(plots.bars("density of the buffer", "N", "mean p(z)", [f"{size:,}" for size in sizes], heights))
    plots.write_figure(folder / "c2", panels, 3)


def shown(strategy: str) -> str:
    """Return what a strategy is called in tables."""
    return strategy if strategy == Strategy.UNIFORM else f"∝ {strategy}"


def _error(line: Line) -> str:
    half = (line.mse_high - line.mse_low) / 2
    return f"{line.mse:.4f} ± {half:.4f}, {100 * line.accuracy:.1f} %"


def difference_text(claim: Mapping[str, Any]) -> str:
    """Return whether a claim holds, and its difference, for people."""
    half = (claim["high"] - claim["low"]) / 2
    mark = "yes" if claim["verdict"] == HOLDS else "no" if claim["low"] > 0 else "open"
    return f"{mark}, {claim['mean']:+.4f} ± {half:.4f}"


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table."""
    write_bytes(path, Table.of_records(rows).csv().encode(), force=True)

"""How many rows are enough: accuracy over the number of rows kept, on the beginnings of one selection by each rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from functools import cache

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.commands.compare.opened import OpenComparison, budgets_of
from pdac_cli.console import printable
from pdac_cli.pipeline.heads.beginnings import RankedRows, smallest_reaching
from pdac_cli.reports import plots
from pdac_cli.reports.table import Table
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.storage.atomic import write_bytes

_MOST_ROWS = 50_000  # that the head on all rows is trained on


@dataclass(frozen=True)
class CurvePoint:
    """A rule with so many rows a class: the accuracy of a head, means over its runs."""

    method: str
    allocation: str
    per_class: int
    budget: int
    runs: int
    accuracy: float
    accuracy_std: float | None  # None for a single run


@dataclass(frozen=True)
class Enough:
    """The smallest budget at which a rule comes to the goal; None where none that was tried does."""

    method: str
    per_class: int | None
    budget: int | None


@dataclass(frozen=True)
class CurveSummary:
    """Accuracy over budget."""

    rows: int
    n_features: int
    n_classes: int
    test_rows: int
    classifier: str
    whole_accuracy: float  # of the head on all rows
    whole_rows: int  # it was trained on
    reach: float  # the share of it that is to be reached
    points: list[CurvePoint]
    enough: list[Enough]
    notes: list[str]
    output: str | None
    plot: str | None
    warnings: list[str]

    def text(self) -> str:
        """Return a line for each rule: accuracy by rows a class, and how many are enough."""
        sizes = sorted({point.per_class for point in self.points})
        goal = f"rows a class for {self.reach:.0%}"
        lines = []
        for one in self.enough:
            mine = {point.per_class: point for point in self.points if point.method == one.method}
            found = "more" if one.per_class is None else f"{one.per_class:,}"
            lines.append([one.method, *(_accuracy(mine[size]) for size in sizes), found])
        head = f"{self.rows:,} rows x {self.n_features:,}, {self.n_classes:,} classes; "
        head += f"{self.classifier} head on {self.whole_rows:,} rows: {100 * self.whole_accuracy:.1f} %"
        table = Table.of(["method", *(f"{size:,} a class" for size in sizes), goal], lines, left=["method"])
        return "\n".join([head, table.text(), *(printable(f"note: {note}") for note in self.notes)])

    def csv(self) -> str:
        """Return the points as comma-separated values."""
        return Table.of([field.name for field in fields(CurvePoint)], map(astuple, self.points)).csv()


def run_curve(opened: OpenComparison) -> CurveSummary:
    """Select once by every rule and seed, and train a head on each beginning."""
    options, classes = opened.options, opened.classes
    budgets = budgets_of(options, classes)
    notes = list(opened.notes)
    left_out = sorted(n for n in options.per_class if n * len(classes.labels) not in budgets)
    if left_out:
        notes.append(f"{', '.join(map(str, left_out))} a class: more rows than there are")
    every = _sample(opened)
    (whole,) = opened.rows.accuracies(options.classifier, [every])
    points: list[CurvePoint] = []
    enough: list[Enough] = []
    for name, method in opened.methods.items():
        runs = options.seeds if method.random else 1
        ranked = [opened.ranked(name, max(budgets), seed) for seed in range(options.seed, options.seed + runs)]
        found = opened.rows.accuracies(
            options.classifier, [one.ids[one.beginning(budget)] for one in ranked for budget in budgets]
        )
        table = np.array(found).reshape(runs, len(budgets))
        points += [_point(opened, name, budget, table[:, k]) for k, budget in enumerate(budgets)]
        enough.append(_enough(opened, name, ranked, dict(zip(budgets, table.mean(axis=0), strict=True)), whole))
    others = [name for name, method in opened.methods.items() if not method.nested]
    if others:
        notes.append(f"beginnings of one list; asked for fewer rows these may answer others: {', '.join(others)}")
    summary = CurveSummary(
        classes.total,
        opened.source.n_features,
        len(classes.labels),
        opened.test_rows or 0,
        options.classifier.value,
        whole,
        len(every),
        options.reach,
        points,
        enough,
        notes,
        str(options.output) if options.output else None,
        str(options.plot) if options.plot else None,
        opened.console.warnings,
    )
    if options.output is not None:
        write_bytes(options.output, summary.csv().encode(), options.run.force)
    if options.plot is not None:
        plots.write_plot(options.plot, _panel(summary), options.run.force)
    return summary


def _sample(opened: OpenComparison) -> Array:
    """Return the ids of all rows, or of as many as the head on all rows is trained on."""
    ids = opened.rows.pool.ids
    if len(ids) <= _MOST_ROWS:
        return ids
    noise = row_uniforms(opened.options.seed, Purpose.HEAD, ids)
    return np.sort(ids[np.argsort(noise, kind="stable")[:_MOST_ROWS]])


def _point(opened: OpenComparison, name: str, budget: int, values: Array) -> CurvePoint:
    allocation = opened.options.allocation or opened.methods[name].allocation
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    each = budget // len(opened.classes.labels)
    return CurvePoint(name, allocation.value, each, budget, len(values), float(np.mean(values)), spread)


def _enough(
    opened: OpenComparison, name: str, ranked: list[RankedRows], tried: dict[int, float], whole: float
) -> Enough:
    """Find the smallest number of rows a class that comes to the goal, with a few heads more."""
    classes = len(opened.classes.labels)
    accuracy = cache(_mean_accuracy(opened, ranked, classes))
    each = {budget // classes: share for budget, share in tried.items()}
    found = smallest_reaching(opened.options.reach * whole, each, accuracy)
    return Enough(name, found, None if found is None else found * classes)


def _mean_accuracy(opened: OpenComparison, ranked: list[RankedRows], classes: int) -> Callable[[int], float]:
    def accuracy(each: int) -> float:
        selections = [one.ids[one.beginning(each * classes)] for one in ranked]
        return float(np.mean(opened.rows.accuracies(opened.options.classifier, selections)))

    return accuracy


def _panel(summary: CurveSummary) -> plots.PlotPanel:
    """Return the curves, standard deviations as bands, beside the goal."""
    found = {}
    for one in summary.enough:
        mine = [point for point in summary.points if point.method == one.method]
        spreads = [point.accuracy_std or 0.0 for point in mine]
        y = [100 * point.accuracy for point in mine]
        low, high = ([a + sign * 100 * s for a, s in zip(y, spreads, strict=True)] for sign in (-1, 1))
        found[one.method] = plots.Curve([point.per_class for point in mine], y, low, high)
    ends = [min(point.per_class for point in summary.points), max(point.per_class for point in summary.points)]
    for name, share in (("all rows", 1.0), (f"{summary.reach:.0%} of it", summary.reach)):
        found[name] = plots.Curve(ends, [100 * share * summary.whole_accuracy] * 2)
    title = f"{summary.classifier} head, {summary.n_classes:,} classes"
    return plots.curves(title, "rows kept of a class", "accuracy %", found, log_x=True)


def _accuracy(point: CurvePoint) -> str:
    spread = "" if point.accuracy_std is None else f" ± {100 * point.accuracy_std:.1f}"
    return f"{100 * point.accuracy:.1f}{spread:6}"

"""``pdac compare``: every selection method on one feature file, measured alike."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

import numpy as np

from pdac_cli.commands.compare.curve import CurveSummary, run_curve
from pdac_cli.commands.compare.opened import OpenComparison, open_comparison
from pdac_cli.console import Console, printable
from pdac_cli.errors import UsageError
from pdac_cli.options.compare import CompareOptions
from pdac_cli.reports.table import Table
from pdac_cli.storage.atomic import write_bytes


@dataclass(frozen=True)
class MethodLine:
    """A method at a budget: means over its runs, and the standard deviations of what varies most."""

    method: str
    budget: int
    allocation: str
    runs: int
    seconds: float
    coverage: float
    mean_log_density: float
    radius: float
    mean_distance: float
    suspects: float
    accuracy: float | None
    accuracy_std: float | None  # None for a single run


@dataclass(frozen=True)
class CompareSummary:
    """How the methods compare."""

    rows: int
    n_features: int
    n_classes: int
    test_rows: int | None
    lines: list[MethodLine]
    notes: list[str]
    output: str | None
    warnings: list[str]

    def text(self) -> str:
        """Return the table."""
        head = f"{self.rows:,} rows x {self.n_features:,}, {self.n_classes:,} classes"
        tested = self.test_rows is not None
        columns = ["method", "budget", "runs", "seconds", "classes", "log-density", "radius", "mean off", "suspect"]
        columns += ["accuracy %"] if tested else []
        rows = []
        for line in self.lines:
            rows.append([line.method, f"{line.budget:,}", f"{line.runs}", f"{line.seconds:.2f}"])
            rows[-1] += [f"{line.coverage:.0%}", f"{line.mean_log_density:.2f}", f"{line.radius:.4g}"]
            rows[-1] += [f"{line.mean_distance:.3f}", f"{line.suspects:.0%}"]
            if line.accuracy is not None:
                spread = "" if line.accuracy_std is None else f" ± {100 * line.accuracy_std:.1f}"
                rows[-1] += [f"{100 * line.accuracy:.1f}{spread:6}"]
        notes = [printable(f"note: {note}") for note in self.notes]
        return "\n".join([head, Table.of(columns, rows, left=["method"]).text(), *notes])

    def csv(self) -> str:
        """Return the lines as comma-separated values."""
        return Table.of([field.name for field in fields(MethodLine)], map(astuple, self.lines)).csv()


def run(options: CompareOptions) -> CompareSummary | CurveSummary:
    """Select by every method, budget and seed, and measure each selection."""
    console = Console.of(options.run)
    if options.output is not None and options.output.suffix != ".csv":
        raise UsageError(f"{options.output}: expected a name ending in .csv")
    if options.curve:
        with open_comparison(options, console) as opened:
            return run_curve(opened)
    with open_comparison(options, console) as opened:
        lines = [_line(opened, name, budget) for budget in options.budgets for name in opened.methods]
    rows, n_features, classes = opened.classes.total, opened.source.n_features, len(opened.classes.labels)
    out = str(options.output) if options.output else None
    summary = CompareSummary(rows, n_features, classes, opened.test_rows, lines, opened.notes, out, console.warnings)
    if options.output is not None:
        write_bytes(options.output, summary.csv().encode(), options.run.force)
    return summary


def _line(opened: OpenComparison, name: str, budget: int) -> MethodLine:
    """Run a method with every seed, once if it has no use for one."""
    options, method = opened.options, opened.methods[name]
    runs = options.seeds if method.random else 1
    both = [opened.measure(name, budget, seed) for seed in range(options.seed, options.seed + runs)]
    found = [measures for _, measures in both]
    accuracies = [m.accuracy for m in found if m.accuracy is not None]
    return MethodLine(
        name,
        budget,
        (options.allocation or method.allocation).value,
        runs,
        float(np.mean([seconds for seconds, _ in both])),
        float(np.mean([m.coverage for m in found])),
        float(np.mean([m.mean_log_density for m in found])),
        float(np.mean([m.radius for m in found])),
        float(np.mean([m.mean_distance for m in found])),
        float(np.mean([m.suspects for m in found])),
        float(np.mean(accuracies)) if accuracies else None,
        float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else None,
    )

"""``pdac compare``: every selection method on one feature file, measured alike."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields, replace

import numpy as np

from pdac_cli.commands.choose import NamedSource, choose
from pdac_cli.commands.head import head_source
from pdac_cli.commands.input import open_input, tell_left_out
from pdac_cli.commands.measure import Measures, Yardstick, yardstick
from pdac_cli.commands.offering import has_logits
from pdac_cli.console import Console, table
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.source import Classes, count_classes, make_plan
from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.atomic import check_output, write_bytes
from pdac_cli.files.features import FeatureSet
from pdac_cli.options.compare import CompareOptions
from pdac_cli.options.select import Allocation, SelectOptions
from pdac_cli.selection.methods import METHODS, Size, method_named


@dataclass(frozen=True)
class Line:
    """A method at a budget: means over its runs, and the standard deviations of what varies most."""

    method: str
    budget: int
    allocation: str
    runs: int
    seconds: float
    coverage: float
    mean_log_density: float
    radius: float
    accuracy: float | None
    accuracy_std: float | None  # None for a single run


@dataclass(frozen=True)
class CompareSummary:
    """How the methods compare."""

    rows: int
    dim: int
    classes: int
    test_rows: int | None
    lines: list[Line]
    notes: list[str]
    output: str | None
    warnings: list[str]

    def text(self) -> str:
        """Return the table."""
        head = f"{self.rows:,} rows x {self.dim:,}, {self.classes:,} classes"
        tested = self.test_rows is not None
        cells = [["method", "budget", "runs", "seconds", "classes", "log-density", "radius"]]
        cells[0] += ["accuracy %"] if tested else []
        for line in self.lines:
            cells.append([line.method, f"{line.budget:,}", f"{line.runs}", f"{line.seconds:.2f}"])
            cells[-1] += [f"{line.coverage:.0%}", f"{line.mean_log_density:.2f}", f"{line.radius:.4g}"]
            if line.accuracy is not None:
                spread = "" if line.accuracy_std is None else f" ± {100 * line.accuracy_std:.1f}"
                cells[-1] += [f"{100 * line.accuracy:.1f}{spread:6}"]
        return "\n".join([head, table(cells), *(f"note: {note}" for note in self.notes)])

    def csv(self) -> str:
        """Return the lines as comma-separated values."""
        out = io.StringIO()
        writer = csv.DictWriter(out, [field.name for field in fields(Line)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(line) for line in self.lines)
        return out.getvalue()


@dataclass(frozen=True)
class Bench:
    """A feature file opened, with what its selections are measured by."""

    source: NamedSource
    classes: Classes
    measures: Yardstick
    test_rows: int | None
    options: CompareOptions
    console: Console
    names: list[str]  # methods to run
    notes: list[str]

    def measure(self, name: str, budget: int, seed: int) -> tuple[float, Measures]:
        """Select by a method once; return the seconds it took and what the selection is worth."""
        start = time.perf_counter()
        options = _selection(self.options, name, budget, seed)
        chosen = choose(self.source, None, options, _Silent(quiet=self.console.quiet))
        seconds = time.perf_counter() - start
        found = self.measures.measure(chosen.answer.ranking.ids)
        self.console.detail(f"{name} {budget} seed {seed}: {seconds:.2f} s, {found}")
        return seconds, found


def run(options: CompareOptions) -> CompareSummary:
    """Select by every method, budget and seed, and measure each selection."""
    console = Console.of(options.run)
    if options.output is not None and options.output.suffix != ".csv":
        raise UsageError(f"{options.output}: expected a name ending in .csv")
    with bench(options, console) as opened:
        lines = [_line(opened, name, budget) for budget in options.budgets for name in opened.names]
    rows, dim, classes = int(opened.classes.counts.sum()), opened.source.dim, len(opened.classes.labels)
    out = str(options.output) if options.output else None
    summary = CompareSummary(rows, dim, classes, opened.test_rows, lines, opened.notes, out, console.warnings)
    if options.output is not None:
        write_bytes(options.output, summary.csv().encode(), options.run.force)
    return summary


@contextmanager
def bench(options: CompareOptions, console: Console) -> Iterator[Bench]:
    """Open the feature file and the one to test on, and prepare what selections are measured by."""
    for name in options.methods:
        method_named(name)
    with ExitStack() as stack:
        source = stack.enter_context(open_input(options.input, console))
        test = _open_test(stack, source, options, console)
        if options.output is not None:
            inputs = [*source.paths, *(test.paths if test else ())]
            check_output(options.output, inputs, options.run.force)
        plan = make_plan(source, options.input, options.run)
        # Half of the memory is for the rows that selections are measured by, half for the methods.
        options = replace(options, run=replace(options.run, memory=plan.memory // 2, jobs=plan.jobs))
        classes = count_classes(source, plan, options.input)
        too_many = [budget for budget in options.budgets if budget > classes.counts.sum()]
        if too_many:
            raise UsageError(
                f"--budget has {too_many[0]:,} and there are {classes.counts.sum():,} usable rows; lower it"
            )
        notes: list[str] = []
        offered: NamedSource = source
        if not has_logits(source) and options.head:
            start = time.perf_counter()
            offered = head_source(source, classes, plan, options.seed, console)
            notes.append(
                "logits are those of a linear head trained on these rows (--head), "
                f"{time.perf_counter() - start:.1f} s, not in the seconds of the methods"
            )
        names = _names(offered, classes, options, notes)
        fitted = _selection(options, "pdac", 1, options.seed)
        measures = stack.enter_context(yardstick(source, classes, test, fitted, console))
        yield Bench(offered, classes, measures, test.n if test else None, options, console, names, notes)
        tell_left_out(source, options.input, console)
        source.check_unchanged()


def _line(opened: Bench, name: str, budget: int) -> Line:
    """Run a method with every seed, once if it has no use for one."""
    options = opened.options
    runs = options.seeds if METHODS[name].random else 1
    both = [opened.measure(name, budget, seed) for seed in range(options.seed, options.seed + runs)]
    found = [measures for _, measures in both]
    accuracies = [m.accuracy for m in found if m.accuracy is not None]
    return Line(
        name,
        budget,
        (options.allocation or METHODS[name].allocation).value,
        runs,
        float(np.mean([seconds for seconds, _ in both])),
        float(np.mean([m.coverage for m in found])),
        float(np.mean([m.mean_log_density for m in found])),
        float(np.mean([m.radius for m in found])),
        float(np.mean(accuracies)) if accuracies else None,
        float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else None,
    )


class _Silent(Console):
    """Shows the progress of a run and keeps its warnings to itself: they would bury the table."""

    def note(self, text: str) -> None:
        """Say nothing."""

    def warn(self, text: str) -> None:
        """Keep it."""
        self.warnings.append(text)


def _names(source: NamedSource, classes: Classes, options: CompareOptions, notes: list[str]) -> list[str]:
    """Return the methods to run, and note which are left out, and which will take long."""
    rate, names = _multiplications_a_second(), []
    rows, columns = int(classes.counts.sum()), len(classes.labels)
    for name in options.methods or METHODS:
        method, named = METHODS[name], bool(options.methods)
        if method.needs_logits and not has_logits(source):
            if named:
                raise DataError(
                    f"{source.files[0]}: has no logits and {name} needs them; expected 'logits' (n, K) beside the "
                    "features; add --head to train a linear head on the features first"
                )
            notes.append(f"{name} is left out: it needs logits, which the file has not; add --head")
            continue
        joint = (options.allocation or method.allocation) is Allocation.JOINT
        size = Size(rows, source.dim, columns, 1 if joint else columns, max(options.budgets))
        seconds = method.work(size) / rate
        if seconds > options.limit and not named:
            notes.append(
                f"{name} is left out: about {seconds:,.0f} s a run, above --limit {options.limit:g}; "
                f"name it in --methods to run it"
            )
            continue
        if seconds > options.limit:
            notes.append(f"{name} is costly: about {seconds:,.0f} s a run were expected")
        names.append(name)
    return names


def _multiplications_a_second() -> float:
    """Return how many float32 multiplications of a matrix product one core does in a second."""
    a = np.ones((512, 512), np.float32)
    with one_blas_thread():
        a @ a
        start = time.perf_counter()
        for _ in range(4):
            a @ a
        return float(4 * 512**3 / (time.perf_counter() - start))


def _selection(options: CompareOptions, name: str, budget: int, seed: int) -> SelectOptions:
    return SelectOptions(
        options.input,
        budget,
        method=name,
        allocation=options.allocation,
        temperature=options.temperature,
        density=options.density,
        run=options.run,
        seed=seed,
        head=options.head,
    )


def _open_test(stack: ExitStack, source: FeatureSet, options: CompareOptions, console: Console) -> FeatureSet | None:
    if options.test is None:
        return None
    test = stack.enter_context(open_input(replace(options.input, paths=(options.test,)), console))
    if test.dim != source.dim:
        raise DataError(
            f"{options.test}: has {test.dim:,} features, {source.files[0]} has {source.dim:,}; "
            "expected as many; extract both with the same network"
        )
    if test.label_names != source.label_names:
        raise DataError(f"{options.test}: its label names differ from those of {source.files[0]}; expected the same")
    return test

"""``pdac compare``: every selection method on one feature file, measured alike."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, fields, replace

import numpy as np

from pdac_cli.arrays import Source
from pdac_cli.console import Console, printable
from pdac_cli.engine.plan import Classes, Plan, count_classes, make_plan
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.features import FeatureSet
from pdac_cli.options.compare import CompareOptions
from pdac_cli.options.select import Allocation, SelectOptions
from pdac_cli.pipeline.evaluation import Evaluator, Measures, evaluator
from pdac_cli.pipeline.fitting import DensitySetup, device_of
from pdac_cli.pipeline.row_access import open_input, report_unused_rows
from pdac_cli.pipeline.selecting import check_classes, choose
from pdac_cli.pipeline.trained_head import train_on_source
from pdac_cli.reports.table import Table
from pdac_cli.selection.interface import Method, ProblemSize
from pdac_cli.selection.methods import METHODS, method_named
from pdac_cli.storage.atomic import check_output, write_bytes


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
        columns = ["method", "budget", "runs", "seconds", "classes", "log-density", "radius"]
        columns += ["accuracy %"] if tested else []
        rows = []
        for line in self.lines:
            rows.append([line.method, f"{line.budget:,}", f"{line.runs}", f"{line.seconds:.2f}"])
            rows[-1] += [f"{line.coverage:.0%}", f"{line.mean_log_density:.2f}", f"{line.radius:.4g}"]
            if line.accuracy is not None:
                spread = "" if line.accuracy_std is None else f" ± {100 * line.accuracy_std:.1f}"
                rows[-1] += [f"{100 * line.accuracy:.1f}{spread:6}"]
        notes = [printable(f"note: {note}") for note in self.notes]
        return "\n".join([head, Table.of(columns, rows, left=["method"]).text(), *notes])

    def csv(self) -> str:
        """Return the lines as comma-separated values."""
        return Table.of([field.name for field in fields(MethodLine)], map(astuple, self.lines)).csv()


@dataclass(frozen=True)
class OpenComparison:
    """A feature file opened, with what its selections are measured by."""

    source: Source
    classes: Classes
    plan: Plan
    evaluator: Evaluator
    test_rows: int | None
    options: CompareOptions
    console: Console
    methods: dict[str, Method]  # to run
    notes: list[str]

    def measure(self, name: str, budget: int, seed: int) -> tuple[float, Measures]:
        """Select by a method once; return the seconds it took and what the selection is worth."""
        start = time.perf_counter()
        options = _selection(self.options, name, budget, seed)
        console = _Silent(quiet=self.console.quiet)
        chosen = choose(self.source, None, options, self.methods[name], self.plan, console)
        seconds = time.perf_counter() - start
        found = self.evaluator.measure(chosen.answer.ranking.ids)
        self.console.detail(f"{name} {budget} seed {seed}: {seconds:.2f} s, {found}")
        return seconds, found


def run(options: CompareOptions) -> CompareSummary:
    """Select by every method, budget and seed, and measure each selection."""
    console = Console.of(options.run)
    if options.output is not None and options.output.suffix != ".csv":
        raise UsageError(f"{options.output}: expected a name ending in .csv")
    with open_comparison(options, console) as opened:
        lines = [_line(opened, name, budget) for budget in options.budgets for name in opened.methods]
    rows, n_features, classes = opened.classes.total, opened.source.n_features, len(opened.classes.labels)
    out = str(options.output) if options.output else None
    summary = CompareSummary(rows, n_features, classes, opened.test_rows, lines, opened.notes, out, console.warnings)
    if options.output is not None:
        write_bytes(options.output, summary.csv().encode(), options.run.force)
    return summary


@contextmanager
def open_comparison(options: CompareOptions, console: Console) -> Iterator[OpenComparison]:
    """Open the feature file and the one to test on, and prepare what selections are measured by."""
    named = {name: method_named(name) for name in options.methods}
    with ExitStack() as stack:
        source = stack.enter_context(open_input(options.input, console, options.run.memory))
        test = _open_test(stack, source, options, console)
        if options.output is not None:
            inputs = [*source.paths, *(test.paths if test else ())]
            check_output(options.output, inputs, options.run.force)
        whole = make_plan(options.input, options.run)
        # Half of the memory is for the rows that selections are measured by, half for the methods.
        plan = replace(whole, memory=whole.memory // 2)
        classes = count_classes(source, plan, options.input)
        too_many = [budget for budget in options.budgets if budget > classes.total]
        if too_many:
            raise UsageError(f"--budget has {too_many[0]:,} and there are {classes.total:,} usable rows; lower it")
        notes: list[str] = []
        with_logits: Source = source
        if not source.has_logits and options.head:
            start = time.perf_counter()
            with_logits = train_on_source(source, classes, whole, options.seed, console)
            notes.append(
                "logits are those of a linear head trained on these rows (--head), "
                f"{time.perf_counter() - start:.1f} s, not in the seconds of the methods"
            )
        methods = _methods(with_logits, classes, named, options, notes)
        density = DensitySetup(options.density, options.seed, device_of(options.run))
        measures = stack.enter_context(evaluator(source, classes, test, density, plan, console))
        test_rows = test.n if test else None
        yield OpenComparison(with_logits, classes, plan, measures, test_rows, options, console, methods, notes)
        report_unused_rows(source, options.input, console)
        source.check_unchanged()


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


def _methods(
    source: Source, classes: Classes, named: dict[str, Method], options: CompareOptions, notes: list[str]
) -> dict[str, Method]:
    """Return the methods to run, and note which are left out, and which will take long."""
    rate, methods = multiplications_a_second(), dict[str, Method]()
    columns = len(classes.labels)
    for name, method in (named or METHODS).items():
        if method.needs_classes and options.input.no_labels:
            check_classes(name, method, bool(named))
            continue
        if method.needs_logits and not source.has_logits:
            if named:
                raise DataError(
                    f"{source.files[0]}: has no logits and {name} needs them; expected 'logits' (n, K) beside the "
                    "features; add --head to train a linear head on the features first"
                )
            notes.append(f"{name} is left out: it needs logits, which the file has not; add --head")
            continue
        joint = (options.allocation or method.allocation) is Allocation.JOINT
        size = ProblemSize(classes.total, source.n_features, columns, 1 if joint else columns, max(options.budgets))
        seconds = method.work(size) / rate
        if seconds > options.limit and not named:
            notes.append(
                f"{name} is left out: about {seconds:,.0f} s a run, above --limit {options.limit:g}; "
                f"name it in --methods to run it"
            )
            continue
        if seconds > options.limit:
            notes.append(f"{name} is costly: about {seconds:,.0f} s a run were expected")
        methods[name] = method
    return methods


def multiplications_a_second() -> float:
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
        input=options.input,
        budget=budget,
        method=name,
        allocation=options.allocation,
        temperature=options.temperature,
        draw=options.draw,
        own=options.own,
        density=options.density,
        run=options.run,
        seed=seed,
        head=options.head,
    )


def _open_test(stack: ExitStack, source: FeatureSet, options: CompareOptions, console: Console) -> FeatureSet | None:
    if options.test is None:
        return None
    test = stack.enter_context(open_input(replace(options.input, paths=(options.test,)), console, options.run.memory))
    if test.n_features != source.n_features:
        raise DataError(
            f"{options.test}: has {test.n_features:,} features, {source.files[0]} has {source.n_features:,}; "
            "expected as many; extract both with the same network"
        )
    if test.label_names != source.label_names:
        raise DataError(f"{options.test}: its label names differ from those of {source.files[0]}; expected the same")
    return test

"""A feature file opened for comparing, with what its selections are measured by, and the methods that can be run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pdac_cli.arrays import Source
from pdac_cli.console import Console
from pdac_cli.engine.plan import Classes, Plan, count_classes, make_plan
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.features import FeatureSet
from pdac_cli.metrics import check_test_classes
from pdac_cli.options.compare import CompareOptions
from pdac_cli.options.select import Allocation, SelectOptions
from pdac_cli.pipeline.evaluation import AllRows, Evaluator, Measures, all_rows, evaluator
from pdac_cli.pipeline.fitting import DensitySetup, device_of
from pdac_cli.pipeline.heads.beginnings import RankedRows
from pdac_cli.pipeline.logit_check import warn_of_chance
from pdac_cli.pipeline.row_access import SourceRows, logit_columns, open_input, report_unused_rows
from pdac_cli.pipeline.selecting import check_classes, choose
from pdac_cli.pipeline.trained_head import train_on_source
from pdac_cli.selection.interface import Method, ProblemSize
from pdac_cli.selection.methods import METHODS, method_named
from pdac_cli.storage.atomic import check_output


@dataclass(frozen=True)
class OpenComparison:
    """A feature file opened, with what its selections are measured by."""

    source: Source
    classes: Classes
    plan: Plan
    rows: AllRows
    again: SourceRows  # the same, class by class
    test_rows: int | None
    options: CompareOptions
    console: Console
    methods: dict[str, Method]  # to run
    notes: list[str]

    @cached_property
    def evaluator(self) -> Evaluator:
        """What is known of all rows."""
        options = self.options
        return evaluator(self.rows, self.again, DensitySetup(options.density, options.seed, device_of(options.run)))

    def measure(self, name: str, budget: int, seed: int) -> tuple[float, Measures]:
        """Select by a method once; return the seconds it took and what the selection is worth."""
        known = self.evaluator  # not in the method's seconds
        start = time.perf_counter()
        ranked = self.ranked(name, budget, seed)
        seconds = time.perf_counter() - start
        found = known.measure(ranked.ids)
        self.console.detail(f"{name} {budget} seed {seed}: {seconds:.2f} s, {found}")
        return seconds, found

    def ranked(self, name: str, budget: int, seed: int) -> RankedRows:
        """Select by a method once; return the rows, best first."""
        options, method = _selection(self.options, name, budget, seed), self.methods[name]
        chosen = choose(self.source, None, options, method, self.plan, _Silent(quiet=self.console.quiet))
        ranking = chosen.answer.ranking
        return RankedRows(ranking.ids, ranking.codes, self.classes.counts, options.allocation or method.allocation)


@contextmanager
def open_comparison(options: CompareOptions, console: Console) -> Iterator[OpenComparison]:
    """Open the feature file and the one to test on, and prepare what selections are measured by."""
    named = {name: method_named(name) for name in options.methods}
    with ExitStack() as stack:
        source = stack.enter_context(open_input(options.input, console, options.run.memory))
        test = _open_test(stack, source, options, console)
        for output in filter(None, (options.output, options.plot)):
            check_output(output, [*source.paths, *(test.paths if test else ())], options.run.force)
        whole = make_plan(options.input, options.run)
        # Half of the memory is for the rows that selections are measured by, half for the methods.
        plan = replace(whole, memory=whole.memory // 2)
        classes = count_classes(source, plan, options.input)
        test_rows = None if test is None else _check_test(test, classes, plan, options, console)
        budgets = budgets_of(options, classes)
        too_many = [budget for budget in budgets if budget > classes.total]
        if too_many:
            raise UsageError(f"--budget has {too_many[0]:,} and there are {classes.total:,} usable rows; lower it")
        notes: list[str] = []
        with_logits: Source = source
        if options.head:
            start = time.perf_counter()
            with_logits = train_on_source(source, classes, whole, options.seed, console)
            notes.append(
                "logits are those of a linear head trained on these rows (--head), "
                f"{time.perf_counter() - start:.1f} s, not in the seconds of the methods"
            )
        methods = _methods(with_logits, classes, named, options, max(budgets), notes)
        if any(method.needs_logits for method in methods.values()):
            logit_columns(with_logits, classes, plan)  # refused now or later
            warn_of_chance(with_logits, classes.labels, console)
        every, again = stack.enter_context(all_rows(source, classes, test, plan, console))
        yield OpenComparison(with_logits, classes, plan, every, again, test_rows, options, console, methods, notes)
        report_unused_rows(source, options.input, console)
        source.check_unchanged()


def budgets_of(options: CompareOptions, classes: Classes) -> tuple[int, ...]:
    """Return how many rows are kept; of a curve, those that no class is too small for, and the next."""
    if not options.curve:
        return options.budgets
    sizes = sorted(options.per_class)
    enough = [n for n in sizes if n * len(classes.labels) <= classes.total]
    if not enough:
        raise UsageError(
            f"--per-class begins with {sizes[0]:,}, and {len(classes.labels):,} classes have {classes.total:,} usable "
            "rows; expected fewer rows a class"
        )
    return tuple(n * len(classes.labels) for n in enough)


class _Silent(Console):
    """Shows the progress of a run and keeps its warnings to itself: they would bury the table."""

    def note(self, text: str) -> None:
        """Say nothing."""

    def warn(self, text: str) -> None:
        """Keep it."""
        self.warnings.append(text)


def _methods(
    source: Source, classes: Classes, named: dict[str, Method], options: CompareOptions, largest: int, notes: list[str]
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
        size = ProblemSize(classes.total, source.n_features, columns, 1 if joint else columns, largest)
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


def _check_test(test: FeatureSet, classes: Classes, plan: Plan, options: CompareOptions, console: Console) -> int:
    """Return how many rows can be tested on; refuse a test part that lacks classes."""
    tested = count_classes(test, plan, options.input)
    warning = check_test_classes(classes.labels, tested.labels, test.files[0])
    if warning:
        console.warn(warning)
    return int(tested.counts[np.isin(tested.labels, classes.labels)].sum())

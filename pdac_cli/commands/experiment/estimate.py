"""What an experiment would run, and about how long it would take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from pdac_cli.commands.experiment.definition import DataSet, Definition
from pdac_cli.commands.experiment.effect import check_effect
from pdac_cli.commands.experiment.plan import Unit, check_tested, check_units, units_of
from pdac_cli.commands.experiment.schema import COMPARE, METHOD, STORAGE, TRAIN
from pdac_cli.commands.experiment.sizes import ASSUMED, Size, check_present, size_of
from pdac_cli.console import printable
from pdac_cli.options.experiment import ExperimentOptions
from pdac_cli.options.select import Allocation
from pdac_cli.options.train_cl import (
    DEFAULT_EPOCHS,
    PROPER_WIDTH,
    TINY_PIXELS,
    TINY_WIDTH,
    LearningOptions,
    Setting,
)
from pdac_cli.reports.table import Table
from pdac_cli.selection.interface import ProblemSize
from pdac_cli.selection.methods import method_named

_COLUMNS = ("data", "with", "methods", "seeds", "runs", "hours")
_MANY = 4  # methods

Step = Callable[[tuple[int, ...], int, int, int, int], float]  # shape, classes, width, hidden, rows to seconds


@dataclass(frozen=True)
class PlanLine:
    """The runs that differ in nothing but method and seed."""

    data: str
    axes: str
    methods: list[str]
    seeds: int
    runs: int
    hours: float  # of training, or of selecting where nothing is trained


@dataclass(frozen=True)
class PlanSummary:
    """What would be run."""

    title: str
    lines: list[PlanLine]
    runs: int
    hours: float
    side_by_side: int

    def text(self) -> str:
        """Return the plan for people."""
        cells = []
        listed = list(dict.fromkeys(", ".join(line.methods) for line in self.lines))
        for line in self.lines:
            # A list of many is said once, below.
            count = len(line.methods)
            methods = ", ".join(line.methods) if count < _MANY else f"{count} methods"
            cells.append([line.data, line.axes, methods, str(line.seeds), f"{line.runs:,}", f"{line.hours:.2f}"])
        named = [f"{names.count(',') + 1} methods: {names}" for names in listed if names.count(",") + 1 >= _MANY]
        total = f"{self.runs:,} runs, about {self.hours:.1f} hours of training on this machine"
        each = f", {self.side_by_side} at a time" if self.side_by_side > 1 else ", one after the other"
        last = f"{total}{each}; selection and testing come on top"
        return "\n".join([printable(self.title), Table.of(_COLUMNS, cells, left=["data"]).text(), *named, last])


def plan_of(definition: Definition, options: ExperimentOptions) -> PlanSummary:
    """Return all runs of the definition, whether or not it was said where the data are."""
    missing = {key: ASSUMED for key, data in definition.data.items() if data.path is None and key not in options.data}
    units, _ = units_of(definition, replace(options, data={**missing, **options.data}))
    check_units(definition, units)
    check_effect(definition, units, options)
    check_tested(definition, [unit for unit in units if unit.path != ASSUMED])
    check_present(units)
    groups: dict[tuple[str, str], list[Unit]] = {}
    for unit in units:
        axes = " ".join(f"{axis}={value}" for axis, value in unit.axes.items())
        groups.setdefault((unit.data, axes), []).append(unit)
    seconds, lines = _estimator(definition, options.device), []
    for (data, axes), mine in groups.items():
        hours = sum(map(seconds, mine)) / 3600
        methods = list(dict.fromkeys(unit.label for unit in mine))
        lines.append(PlanLine(data, axes, methods, len({unit.seed for unit in mine}), len(mine), hours))
    total = sum(line.hours for line in lines) / options.side_by_side
    return PlanSummary(definition.title, lines, len(units), total, options.side_by_side)


def _estimator(definition: Definition, device: str) -> Callable[[Unit], float]:
    """Return a function that tells the seconds of a run, and looks at each file and takes each kind of step once."""
    sizes: dict[str, Size] = {}

    @cache
    def step(shape: tuple[int, ...], classes: int, width: int, hidden: int, both: int) -> float:
        from pdac_cli.learning.step_timing import step_seconds

        return step_seconds(shape, classes, width, hidden, both, device)

    @cache
    def rate() -> float:
        from pdac_cli.commands.compare.opened import multiplications_a_second

        return multiplications_a_second()

    def seconds(unit: Unit) -> float:
        if unit.command == STORAGE:
            return 0.0
        data = definition.data[unit.data]
        if unit.data not in sizes:
            sizes[unit.data] = size_of(unit, data, f"{definition.name}: [data.{unit.data}]")
        size = sizes[unit.data]
        if unit.command == TRAIN:
            return _training_seconds(unit, data, size, step)
        return _work(unit, data, size) / rate()

    return seconds


def _training_seconds(unit: Unit, data: DataSet, size: Size, step: Step) -> float:
    """Return the time of a continual run's training: its steps, each on new and replayed rows."""
    given = unit.options
    rows = min(size.rows, data.classes * (given.get("rows_per_class") or size.rows))
    if given.get("imbalance") is not None:
        rows = int(rows * _mean_share(given["imbalance"], data.classes // (given.get("tasks") or 1)))
    side = (given.get("resize") or size.shape[-1:])[0]
    shape = (*size.shape[:1], side, side) if size.is_images else size.shape
    epochs = 1 if given.get("setting") is Setting.ONLINE else given.get("epochs") or DEFAULT_EPOCHS
    batch = int(given.get("batch", LearningOptions.batch))
    both = batch + int(given.get("replay_batch", LearningOptions.replay_batch))
    hidden = int(given.get("hidden", LearningOptions.hidden))
    width = given.get("width") or (TINY_WIDTH if side < TINY_PIXELS else PROPER_WIDTH)
    return int(rows / batch * epochs) * step(shape, data.classes, width, 0 if size.is_images else hidden, both)


def _work(unit: Unit, data: DataSet, size: Size) -> float:
    """Return the multiplications of a selection, about."""
    method = method_named(unit.options[METHOD])
    joint = (unit.options.get("allocation") or method.allocation) is Allocation.JOINT
    pools, n_features, rows = 1 if joint else data.classes, size.shape[0], size.rows
    budgets = [unit.options["budget"]] if unit.command == COMPARE else _trial_budgets(unit, data, method.nested)
    return sum(method.work(ProblemSize(rows, n_features, data.classes, pools, min(m, rows))) for m in budgets)


def _trial_budgets(unit: Unit, data: DataSet, nested: bool) -> list[int]:
    """Return the budgets that a trial selects for; the answer for one is the beginning of a nested larger one."""
    budgets = [n * data.classes for n in unit.trial_options().per_class]
    return [max(budgets)] if nested else budgets


def _mean_share(ratio: float, classes: int) -> float:
    """Return the share of its rows that an imbalanced task of so many classes keeps."""
    steps = max(1, classes - 1)
    return float(sum(ratio ** (i / steps) for i in range(max(1, classes))) / max(1, classes))

"""What an experiment would run, and about how long it would take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from pdac_cli.commands.experiment_definition import DataSet, Definition
from pdac_cli.commands.experiment_plan import Unit, check_units, text, units_of
from pdac_cli.commands.experiment_schema import TRAIN
from pdac_cli.commands.train_cl_plan import DEFAULT_EPOCHS, PROPER_WIDTH
from pdac_cli.console import table
from pdac_cli.options.experiment import ExperimentOptions
from pdac_cli.options.train_cl import LearningOptions, Setting

_MANY = 4  # methods
_ASSUMED = "?"  # in place of a path that was not given

Pace = Callable[[int, int, int, int], float]  # pixels, classes, width and rows of a step to seconds


@dataclass(frozen=True)
class PlanLine:
    """The runs that differ in nothing but method and seed."""

    data: str
    axes: str
    methods: list[str]
    seeds: int
    runs: int
    hours: float | None  # of training; None: not estimated


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
        cells = [["data", "with", "methods", "seeds", "runs", "hours"]]
        listed = list(dict.fromkeys(", ".join(line.methods) for line in self.lines))
        for line in self.lines:
            hours = "" if line.hours is None else f"{line.hours:.2f}"
            # A list of many is said once, below.
            count = len(line.methods)
            methods = ", ".join(line.methods) if count < _MANY else f"{count} methods"
            cells.append([line.data, line.axes, methods, str(line.seeds), f"{line.runs:,}", hours])
        named = [f"{names.count(',') + 1} methods: {names}" for names in listed if names.count(",") + 1 >= _MANY]
        total = f"{self.runs:,} runs, about {self.hours:.1f} hours of training on this machine"
        each = f", {self.side_by_side} at a time" if self.side_by_side > 1 else ", one after the other"
        last = f"{total}{each}; selection and testing come on top"
        return "\n".join([self.title, table(cells), *named, last])


def plan_of(definition: Definition, options: ExperimentOptions) -> PlanSummary:
    """Return all runs of the definition, whether or not it was said where the data are."""
    missing = {key: _ASSUMED for key, data in definition.data.items() if data.path is None and key not in options.data}
    units, _ = units_of(definition, replace(options, data={**missing, **options.data}))
    check_units(definition, units)
    groups: dict[tuple[str, str], list[Unit]] = {}
    for unit in units:
        axes = " ".join(f"{axis}={text(value)}" for axis, value in unit.values)
        groups.setdefault((unit.data, axes), []).append(unit)
    pace, lines = _pace(options.device), []
    for (data, axes), mine in groups.items():
        seconds = [_seconds(unit, definition.data[data], pace) for unit in mine]
        known = [value for value in seconds if value is not None]
        hours = sum(known) / 3600 if known else None
        methods = list(dict.fromkeys(unit.label for unit in mine))
        lines.append(PlanLine(data, axes, methods, len({unit.seed for unit in mine}), len(mine), hours))
    hours = sum(line.hours or 0.0 for line in lines) / options.side_by_side
    return PlanSummary(definition.title, lines, len(units), hours, options.side_by_side)


def _seconds(unit: Unit, data: DataSet, pace: Pace) -> float | None:
    """Return the time of a continual run's training: its steps, each on new and replayed rows."""
    if unit.command != TRAIN or data.rows is None or data.pixels is None:
        return None
    given = unit.options
    rows = data.classes * min(data.rows, given.get("rows_per_class") or data.rows)
    if given.get("imbalance") is not None:
        rows = int(rows * _mean_share(given["imbalance"], data.classes // (given.get("tasks") or 1)))
    pixels = (given.get("resize") or (data.pixels,))[0]
    online = given.get("setting") is Setting.ONLINE
    epochs = 1 if online else given.get("epochs") or DEFAULT_EPOCHS
    batch = int(given.get("batch", LearningOptions.batch))
    both = batch + int(given.get("replay_batch", LearningOptions.replay_batch))
    return int(rows / batch * epochs) * pace(pixels, data.classes, given.get("width") or PROPER_WIDTH, both)


def _mean_share(ratio: float, classes: int) -> float:
    """Return the share of its rows that an imbalanced task of so many classes keeps."""
    steps = max(1, classes - 1)
    return float(sum(ratio ** (i / steps) for i in range(max(1, classes))) / max(1, classes))


def _pace(device: str) -> Pace:
    @cache
    def seconds(pixels: int, classes: int, width: int, both: int) -> float:
        from pdac_cli.learning.pace import step_seconds

        return step_seconds((3, pixels, pixels), classes, width, 0, both, device)

    return seconds

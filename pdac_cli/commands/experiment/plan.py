"""The runs of an experiment, in order, with what each is given."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from pdac_cli.commands.experiment.checks import value_of
from pdac_cli.commands.experiment.definition import DataSet, Definition, Sweep
from pdac_cli.commands.experiment.schema import (
    CHOICE,
    COMPARE,
    DENSITY,
    DRAW,
    HEADS,
    LEARNING,
    METHOD,
    MOST_RUN_NAME,
    MOST_RUNS,
    NONE,
    OPTIONS,
    OWN,
    RUN,
    SETTINGS,
    STORAGE,
    TRAIN,
    TRIAL,
)
from pdac_cli.errors import UsageError
from pdac_cli.options.compare import CompareOptions
from pdac_cli.options.declare import build
from pdac_cli.options.experiment import ExperimentOptions
from pdac_cli.options.heads import TrialOptions
from pdac_cli.options.methods import MethodOptions, OwnOptions
from pdac_cli.options.select import DrawOptions, SelectOptions
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions
from pdac_cli.options.train_cl import LearningOptions, Preset, TrainOptions
from pdac_cli.selection.methods import method_named

FEATURES = 512  # of a ResNet18


@dataclass(frozen=True)
class Unit:
    """One run: a method on a data set with one value of every axis and one seed."""

    command: str
    data: str
    label: str  # of the method, as the definition calls it
    values: tuple[tuple[str, Any], ...]  # of the axes
    seed: int
    path: str
    test: str | None
    options: Mapping[str, Any]  # all, the method's name among them
    sweep: int = 0  # which of the definition's

    @property
    def name(self) -> str:
        """What its folder is called."""
        return run_name(self.data, self.axes, self.label, self.seed)

    @property
    def axes(self) -> dict[str, str]:
        """The axes' values as a definition has them."""
        return {axis: text(value) for axis, value in self.values}

    @property
    def cell(self) -> tuple[str, str, str, tuple[tuple[str, Any], ...]]:
        """What the runs that differ in nothing but their seeds have in common."""
        return self.command, self.data, self.label, self.values

    def identity(self) -> dict[str, Any]:
        """Return all that decides its result, as it is stored."""
        stored = {name: text(value) for name, value in sorted(self.options.items())}
        return {"command": self.command, "data": self.path, "test": self.test, "seed": self.seed, **stored}

    def place_in_table(self) -> dict[str, Any]:
        """Return what says where its result stands in the table, as it is stored."""
        return {"data": self.data, "axes": self.axes, "label": self.label}

    def train_options(self, output: Path, device: str, run: RunOptions) -> TrainOptions:
        """Return it as a run of `pdac train-cl`."""
        given = {name: value for name, value in self.options.items() if name not in (METHOD, "preset")}
        preset = self.options.get("preset")
        return TrainOptions(
            presets=() if preset is None else (preset,),
            data=(self.path,),
            test=self.test,
            output=output,
            methods=(self.options[METHOD],),
            seeds=1,
            seed=self.seed,
            resume=True,
            given=frozenset(given),
            learning=LearningOptions(device=device, **_of(given, LEARNING)),
            draw=DrawOptions(**_of({**TrainOptions.implied(given), **given}, DRAW)),
            density=DensityOptions(**_of(given, DENSITY)),
            settings=build(MethodOptions, _of(given, SETTINGS)),
            own=build(OwnOptions, _of(given, OWN)),
            run=run,
            **_of(given, RUN),
        )

    def compare_options(self, run: RunOptions) -> CompareOptions:
        """Return it as a run of `pdac compare`."""
        given = {name: value for name, value in self.options.items() if name != METHOD}
        choice = _of(given, CHOICE)
        return CompareOptions(
            input=InputOptions(paths=(self.path,)),
            budgets=(choice.pop("budget"),),
            methods=(self.options[METHOD],),
            seeds=1,
            seed=self.seed,
            test=self.test,
            draw=DrawOptions(**_of(given, DRAW)),
            density=DensityOptions(**_of(given, DENSITY)),
            run=run,
            given=frozenset(given),
            **choice,
        )

    def trial_options(self) -> TrialOptions:
        """Return what rows a trial of a head-to-head chooses from, and how many."""
        return TrialOptions(**_of(self.options, TRIAL))

    def select_options(self, budget: int, run: RunOptions) -> SelectOptions:
        """Return it as a run of `pdac select`, with a head trained where the method needs logits."""
        given = {name: value for name, value in self.options.items() if name not in TRIAL}
        values = {**given, "budget": budget, "seed": self.seed, "head": True, "run": run}
        return build(SelectOptions, values, refuse_idle=False)

    def storage_bytes(self, data: DataSet) -> int:
        """Return what W, α, μ and Σ of all classes take as 4-byte numbers, which is how the paper counts."""
        density = DensityOptions(**_of(self.options, DENSITY))
        d, components = density.dim, density.components
        features = int(self.options.get("features", FEATURES))
        return 4 * data.classes * (features * d + components * (1 + d + d * d))


def run_name(data: str, axes: Mapping[str, str], label: str, seed: int) -> str:
    """Return what the folder of a run is called."""
    parts = [data, *(f"{axis}={value}" for axis, value in axes.items()), label, f"seed-{seed}"]
    return re.sub(r"[^\w=.,+-]", "_", " ".join(parts).replace(" ", "-"))


def text(value: Any) -> str:
    """Return a value as a definition has it."""
    return NONE if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def units_of(definition: Definition, options: ExperimentOptions) -> tuple[list[Unit], list[str]]:
    """Return the runs, and the data sets that are left out because it is not said where they are."""
    _check_count(definition)
    units: list[Unit] = []
    absent: list[str] = []
    for key, data in definition.data.items():
        placed = replace(data, path=options.data.get(key, data.path), test=options.test.get(key, data.test))
        for number, sweep in enumerate(definition.sweeps):
            if placed.path is None and sweep.command != STORAGE:
                absent.append(key)
                continue
            units += [replace(unit, sweep=number) for unit in _sweep_units(definition, sweep, key, placed)]
    _check_names(definition, units)
    return units, list(dict.fromkeys(absent))


def _sweep_units(definition: Definition, sweep: Sweep, key: str, data: DataSet) -> list[Unit]:
    units = []
    seeds = range(1 if sweep.command == STORAGE else definition.seeds)
    known = {label: _known(definition, sweep, data, label) for label in sweep.methods}
    for values in product(*sweep.axes.values()):
        chosen = dict(zip(sweep.axes, values, strict=True))
        for label in sweep.methods:
            given = _by_preset({**known[label], **chosen})
            units += [
                Unit(
                    command=sweep.command,
                    data=key,
                    label=label,
                    values=tuple(chosen.items()),
                    seed=seed,
                    path=data.path or "",
                    test=data.test,
                    options=given,
                )
                for seed in seeds
            ]
    return units


def _known(definition: Definition, sweep: Sweep, data: DataSet, label: str) -> dict[str, Any]:
    """Return the options of a method on a data set that the command has."""
    given = {**definition.options, **data.options, METHOD: label, **definition.methods.get(label, {})}
    return {
        name: value_of(definition.name, name, value, sweep.command)
        for name, value in given.items()
        if name in OPTIONS[sweep.command]
    }


def _by_preset(given: dict[str, Any]) -> dict[str, Any]:
    """Put the paper's rule in place of the preset of that name, as the command line does: what is given stays."""
    if given.get("preset") is not Preset.PAPER:
        return given
    implied = TrainOptions.implied({**given, "presets": (Preset.PAPER,)})
    rule = {name: value_of("preset", name, value, TRAIN) for name, value in implied.items()}
    return {**rule, **{name: value for name, value in given.items() if name != "preset"}}


def _check_count(definition: Definition) -> None:
    """Refuse more runs than anybody means, before they are listed."""
    runs = len(definition.data) * definition.seeds
    runs *= sum(len(sweep.methods) * prod(map(len, sweep.axes.values())) for sweep in definition.sweeps)
    if runs > MOST_RUNS:
        raise UsageError(
            f"{definition.name}: has {runs:.6g} runs; expected at most {MOST_RUNS:,}; shorten an axis of [[sweep]]"
        )


def _check_names(definition: Definition, units: Sequence[Unit]) -> None:
    for name, count in Counter(unit.name for unit in units).items():
        if count > 1:
            raise UsageError(f"{definition.name}: {name} is defined twice; expected each run once; see [[sweep]]")
        if len(name.encode()) > MOST_RUN_NAME:
            raise UsageError(
                f"{definition.name}: a run's folder would be named {name[:40]}… ({len(name.encode()):,} bytes); "
                f"expected at most {MOST_RUN_NAME}; give the method, the data or a value a shorter name"
            )


def check_units(definition: Definition, units: Sequence[Unit]) -> None:
    """Refuse, before anything runs, options and methods that a run would refuse."""
    for unit in {unit.cell: unit for unit in units}.values():
        try:
            if unit.command == TRAIN:
                unit.train_options(Path(), "auto", RunOptions())
            elif unit.command == COMPARE:
                unit.compare_options(RunOptions())
                method_named(unit.options[METHOD])
            elif unit.command == HEADS:
                unit.trial_options()
                unit.select_options(1, RunOptions())
                method_named(unit.options[METHOD])
            else:
                DensityOptions(**_of(unit.options, DENSITY))
        except UsageError as problem:
            raise UsageError(
                f"{definition.name}, {unit.label} on {unit.data}: {problem}; leave a method out with --methods, or "
                "change an option with --set"
            ) from None


def check_tested(definition: Definition, units: Sequence[Unit]) -> None:
    """Refuse to measure an accuracy where there is nothing to test on."""
    untested = next((unit for unit in units if unit.command == COMPARE and unit.test is None), None)
    if untested is not None and "accuracy" in definition.measures:
        raise UsageError(
            f"{definition.name}: accuracy is to be measured, and {untested.data} has nothing to test on; expected a "
            f"file of test rows; add --test {untested.data}=PATH, or leave accuracy out of the measures"
        )


def _of(given: Mapping[str, Any], names: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in names}

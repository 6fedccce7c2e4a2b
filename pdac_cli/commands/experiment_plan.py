"""The runs of an experiment, in order, with what each is given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from pdac_cli.commands.experiment_definition import DataSet, Definition, Sweep
from pdac_cli.commands.experiment_schema import (
    CHOICE,
    COMPARE,
    DENSITY,
    LEARNING,
    NONE,
    OPTIONS,
    RUN,
    SETTINGS,
    STORAGE,
    TRAIN,
    value_of,
)
from pdac_cli.commands.train_cl_plan import methods_of
from pdac_cli.errors import UsageError
from pdac_cli.options.compare import CompareOptions
from pdac_cli.options.experiment import ExperimentOptions
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions
from pdac_cli.options.stream import MethodOptions
from pdac_cli.options.train_cl import LearningOptions, TrainOptions
from pdac_cli.selection.methods import method_named

_FEATURES = 512  # of a ResNet18


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

    @property
    def name(self) -> str:
        """What its folder is called."""
        parts = [self.data, *(f"{axis}={text(value)}" for axis, value in self.values), self.label, f"seed-{self.seed}"]
        return re.sub(r"[^\w=.,+-]", "_", " ".join(parts).replace(" ", "-"))

    @property
    def cell(self) -> tuple[str, str, str, tuple[tuple[str, Any], ...]]:
        """What the runs that differ in nothing but their seeds have in common."""
        return self.command, self.data, self.label, self.values

    def identity(self) -> dict[str, Any]:
        """Return all that decides its result, as it is stored."""
        stored = {name: text(value) for name, value in sorted(self.options.items())}
        return {"command": self.command, "data": self.path, "test": self.test, "seed": self.seed, **stored}

    def train_options(self, output: Path, device: str, run: RunOptions) -> TrainOptions:
        """Return it as a run of `pdac train-cl`."""
        given = {name: value for name, value in self.options.items() if name != "method"}
        return TrainOptions(
            (self.path,),
            self.test,
            output,
            methods=(self.options["method"],),
            seeds=1,
            seed=self.seed,
            resume=True,
            learning=LearningOptions(device=device, **_of(given, LEARNING)),
            density=DensityOptions(**_of(given, DENSITY)),
            settings=MethodOptions(**_of(given, SETTINGS)),
            run=run,
            **_of(given, RUN),
        )

    def compare_options(self, run: RunOptions) -> CompareOptions:
        """Return it as a run of `pdac compare`."""
        given = {name: value for name, value in self.options.items() if name != "method"}
        choice = _of(given, CHOICE)
        return CompareOptions(
            InputOptions((self.path,)),
            (choice.pop("budget"),),
            (self.options["method"],),
            1,
            self.seed,
            self.test,
            density=DensityOptions(**_of(given, DENSITY)),
            run=run,
            **choice,
        )

    def storage_bytes(self, data: DataSet) -> int:
        """Return what W, α, μ and Σ of all classes take as 4-byte numbers, which is how the paper counts."""
        density = DensityOptions(**_of(self.options, DENSITY))
        d, components = density.dim, density.components
        features = int(self.options.get("features", _FEATURES))
        return 4 * data.classes * (features * d + components * (1 + d + d * d))


def text(value: Any) -> str:
    """Return a value as a definition has it."""
    return NONE if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def units_of(definition: Definition, options: ExperimentOptions) -> tuple[list[Unit], list[str]]:
    """Return the runs, and the data sets that are left out because it is not said where they are."""
    units: list[Unit] = []
    absent: list[str] = []
    for key, data in definition.data.items():
        placed = replace(data, path=options.data.get(key, data.path), test=options.test.get(key, data.test))
        for sweep in definition.sweeps:
            if placed.path is None and sweep.command != STORAGE:
                absent.append(key)
                continue
            units += _sweep_units(definition, sweep, key, placed)
    names = [unit.name for unit in units]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{definition.name}: {twice} is defined twice; expected each run once; see [[sweep]]")
    return units, list(dict.fromkeys(absent))


def _sweep_units(definition: Definition, sweep: Sweep, key: str, data: DataSet) -> list[Unit]:
    units = []
    seeds = range(1 if sweep.command == STORAGE else definition.seeds)
    for values in product(*sweep.axes.values()):
        chosen = dict(zip(sweep.axes, values, strict=True))
        for label in sweep.methods:
            given = {**definition.options, **data.options, "method": label, **definition.methods.get(label, {})}
            known = {
                name: value_of(definition.name, name, value, sweep.command)
                for name, value in given.items()
                if name in OPTIONS[sweep.command]
            }
            for seed in seeds:
                path = data.path or ""
                cell = (sweep.command, key, label, tuple(chosen.items()), seed, path, data.test)
                units.append(Unit(*cell, {**known, **chosen}))
    return units


def check_units(definition: Definition, units: Sequence[Unit]) -> None:
    """Refuse, before anything runs, options and methods that a run would refuse."""
    for unit in units:
        try:
            if unit.command == TRAIN:
                methods_of(unit.train_options(Path(), "auto", RunOptions()))
            elif unit.command == COMPARE:
                unit.compare_options(RunOptions())
                method_named(unit.options["method"])
        except UsageError as problem:
            raise UsageError(
                f"{definition.name}, {unit.label} on {unit.data}: {problem}; leave a method out with --methods, or "
                "change an option with --set"
            ) from None


def _of(given: Mapping[str, Any], names: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in names}

"""What the runs of an experiment came to: measures, means over seeds, and paired differences to the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pdac_cli.commands.experiment_definition import Definition
from pdac_cli.commands.experiment_plan import Unit, text
from pdac_cli.commands.experiment_run import Place
from pdac_cli.commands.experiment_schema import COMPARE, SECONDS, STORAGE
from pdac_cli.errors import DataError
from pdac_cli.files.model import read_model
from pdac_cli.files.runs import read_json
from pdac_cli.learning.metrics import paired_difference

Measures = Mapping[str, float]
Point = dict[str, Any]  # a value of a curve over EM steps


@dataclass(frozen=True)
class Result:
    """One run."""

    unit: Unit
    measures: Measures

    def row(self, measures: Sequence[str]) -> dict[str, Any]:
        """Return it as a line of a table."""
        return {**_names(self.unit), "seed": self.unit.seed, **{name: self.measures.get(name) for name in measures}}


@dataclass(frozen=True)
class Cell:
    """One method on one data set with one value of every axis, over its seeds."""

    data: str
    axes: dict[str, str]
    method: str
    seeds: list[int]
    values: dict[str, list[float]]  # of each measure, by seed
    differences: dict[str, dict[str, float | None]]  # to the reference: pairs, mean, low, high

    def row(self) -> dict[str, Any]:
        """Return it as a line of a table."""
        out: dict[str, Any] = {"data": self.data, **self.axes, "method": self.method, "seeds": len(self.seeds)}
        for name, values in self.values.items():
            out[name] = float(np.mean(values))
            out[f"{name}_sd"] = float(np.std(values, ddof=1)) if len(values) > 1 else None
            found = self.differences.get(name, {})
            out.update({f"{name}_difference{end}": found.get(key) for key, end in _ENDS})
        return out


_ENDS = (("mean", ""), ("low", "_low"), ("high", "_high"))


def results_of(units: Sequence[Unit], definition: Definition, place: Place) -> list[Result]:
    """Read what the runs came to."""
    return [Result(unit, _measures(unit, definition, place)) for unit in units]


def cells_of(results: Sequence[Result], definition: Definition) -> list[Cell]:
    """Gather the seeds of each cell, beside the reference's runs with the same seeds."""
    groups: dict[Any, list[Result]] = {}
    for result in results:
        groups.setdefault(result.unit.cell, []).append(result)
    cells = []
    for mine in groups.values():
        unit, other = mine[0].unit, _reference(mine[0].unit, groups, definition.reference)
        names = [name for name in definition.measures if name in mine[0].measures]
        cells.append(
            Cell(
                unit.data,
                {axis: text(value) for axis, value in unit.values},
                unit.label,
                [result.unit.seed for result in mine],
                {name: [result.measures[name] for result in mine] for name in names},
                {} if other is None else {name: _difference(mine, other, name) for name in names},
            )
        )
    return cells


def points_of(units: Sequence[Unit], place: Place) -> list[Point]:
    """Return the mean log-likelihood of each task's rows at each EM step, where runs have stored their models."""
    points = []
    for unit in units:
        for task, values in enumerate(_log_likelihoods(unit, place), 1):
            row = {**_names(unit), "seed": unit.seed, "task": task}
            points += [{**row, "step": step, "log_likelihood": value} for step, value in enumerate(values)]
    return points


def is_measured_anew(name: str) -> bool:
    """Whether another run of the same definition measures something else: seconds."""
    return name in SECONDS


def _reference(unit: Unit, groups: Mapping[Any, list[Result]], label: str | None) -> list[Result] | None:
    """Return the reference's runs on the same data that agree in every axis they have."""
    if unit.label == label:
        return None
    for (command, data, other, values), results in groups.items():
        same = (command, data, other) == (unit.command, unit.data, label)
        if same and all(dict(unit.values).get(axis, value) == value for axis, value in values):
            return results
    return None


def _difference(mine: Sequence[Result], other: Sequence[Result], name: str) -> dict[str, float | None]:
    second = {result.unit.seed: result.measures[name] for result in other if name in result.measures}
    pairs = [(result.measures[name], second[result.unit.seed]) for result in mine if result.unit.seed in second]
    if not pairs:
        return {}
    first, last = np.array(pairs).T
    return asdict(paired_difference(first, last))


def _measures(unit: Unit, definition: Definition, place: Place) -> dict[str, float]:
    if unit.command == STORAGE:
        return {"model_mb": unit.storage_bytes(definition.data[unit.data]) / 1e6}
    found = read_json(place.result(unit))
    try:
        if unit.command == COMPARE:
            accuracy = found.pop("accuracy")
            return {**found, **({} if accuracy is None else {"accuracy": 100 * accuracy})}
        return {**_run_measures(found["results"][0]), **_likelihood_measures(unit, definition, place)}
    except (KeyError, IndexError, TypeError):
        raise DataError(
            f"{place.result(unit)}: is of another kind; expected a run's; remove it and run again"
        ) from None


def _run_measures(result: Mapping[str, Any]) -> dict[str, float]:
    seconds = result["seconds"]
    out = {"acc": 100 * result["acc"]} | ({} if result["fm"] is None else {"fm": 100 * result["fm"]})
    # What selection costs, as the paper counts it: the pass that gives the features included.
    out["selection_seconds"] = seconds["extraction"] + seconds["selection"]
    out["training_seconds"] = seconds["training"]
    return {**out, "run_minutes": sum(seconds.values()) / 60}


def _likelihood_measures(unit: Unit, definition: Definition, place: Place) -> dict[str, float]:
    steps = [int(name.partition("@")[2]) for name in definition.measures if name.startswith("log_likelihood@")]
    found = _log_likelihoods(unit, place) if steps else []
    if not found:
        return {}
    mean = np.mean(found, axis=0)
    return {f"log_likelihood@{step}": float(mean[step]) for step in steps if step < len(mean)}


def _log_likelihoods(unit: Unit, place: Place) -> list[list[float]]:
    """Return the log-likelihood at each EM step, by task, from the models that a run with `rescore` stores."""
    folder = place.folder / unit.name / unit.options["method"] / f"seed-{unit.seed}"
    paths = sorted(folder.glob("model-*.h5"), key=lambda path: int(path.stem.partition("-")[2]))
    return [read_model(path).model.step_log_likelihood().tolist() for path in paths]


def _names(unit: Unit) -> dict[str, str]:
    return {"data": unit.data, **{axis: text(value) for axis, value in unit.values}, "method": unit.label}

"""The results of an experiment's runs: measures, means over seeds, and paired differences to the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pdac_cli.commands.experiment.checks import likelihood_step
from pdac_cli.commands.experiment.definition import Definition
from pdac_cli.commands.experiment.place import Run
from pdac_cli.commands.experiment.schema import COMPARE, HEADS, LINEAR, MEASURES, ROWS, SECONDS, STORAGE, TRIAL_HEADS
from pdac_cli.errors import DataError
from pdac_cli.files.results.runs import read_json
from pdac_cli.metrics import learned, paired_difference
from pdac_cli.options.heads import Classifier

_ACCURACY = "accuracy"
_NOT_ALWAYS = (_ACCURACY, "mean_distance", "suspects")  # something to test on; runs of earlier versions lack the rest

Measures = Mapping[str, float]
Point = dict[str, Any]  # a value of a curve over EM steps


@dataclass(frozen=True)
class Result:
    """One run."""

    run: Run
    measures: Measures

    def row(self, measures: Sequence[str]) -> dict[str, Any]:
        """Return it as a line of a table."""
        return {**_names(self.run), "seed": self.run.seed, **{name: self.measures.get(name) for name in measures}}


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


def results_of(runs: Sequence[Run], definition: Definition) -> list[Result]:
    """Read what the runs have measured."""
    steps = [step for step in map(likelihood_step, definition.measures) if step is not None]
    return [
        result
        for run in runs
        for result in (_trials(run) if run.command == HEADS else [Result(run, _measures(run, steps))])
    ]


def cells_of(results: Sequence[Result], definition: Definition) -> list[Cell]:
    """Gather the seeds of each cell, beside the reference's runs with the same seeds."""
    groups: dict[Any, list[Result]] = {}
    for result in results:
        groups.setdefault(result.run.cell, []).append(result)
    references = _references(groups, definition.reference)
    cells = []
    for mine in groups.values():
        run, other = mine[0].run, _reference(mine[0].run, references, definition.reference)
        names = [name for name in definition.measures if all(name in result.measures for result in mine)]
        cells.append(
            Cell(
                run.data,
                dict(run.axes),
                run.label,
                [result.run.seed for result in mine],
                {name: [result.measures[name] for result in mine] for name in names},
                {} if other is None else {name: _difference(mine, other, name) for name in names},
            )
        )
    return cells


def points_of(runs: Sequence[Run]) -> list[Point]:
    """Return the mean log-likelihood of each task's rows at each EM step, where runs have stored their models."""
    points = []
    for run in runs:
        for task, values in enumerate(_log_likelihoods(run), 1):
            row = {**_names(run), "seed": run.seed, "task": task}
            points += [{**row, "step": step, "log_likelihood": value} for step, value in enumerate(values)]
    return points


def is_measured_anew(name: str) -> bool:
    """Whether another run of the same definition measures something else: seconds."""
    return name in SECONDS


def _references(groups: Mapping[Any, list[Result]], label: str | None) -> dict[tuple[str, str], list[list[Result]]]:
    """Return the reference's cells by command and data set."""
    found: dict[tuple[str, str], list[list[Result]]] = {}
    for (command, data, other, _), results in groups.items():
        if other == label:
            found.setdefault((command, data), []).append(results)
    return found


def _reference(
    run: Run, references: Mapping[tuple[str, str], list[list[Result]]], label: str | None
) -> list[Result] | None:
    """Return the reference's runs on the same data that agree in every axis they have."""
    if run.label == label:
        return None
    for results in references.get((run.command, run.data), []):
        if all(run.axes.get(axis, value) == value for axis, value in results[0].run.axes.items()):
            return results
    return None


def _difference(mine: Sequence[Result], other: Sequence[Result], name: str) -> dict[str, float | None]:
    second = {result.run.seed: result.measures[name] for result in other if name in result.measures}
    pairs = [(result.measures[name], second[result.run.seed]) for result in mine if result.run.seed in second]
    if not pairs:
        return {}
    first, last = np.array(pairs).T
    return asdict(paired_difference(first, last))


def _trials(run: Run) -> list[Result]:
    """Return what a trial of a head-to-head measured, the number of rows a class as an axis."""
    listed = read_json(run.result).get("trials")
    if not isinstance(listed, dict) or not listed:
        raise DataError(f"{run.result}: has no 'trials'; expected a trial's results; remove it and run again")
    results = []
    for rows, found in listed.items():
        heads = {name: 100 * _number(found, name, run) for name in TRIAL_HEADS if name != LINEAR}
        linear = (heads[Classifier.LOGISTIC] + heads[Classifier.RIDGE]) / 2
        rest = {name: _number(found, name, run) for name in MEASURES[HEADS] if name in found and name not in heads}
        measures = {LINEAR: linear, **heads, **rest}
        results.append(Result(replace(run, axes={**run.axes, ROWS: str(rows)}), measures))
    return results


def _measures(run: Run, steps: Sequence[int]) -> dict[str, float]:
    found = read_json(run.result)
    if run.command == STORAGE:
        return {name: _number(found, name, run) for name in MEASURES[STORAGE]}
    if run.command == COMPARE:
        named = [name for name in MEASURES[COMPARE] if found.get(name) is not None or name not in _NOT_ALWAYS]
        return {name: _number(found, name, run) * (100 if name == _ACCURACY else 1) for name in named}
    listed = found.get("results")
    first = listed[0] if isinstance(listed, list) and listed else None
    return {**_run_measures(first, run), **_likelihood_measures(run, steps)}


def _run_measures(result: Any, run: Run) -> dict[str, float]:
    acc = _number(result, "acc", run)
    fm = None if result.get("fm") is None else _number(result, "fm", run)
    seconds, matrix = result.get("seconds"), result.get("accuracy")
    s = learned(acc, fm, len(matrix) if isinstance(matrix, list) else 0)
    out = {"acc": 100 * acc} | ({} if fm is None else {"fm": 100 * fm}) | ({} if s is None else {"s": 100 * s})
    # What selection costs, as the paper counts it: the pass that gives the features included.
    out["selection_seconds"] = _number(seconds, "extraction", run) + _number(seconds, "selection", run)
    out["training_seconds"] = _number(seconds, "training", run)
    return {**out, "run_minutes": sum(_number(seconds, stage, run) for stage in seconds) / 60}


def _number(found: Any, name: str, run: Run) -> float:
    """Return a number that a run's file has under a name; refuse a file of another kind."""
    value = found.get(name) if isinstance(found, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{run.result}: has no number {name!r}; expected a run's results; remove it and run again")
    return value


def _likelihood_measures(run: Run, steps: Sequence[int]) -> dict[str, float]:
    found = _log_likelihoods(run) if steps else []
    if not found:
        return {}
    mean = np.mean(found, axis=0)
    return {f"log_likelihood@{step}": float(mean[step]) for step in steps if step < len(mean)}


def _log_likelihoods(run: Run) -> list[list[float]]:
    """Return the log-likelihood at each EM step, by task, from the models that a run with `rescore` stores."""
    from pdac_cli.files.results.model import read_model  # loads h5py, which few tables need

    paths = sorted(run.models.glob("model-*.h5"), key=lambda path: int(path.stem.partition("-")[2]))
    return [read_model(path).model.step_log_likelihood().tolist() for path in paths]


def _names(run: Run) -> dict[str, str]:
    return {"data": run.data, **run.axes, "method": run.label}

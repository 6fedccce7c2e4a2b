"""``pdac experiment``: a declared sweep of continual runs or selections, which resumes where it was stopped."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from pdac_cli.commands.experiment.definition import Definition, load
from pdac_cli.commands.experiment.effect import check_effect
from pdac_cli.commands.experiment.estimate import PlanSummary, plan_of
from pdac_cli.commands.experiment.place import Place, in_order
from pdac_cli.commands.experiment.plan import Unit, check_tested, check_units, units_of
from pdac_cli.commands.experiment.ranks import rankings
from pdac_cli.commands.experiment.report import ExperimentSummary, write_results
from pdac_cli.commands.experiment.results import cells_of, points_of, results_of
from pdac_cli.commands.experiment.runner import pending, run_all
from pdac_cli.commands.experiment.schema import LIKELIHOOD, STORAGE, TRAIN
from pdac_cli.commands.experiment.sizes import check_present
from pdac_cli.console import Console
from pdac_cli.engine.resources import default_jobs
from pdac_cli.errors import UsageError
from pdac_cli.files.results.runs import write_json
from pdac_cli.options.experiment import ExperimentOptions, Scale
from pdac_cli.options.heads import Classifier
from pdac_cli.storage.atomic import storage_errors
from pdac_cli.storage.locks import exclusive

_EXPERIMENTS = Path("experiments")
_MOST_WARNINGS = 3  # shown; the rest is in the runs' own results


def run(options: ExperimentOptions) -> ExperimentSummary | PlanSummary:
    """Run what is not yet complete of an experiment, and tabulate all of it."""
    definition = load(options)
    if options.plan:
        return plan_of(definition, options)
    units, absent = units_of(definition, options)
    check_units(definition, units)
    check_effect(definition, units, options)
    if not [unit for unit in units if unit.command != STORAGE] and absent:
        raise UsageError(
            f"{definition.name}: it is not said where {', '.join(absent)} is; expected a path for one at least; "
            f"add --data {absent[0]}=PATH"
        )
    check_tested(definition, units)
    console = Console.of(options.run)
    folder = options.output or _EXPERIMENTS / _stem(definition.name, options)
    jobs = options.run.jobs or max(1, default_jobs() // options.side_by_side)
    quiet = replace(options.run, jobs=jobs, quiet=True, json=False, force=False)
    place = Place(folder / "runs", options.device, quiet, options.run.force)
    check_present(unit for unit in units if not place.result(unit).exists())
    with storage_errors(folder):
        place.folder.mkdir(parents=True, exist_ok=True)
    # The tables are replaced as wholes, and a call that only writes them reads complete runs.
    with nullcontext() if options.tabulate else exclusive(folder / ".lock", folder):
        if options.tabulate:
            units = []
        _compute_sizes([unit for unit in units if unit.command == STORAGE], definition, place)
        _run([unit for unit in units if unit.command != STORAGE], place, options, console)
        # All that the folder has: a rerun of a part must not take the rest from the table.
        runs = in_order(place.complete(), _whole(options) or units)
        results = results_of(runs, definition)
        cells = cells_of(results, definition)
        ranks = rankings(cells, [kind.value for kind in Classifier], definition.reference)
        summary = ExperimentSummary(
            str(folder), definition.title, definition.reference, len(runs), absent, cells, ranks
        )
        wanted = any(name.startswith(LIKELIHOOD) for name in definition.measures)
        points = points_of([run for run in runs if run.command == TRAIN]) if wanted else []
        write_results(folder, definition, results, summary, points)
    return summary


def _whole(options: ExperimentOptions) -> list[Unit]:
    """Return the runs of the whole definition, which say how the table is ordered; none if it needs the changes."""
    try:
        every = replace(options, changes={}, methods=(), seeds=None, reference=None)
        definition = load(every)
        return units_of(definition, replace(every, data=dict.fromkeys(definition.data, "-")))[0]
    except UsageError:
        return []


def _compute_sizes(units: list[Unit], definition: Definition, place: Place) -> None:
    """Write what the densities' parameters take, which needs no run."""
    for unit in units:
        place.claim(unit)
        write_json(place.result(unit), {"model_mib": unit.storage_bytes(definition.data[unit.data]) / 2**20})


def _run(units: list[Unit], place: Place, options: ExperimentOptions, console: Console) -> None:
    chunks = pending(units, place)
    left = sum(len(chunk) for chunk in chunks)
    if left < len(units):
        console.note(f"{len(units) - left:,} of {len(units):,} runs are complete")
    if not chunks:
        return
    say = console.detail if sys.stderr.isatty() else console.note  # a bar is told apart from a log
    with console.progress("runs", left) as work:

        def done(unit: Unit) -> None:
            work(1)
            say(f"{unit.name} is complete, {work.text()}")

        warnings = run_all(chunks, place, options.side_by_side, done)
    for text, count in Counter(warnings).most_common(_MOST_WARNINGS):
        console.warn(text if count == 1 else f"{text} (in {count:,} runs)")


def _stem(name: str, options: ExperimentOptions) -> str:
    return name if options.scale is Scale.FULL else f"{name}-{options.scale.value}"

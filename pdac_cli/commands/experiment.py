"""``pdac experiment``: a declared sweep of continual runs or selections, which goes on where it was stopped."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from pdac_cli.commands.experiment_definition import load
from pdac_cli.commands.experiment_estimate import PlanSummary, plan_of
from pdac_cli.commands.experiment_plan import Unit, check_units, units_of
from pdac_cli.commands.experiment_report import ExperimentSummary, write_results
from pdac_cli.commands.experiment_results import cells_of, points_of, results_of
from pdac_cli.commands.experiment_run import Place, pending, run_all
from pdac_cli.commands.experiment_schema import STORAGE
from pdac_cli.console import Console
from pdac_cli.engine.resources import default_jobs
from pdac_cli.errors import UsageError
from pdac_cli.files.atomic import storage_errors
from pdac_cli.files.locks import exclusive
from pdac_cli.options.experiment import ExperimentOptions, Scale

_EXPERIMENTS = Path("experiments")
_MOST_WARNINGS = 3  # shown; the rest is in the runs' own results


def run(options: ExperimentOptions) -> ExperimentSummary | PlanSummary:
    """Run what is not yet complete of an experiment, and tabulate all of it."""
    definition = load(options)
    if options.plan:
        return plan_of(definition, options)
    units, absent = units_of(definition, options)
    check_units(definition, units)
    if not [unit for unit in units if unit.command != STORAGE] and absent:
        raise UsageError(
            f"{definition.name}: it is not said where {', '.join(absent)} is; expected a path for one at least; "
            f"add --data {absent[0]}=PATH"
        )
    console = Console.of(options.run)
    folder = options.output or _EXPERIMENTS / _stem(definition.name, options)
    with storage_errors(folder):
        (folder / "runs").mkdir(parents=True, exist_ok=True)
    jobs = options.run.jobs or max(1, default_jobs() // options.side_by_side)
    quiet = replace(options.run, jobs=jobs, quiet=True, json=False, force=False)
    place = Place(folder / "runs", options.device, quiet, options.run.force)
    with exclusive(folder / ".lock", folder):
        _run([unit for unit in units if unit.command != STORAGE], place, options, console)
        results = results_of(units, definition, place)
        summary = ExperimentSummary(
            str(folder), definition.title, definition.reference, len(units), absent, cells_of(results, definition)
        )
        wanted = any(name.startswith("log_likelihood") for name in definition.measures)
        points = points_of([unit for unit in units if unit.command != STORAGE], place) if wanted else []
        write_results(folder, definition, results, summary, points)
    return summary


def _run(units: list[Unit], place: Place, options: ExperimentOptions, console: Console) -> None:
    chunks = pending(units, place)
    left = sum(len(chunk) for chunk in chunks)
    if left < len(units):
        console.note(f"{len(units) - left:,} of {len(units):,} runs are complete")
    if not chunks:
        return
    with console.progress("runs", left) as tick:

        def done(unit: Unit) -> None:
            tick(1)
            console.detail(f"{unit.name} is complete")

        warnings = run_all(chunks, place, options.side_by_side, done)
    for text, count in Counter(warnings).most_common(_MOST_WARNINGS):
        console.warn(text if count == 1 else f"{text} (in {count:,} runs)")


def _stem(name: str, options: ExperimentOptions) -> str:
    return name if options.scale is Scale.FULL else f"{name}-{options.scale.value}"

"""Options of a definition that none of its runs has a use for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pdac_cli.commands.experiment.definition import Definition
from pdac_cli.commands.experiment.plan import Unit
from pdac_cli.commands.experiment.schema import COMPARE, STORAGE, TRAIN
from pdac_cli.errors import UsageError
from pdac_cli.options.effect import idle_options
from pdac_cli.options.experiment import ExperimentOptions
from pdac_cli.options.shared import RunOptions, VerbOptions


def check_effect(definition: Definition, units: Sequence[Unit], options: ExperimentOptions) -> None:
    """Refuse options that no run has a use for: those that were changed, or all where the definition is run whole."""
    changed = options.changes
    written = changed if changed or options.methods else _written(definition)
    used, idle = set[str](), dict[str, str]()
    for unit in {unit.cell: unit for unit in units if unit.command != STORAGE}.values():
        mine = {one.name: to for one, to in idle_options(_as_run(unit))}
        used |= set(unit.options) - set(mine)
        idle |= mine
    unused = next((name for name in idle if name not in used and name in written), None)
    if unused is not None:
        where = "--set" if unused in changed else definition.name
        raise UsageError(
            f"{where}: {unused} has no effect on any run; it belongs to {idle[unused]}; leave it out, or change the "
            "others so that it has one"
        )


def _as_run(unit: Unit) -> VerbOptions:
    """Return the options of the verb that does the work of a run."""
    if unit.command == TRAIN:
        return unit.train_options(Path(), "auto", RunOptions())
    return unit.compare_options(RunOptions()) if unit.command == COMPARE else unit.select_options(1, RunOptions())


def _written(definition: Definition) -> set[str]:
    """Return the options that a definition names."""
    tables = [definition.options, *definition.methods.values(), *(data.options for data in definition.data.values())]
    return {name for table in tables for name in table} | {axis for sweep in definition.sweeps for axis in sweep.axes}

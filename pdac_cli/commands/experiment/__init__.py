"""``pdac experiment``: declared sweeps, and the list of those that are shipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pdac_cli.options.experiment import ExperimentOptions

if TYPE_CHECKING:
    from pdac_cli.commands.experiment.estimate import PlanSummary
    from pdac_cli.commands.experiment.report import ExperimentSummary


@dataclass(frozen=True)
class PresetList:
    """The shipped definitions by name."""

    presets: dict[str, str]  # titles

    def text(self) -> str:
        """Return them, one a line."""
        width = max(map(len, self.presets))
        return "\n".join(f"{name:{width}}  {title}" for name, title in self.presets.items())


def run(options: ExperimentOptions) -> ExperimentSummary | PlanSummary | PresetList:
    """Run what is not yet complete of an experiment, or list the presets."""
    if options.listing:
        from pdac_cli.commands.experiment.definition import preset_titles

        return PresetList(preset_titles())
    from pdac_cli.commands.experiment.command import run as run_experiment

    return run_experiment(options)

"""`pdac fit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pdac_cli.options.cluster import ClusterOptions
from pdac_cli.options.declare import Panel, group, option
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions, VerbOptions, seed_option


@dataclass(frozen=True, kw_only=True)
class FitOptions(VerbOptions):
    """``pdac fit``."""

    input: InputOptions = group(InputOptions)
    output: Path = option(help="Model file to write.", panel=Panel.OUTPUT, flags=("--output", "-o"))
    density: DensityOptions = group(DensityOptions)
    run: RunOptions = group(RunOptions)
    place: ClusterOptions = group(ClusterOptions)
    seed: int = seed_option()

    def __post_init__(self) -> None:
        """Refuse combinations that cannot be meant."""
        super().__post_init__()
        self.place.check(device=self.run.device is not None)

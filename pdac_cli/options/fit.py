"""`pdac fit`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pdac_cli.options.checks import require_seed
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions


@dataclass(frozen=True)
class FitOptions:
    """``pdac fit``."""

    input: InputOptions
    output: Path
    density: DensityOptions = field(default_factory=DensityOptions)
    run: RunOptions = field(default_factory=RunOptions)
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse a seed that is not one."""
        require_seed(self.seed)

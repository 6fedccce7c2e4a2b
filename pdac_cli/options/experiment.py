"""`pdac experiment`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pdac_cli.options.checks import require
from pdac_cli.options.shared import RunOptions


class Scale(StrEnum):
    """How large an experiment is run."""

    FULL = "full"  # as defined
    SMALL = "small"  # as its [small] part says: for two cores


@dataclass(frozen=True)
class ExperimentOptions:
    """``pdac experiment``."""

    definition: Path | None = None
    preset: str | None = None  # instead of a definition: one that is shipped
    output: Path | None = None  # folder; None: experiments/NAME
    scale: Scale = Scale.FULL
    data: Mapping[str, str] = field(default_factory=dict)  # where each data set is
    test: Mapping[str, str] = field(default_factory=dict)  # where its test part is, if apart
    changes: Mapping[str, str] = field(default_factory=dict)  # options and axes by name, TOML values
    methods: tuple[str, ...] = ()  # of the definition's; empty: all
    seeds: int | None = None  # None: as many as defined
    side_by_side: int = 1  # runs at a time
    device: str = "auto"
    plan: bool = False  # only say what would be run
    run: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        """Refuse combinations that cannot be meant."""
        one = (self.definition is None) != (self.preset is None)
        require(one, "expected either a definition file or --preset NAME, and not both; see --list")
        require(self.seeds is None or self.seeds >= 1, f"--seeds is {self.seeds}; expected at least 1")
        require(self.side_by_side >= 1, f"--jobs is {self.side_by_side}; expected at least 1")

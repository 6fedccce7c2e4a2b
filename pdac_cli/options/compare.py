"""`pdac compare`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pdac_cli.options.checks import require, require_seed
from pdac_cli.options.select import Allocation, SelectOptions
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions


@dataclass(frozen=True)
class CompareOptions:
    """``pdac compare``."""

    input: InputOptions
    budgets: tuple[int, ...]
    methods: tuple[str, ...] = ()  # empty: all
    seeds: int = 5
    seed: int = 0  # the first one
    test: str | None = None  # feature file to test a linear head on
    output: Path | None = None  # CSV
    allocation: Allocation | None = None  # None: each method's own
    temperature: float = SelectOptions.temperature
    head: bool = False
    limit: float = 600.0  # seconds of one run beyond which a method that was not named is left out
    density: DensityOptions = field(default_factory=DensityOptions)
    run: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require_seed(self.seed)
        require(len(self.budgets) > 0, "--budget is empty; expected row numbers such as 200,500")
        for budget in self.budgets:
            require(budget >= 1, f"--budget has {budget}; expected at least 1 row to keep")
        require(len(set(self.budgets)) == len(self.budgets), "--budget names a number twice; expected each once")
        require(len(set(self.methods)) == len(self.methods), "--methods names a method twice; expected each once")
        require(self.seeds >= 1, f"--seeds is {self.seeds}; expected at least 1")
        require(self.limit > 0, f"--limit is {self.limit}; expected seconds above 0")

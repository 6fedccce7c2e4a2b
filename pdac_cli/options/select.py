"""`pdac select`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pdac_cli.options.checks import require, require_seed
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions


class Allocation(StrEnum):
    """How the budget is shared among classes."""

    PER_CLASS = "per-class"  # budget · p̂(y), drawn within the class
    BALANCED = "balanced"  # the same for every class
    JOINT = "joint"  # the paper: one draw over p̂(x|y) p̂(y)


class Eviction(StrEnum):
    """The weight with which an earlier task's stored row is given up, Eq. (11)."""

    RELATIVE = "relative"  # 1 − p̂/max p̂
    INVERSE = "inverse"  # 1/p̂
    PAPER = "paper"  # 1 − p̂, clipped at 0


PAPER_RULE = {"method": "pdac", "allocation": "joint", "eviction": "paper", "temperature": 1.0}  # as printed


@dataclass(frozen=True)
class SelectOptions:
    """``pdac select``."""

    input: InputOptions
    budget: int
    output: Path | None = None  # None: one row index a line on standard output
    model: Path | None = None  # None: fit first
    method: str = "least-error"
    allocation: Allocation | None = None  # None: the method's own
    temperature: float = 1.0  # draw ∝ p̂^T
    buffer: Path | None = None
    task: int | None = None  # None: one more than the buffer's last
    eviction: Eviction = Eviction.RELATIVE
    strict: bool = False  # a budget larger than the data is an error
    density: DensityOptions = field(default_factory=DensityOptions)
    run: RunOptions = field(default_factory=RunOptions)
    seed: int = 0
    head: bool = False  # train a linear head where a method needs logits and the files have none

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require_seed(self.seed)
        require(self.budget >= 1, f"--budget is {self.budget}; expected at least 1 row to keep")
        require(
            0 <= abs(self.temperature) < float("inf"),
            f"--temperature is {self.temperature}; expected a finite number (1: the paper, 0: uniform)",
        )
        require(self.task is None or self.task >= 1, f"--task is {self.task}; expected 1 or more")

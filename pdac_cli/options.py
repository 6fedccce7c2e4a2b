"""One frozen dataclass per command: the only copy of each default (standard library only)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pdac_cli.errors import UsageError


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


class Solver(StrEnum):
    """How the top directions of Eq. (3) are found."""

    FAST = "fast"
    EXACT = "exact"


@dataclass(frozen=True)
class InputOptions:
    """Where the rows come from and what to do with rows that cannot be used."""

    paths: tuple[str, ...] = ()
    features_key: str | None = None  # None: found by its common names
    labels_key: str | None = None
    drop_nonfinite: bool = False
    ignore_label: int | None = None
    allow_external: bool = False
    chunk_rows: int | None = None  # rows read at once; None: from the memory bound. Never changes the answer.


@dataclass(frozen=True)
class DensityOptions:
    """The projected Gaussian mixture, Eqs. (1)–(9)."""

    dim: int = 10
    components: int = 7
    iterations: int = 20
    ridge: float = 1e-6  # times the class's mean projected variance
    tol: float | None = None  # None: run all iterations
    solver: Solver = Solver.FAST

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require(self.dim >= 1, f"--dim is {self.dim}; expected at least 1")
        require(self.components >= 1, f"--components is {self.components}; expected at least 1")
        require(self.iterations >= 0, f"--iterations is {self.iterations}; expected 0 or more")
        # Below this, rounding alone makes a covariance indefinite.
        require(1e-12 <= self.ridge < float("inf"), f"--ridge is {self.ridge}; expected a number of 1e-12 or more")
        require(self.tol is None or self.tol >= 0, f"--tol is {self.tol}; expected 0 or more, or leave it out")


@dataclass(frozen=True)
class RunOptions:
    """How the work is done; nothing here changes the answer."""

    memory: int | None = None  # bytes for the working set; None: a safe share of what the machine has
    jobs: int | None = None  # worker threads; None: the cores this process may use
    quiet: bool = False
    verbose: bool = False
    json: bool = False
    force: bool = False  # overwrite the output

    def __post_init__(self) -> None:
        """Refuse impossible sizes."""
        require(self.jobs is None or self.jobs >= 1, f"--jobs is {self.jobs}; expected at least 1")


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


@dataclass(frozen=True)
class SelectOptions:
    """``pdac select``."""

    input: InputOptions
    budget: int
    output: Path | None = None  # None: one row index a line on standard output
    model: Path | None = None  # None: fit first
    method: str = "pdac"
    allocation: Allocation = Allocation.PER_CLASS
    temperature: float = 1.0  # draw ∝ p̂^T
    buffer: Path | None = None
    task: int | None = None  # None: one more than the buffer's last
    eviction: Eviction = Eviction.RELATIVE
    strict: bool = False  # a budget larger than the data is an error
    density: DensityOptions = field(default_factory=DensityOptions)
    run: RunOptions = field(default_factory=RunOptions)
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require_seed(self.seed)
        require(self.budget >= 1, f"--budget is {self.budget}; expected at least 1 row to keep")
        require(
            0 <= abs(self.temperature) < float("inf"),
            f"--temperature is {self.temperature}; expected a finite number (1: the paper, 0: uniform)",
        )
        require(self.task is None or self.task >= 1, f"--task is {self.task}; expected 1 or more")


def require(condition: bool, message: str) -> None:
    """Raise a usage error unless the condition holds."""
    if not condition:
        raise UsageError(message)


def require_seed(seed: int) -> None:
    """Raise a usage error unless the seed is a whole number from 0 to 2**63 − 1."""
    require(0 <= seed < 2**63, f"--seed is {seed}; expected a whole number from 0 to 2^63 - 1")

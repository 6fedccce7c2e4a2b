"""Options that several commands have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pdac_cli.options.checks import require


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


class Solver(StrEnum):
    """How the top directions of Eq. (3) are found."""

    FAST = "fast"
    EXACT = "exact"


@dataclass(frozen=True)
class DensityOptions:
    """The projected Gaussian mixture, Eqs. (1)–(9)."""

    dim: int = 10
    components: int = 7
    iterations: int = 20
    ridge: float = 1e-6  # times the class's mean projected variance
    tol: float | None = None  # None: run all iterations
    solver: Solver = Solver.FAST
    normalize: bool = False  # divide rows by their length first

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
    device: str | None = None  # torch device of the fit's products; None: NumPy
    quiet: bool = False
    verbose: bool = False
    json: bool = False
    force: bool = False  # overwrite the output

    def __post_init__(self) -> None:
        """Refuse impossible sizes."""
        require(self.jobs is None or self.jobs >= 1, f"--jobs is {self.jobs}; expected at least 1")

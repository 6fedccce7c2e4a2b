"""`pdac stream`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pdac_cli.options.checks import require, require_seed
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions


class StreamMethod(StrEnum):
    """What is kept of a stream, what is replayed and how rows are weighed."""

    SPDAC = "spdac"  # by its estimated density, the paper's Algorithm 2
    ER = "er"  # all alike: plain reservoir sampling
    ER_MIR = "er-mir"  # replay what the new rows would harm
    GSS = "gss"  # rows whose gradients differ
    ASER = "aser"  # by nearest-neighbour Shapley values
    METASP = "metasp"  # by influence on old and new tasks
    HERDING = "herding"  # by what it does for the mean of its class's stored rows


class Acceptance(StrEnum):
    """When a row enters a full buffer, Eq. (19); c is uniform on {1, …, n}."""

    DENSITY = "density"  # c ≤ N·ε: denser rows are kept more often
    PAPER = "paper"  # c·ε ≤ N, as printed: denser rows are kept less often


class StreamAllocation(StrEnum):
    """Which rows a row's density is compared with, Eq. (18)."""

    PER_CLASS = "per-class"  # the latest rows of its own class
    JOINT = "joint"  # the paper: all rows of its batch


class StreamSolver(StrEnum):
    """How the top directions of Eq. (15) follow the stream."""

    WARM = "warm"  # a subspace step on the D × D covariance, from the last directions
    EXACT = "exact"  # the covariance decomposed afresh: the direct transcription
    SKETCH = "sketch"  # a low-rank factor in place of the covariance, for D in the thousands


@dataclass(frozen=True)
class StreamDensityOptions:
    """The streamed projected Gaussian mixture, Eqs. (13)–(17)."""

    dim: int = DensityOptions.dim
    components: int = DensityOptions.components
    ridge: float = DensityOptions.ridge
    beta: float = 0.5
    # Rows of a class from one update of its density to the next; fewer while it has seen fewer. 1: every batch.
    step_rows: int = 256
    solver: StreamSolver = StreamSolver.WARM

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        DensityOptions(self.dim, self.components, ridge=self.ridge)
        require(0 < self.beta <= 1, f"--beta is {self.beta}; expected more than 0 and at most 1")
        require(self.step_rows >= 1, f"--step-rows is {self.step_rows}; expected at least 1")


@dataclass(frozen=True)
class MethodOptions:
    """What the streaming methods other than SPDAC have to set; each uses some of it."""

    candidates: int = 128  # stored rows that er-mir and aser choose from
    neighbours: int = 3  # K of aser's values
    gradient_batches: int = 10  # of stored rows, that gss compares a gradient with

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require(self.candidates >= 1, f"--candidates is {self.candidates}; expected at least 1 row")
        require(self.neighbours >= 1, f"--neighbours is {self.neighbours}; expected at least 1")
        batches = self.gradient_batches
        require(batches >= 1, f"--gradient-batches is {batches}; expected at least 1")


PAPER_RULE = {"method": "spdac", "allocation": "joint", "acceptance": "paper", "step_rows": 1, "temperature": 1.0}


@dataclass(frozen=True)
class StreamOptions:
    """``pdac stream``."""

    input: InputOptions
    budget: int
    output: Path
    state: Path | None = None
    model: Path | None = None  # where to write the streamed model
    trace: Path | None = None
    method: StreamMethod = StreamMethod.HERDING
    acceptance: Acceptance = Acceptance.DENSITY
    allocation: StreamAllocation = StreamAllocation.PER_CLASS
    window: int = 32  # the latest rows of a class that a density is compared with; 0: those of the batch
    temperature: float = 1.0  # weigh by p̂^T
    batch: int = 32
    state_every: int | None = None  # rows; None: so that state files cost little beside the rows read
    follow: bool = False
    timeout: float = 60.0  # seconds without a new row after which a followed file counts as complete
    density: StreamDensityOptions = field(default_factory=StreamDensityOptions)
    settings: MethodOptions = field(default_factory=MethodOptions)
    run: RunOptions = field(default_factory=RunOptions)
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require_seed(self.seed)
        require(self.budget >= 1, f"--budget is {self.budget}; expected at least 1 row to keep")
        require(self.batch >= 1, f"--batch is {self.batch}; expected at least 1 row")
        require(self.window >= 0, f"--window is {self.window}; expected 0 or more rows")
        require(
            self.state_every is None or self.state_every >= 1,
            f"--state-every is {self.state_every}; expected 1 or more",
        )
        require(
            self.state_every is None or self.state is not None,
            "--state-every is given without --state; add --state state.h5",
        )
        require(self.timeout >= 0, f"--timeout is {self.timeout}; expected 0 or more seconds")
        require(
            0 <= abs(self.temperature) < float("inf"),
            f"--temperature is {self.temperature}; expected a finite number (1: the paper, 0: uniform)",
        )

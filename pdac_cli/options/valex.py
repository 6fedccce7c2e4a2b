"""`pdac valex`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pdac_cli.options.checks import require, require_seed
from pdac_cli.options.shared import DensityOptions, RunOptions


class Strategy(StrEnum):
    """What rows are drawn in proportion to."""

    UNIFORM = "uniform"
    DENSITY = "p"  # the true density p(z)
    INVERSE = "1/p"
    ESTIMATE = "p-hat"  # the projected Gaussian mixture on a trained network's features


@dataclass(frozen=True)
class NetworkOptions:
    """The network of a trial and how it learns; the paper's but for the batch, which it does not give."""

    hidden: int = 64  # units of both hidden layers
    epochs: int = 50
    warmup: int = 10  # epochs in which the step grows; from then on it falls as a cosine
    lr: float = 0.1
    batch: int = 32

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require(self.hidden >= 1, f"--hidden is {self.hidden}; expected at least 1")
        require(self.epochs >= 1, f"--epochs is {self.epochs}; expected at least 1")
        require(0 <= self.warmup < self.epochs, f"--warmup is {self.warmup}; expected fewer than --epochs")
        require(0 < self.lr < float("inf"), f"--lr is {self.lr}; expected a number above 0")
        require(self.batch >= 1, f"--batch is {self.batch}; expected at least 1")


@dataclass(frozen=True)
class ValexOptions:
    """``pdac valex``."""

    output: Path  # folder
    trials: int = 100
    c1_sizes: tuple[int, ...] = (10, 100, 1000, 10000)
    c2_sizes: tuple[int, ...] = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
    rows: int = 100_000  # to draw from, and as many to test on
    network: NetworkOptions = field(default_factory=NetworkOptions)
    density: DensityOptions = field(default_factory=lambda: DensityOptions(5, 3, 20, ridge=1e-6, normalize=False))
    seed: int = 0
    run: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        require_seed(self.seed)
        require(self.trials >= 4, f"--trials is {self.trials}; expected at least 4, for a variance and its interval")
        require(self.rows >= 1000, f"--rows is {self.rows}; expected at least 1000")
        for name, sizes in (("c1", self.c1_sizes), ("c2", self.c2_sizes)):
            require(len(sizes) > 0, f"--{name} is empty; expected buffer sizes such as 10,100")
            require(len(set(sizes)) == len(sizes), f"--{name} names a size twice; expected each once")
            wrong = [size for size in sizes if not 1 <= size <= self.rows]
            require(not wrong, f"--{name} has {(wrong or [0])[0]}; expected sizes from 1 to --rows {self.rows}")

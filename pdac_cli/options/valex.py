"""`pdac valex`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pdac_cli.options.checks import Options, require
from pdac_cli.options.declare import Panel, group, option
from pdac_cli.options.shared import DensityOptions, RunOptions, VerbOptions, seed_option
from pdac_cli.options.text import parse_rows


class Strategy(StrEnum):
    """What rows are drawn in proportion to."""

    UNIFORM = "uniform"
    DENSITY = "p"  # the true density p(z)
    INVERSE = "1/p"
    ESTIMATE = "p-hat"  # the projected Gaussian mixture on a trained network's features


def _sizes(flag: str, text: str) -> tuple[int, ...]:
    return tuple(sorted(parse_rows(flag, text, "buffer sizes such as 10,100")))


@dataclass(frozen=True, kw_only=True)
class NetworkOptions(Options):
    """The network of a trial and how it learns; the paper's but for the batch, which it does not give."""

    hidden: int = option(64, help="Units of each hidden layer.", panel=Panel.NETWORK, minimum=1)
    epochs: int = option(50, help="Passes over the buffer.", panel=Panel.NETWORK, minimum=1)
    # From then on the step falls as a cosine.
    warmup: int = option(
        10, help="Of these, passes with a growing step.", panel=Panel.NETWORK, minimum=0,
        expected="0 or more, and fewer than --epochs",
    )  # fmt: skip
    lr: float = option(0.1, help="Largest step of SGD.", panel=Panel.NETWORK, above=0)
    batch: int = option(32, help="Rows per step; the paper gives none.", panel=Panel.NETWORK, minimum=1)

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        super().__post_init__()
        require(self.warmup < self.epochs, f"--warmup is {self.warmup}; expected fewer than --epochs")


@dataclass(frozen=True, kw_only=True)
class ValexOptions(VerbOptions):
    """``pdac valex``."""

    output: Path = option(help="Folder for tables and figures.", panel=Panel.OUTPUT, flags=("--output", "-o"))
    trials: int = option(
        100, help="Networks per strategy and buffer size.", panel=Panel.TASKS, minimum=4,
        expected="at least 4, for a variance and its interval",
    )  # fmt: skip
    c1_sizes: tuple[int, ...] = option(
        (10, 100, 1000, 10000), help="Buffer sizes of C1.", panel=Panel.TASKS, flags=("--c1",), metavar="N,N",
        parse=_sizes,
    )  # fmt: skip
    c2_sizes: tuple[int, ...] = option(
        (10, 20, 50, 100, 200, 500, 1000, 2000, 5000), help="Buffer sizes of C2.", panel=Panel.TASKS, flags=("--c2",),
        metavar="N,N", parse=_sizes,
    )  # fmt: skip
    rows: int = option(
        100_000, help="Rows to draw from, and as many to test on.", panel=Panel.TASKS, minimum=1000
    )  # fmt: skip
    grid: bool = option(
        False, help="Instead: C2 by batch (32, 256, full), floor (1e-6, 1e-4, 1e-2) and start of the estimate.",
        panel=Panel.TASKS,
    )  # fmt: skip
    network: NetworkOptions = group(NetworkOptions)
    density: DensityOptions = field(default_factory=lambda: DensityOptions(dim=5, components=3))
    seed: int = seed_option()
    run: RunOptions = group(RunOptions, leave_out=("memory", "device"))

    def __post_init__(self) -> None:
        """Refuse values no data could make sense of."""
        super().__post_init__()
        for name, sizes in (("c1", self.c1_sizes), ("c2", self.c2_sizes)):
            require(len(sizes) > 0, f"--{name} is empty; expected buffer sizes such as 10,100")
            require(len(set(sizes)) == len(sizes), f"--{name} names a size twice; expected each once")
            wrong = [size for size in sizes if not 1 <= size <= self.rows]
            require(not wrong, f"--{name} has {(wrong or [0])[0]}; expected sizes from 1 to --rows {self.rows}")

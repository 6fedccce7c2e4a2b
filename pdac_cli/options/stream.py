"""`pdac stream`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pdac_cli.options.checks import Options, require
from pdac_cli.options.declare import Applies, Panel, declared, group, option
from pdac_cli.options.effect import used_by
from pdac_cli.options.methods import STREAM_CHOICES, MethodOptions, StreamMethod
from pdac_cli.options.select import DensityKind, Rule, rule_option, temperature_option
from pdac_cli.options.shared import (
    GivenOptions,
    InputOptions,
    RunOptions,
    Units,
    VerbOptions,
    components_option,
    dim_option,
    ridge_option,
    seed_option,
    units_option,
)

STREAM_STEER = 10.0  # a little better than 30, and 100 is worse


class Acceptance(StrEnum):
    """When a row enters a full buffer, Eq. (19); c is uniform on {1, …, n}."""

    DENSITY = "density"  # c ≤ N·ε: denser rows are kept more often
    PAPER = "paper"  # c·ε ≤ N, as printed: denser rows are kept less often


class StreamAllocation(StrEnum):
    """Which rows a row's density is compared with, Eq. (18)."""

    PER_CLASS = "per-class"  # the latest rows of its own class
    JOINT = "joint"  # the paper: all rows of its batch


class Updates(StrEnum):
    """How a class's moments and mixture follow its rows, Eqs. (14) and (15)."""

    CARRIED = "carried"  # the moments are those of all rows seen, the mixture is carried into the moved basis
    PRINTED = "printed"  # the paper's: the shift of the mean is dropped, the mixture keeps its coordinates


class StreamSolver(StrEnum):
    """How the top directions of Eq. (15) follow the stream."""

    WARM = "warm"  # a subspace step on the D × D covariance, from the last directions
    EXACT = "exact"  # the covariance decomposed afresh: the direct transcription
    SKETCH = "sketch"  # a low-rank factor in place of the covariance, for D in the thousands


SPDAC = used_by(StreamMethod.SPDAC)
_BY_CLASS = Applies("--density class", lambda options: options.density_kind is DensityKind.CLASS)
_UNPOOLED = Applies("--allocation per-class", lambda options: options.allocation is not StreamAllocation.JOINT)


def beta_option(applies: tuple[Applies, ...] = ()) -> Any:
    """Declare --beta, the step of the streaming EM."""
    return option(
        0.5, help="Step of the streaming mixture's moving averages, Eq. (17).", panel=Panel.STREAMING, above=0,
        maximum=1, expected="more than 0 and at most 1", applies=applies,
    )  # fmt: skip


def step_rows_option(applies: tuple[Applies, ...] = ()) -> Any:
    """Declare --step-rows; a class that has seen fewer rows is updated sooner."""
    return option(
        256, help="Rows of a class from one update of its streamed density to the next; 1: every batch.",
        panel=Panel.STREAMING, minimum=1, applies=applies,
    )  # fmt: skip


def updates_option(applies: tuple[Applies, ...] = ()) -> Any:
    """Declare --updates."""
    return option(
        Updates.CARRIED, help="Streamed densities: exact moments and a mixture carried into the moved basis, "
        "or neither, as printed.", panel=Panel.STREAMING, applies=applies,
    )  # fmt: skip


def acceptance_option(applies: tuple[Applies, ...]) -> Any:
    """Declare --acceptance."""
    return option(
        Acceptance.DENSITY, help="Streams: density keeps dense rows more often; paper is the printed rule.",
        panel=Panel.STREAMING, applies=applies,
    )  # fmt: skip


def window_option(applies: tuple[Applies, ...]) -> Any:
    """Declare --window."""
    return option(
        32, help="Latest rows of its class that a streamed density is compared with; 0: those of the batch.",
        panel=Panel.STREAMING, minimum=0, expected="0 or more rows", applies=applies,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StreamDensityOptions(Options):
    """The streamed projected Gaussian mixture, Eqs. (13)–(17)."""

    dim: int = dim_option()
    components: int = components_option()
    ridge: float = ridge_option()
    units: Units = units_option()
    beta: float = beta_option()
    step_rows: int = step_rows_option()
    updates: Updates = updates_option()
    solver: StreamSolver = option(
        StreamSolver.WARM, help="How the projection follows; sketch: for thousands of features.", panel=Panel.DENSITY
    )


STREAM_DENSITY = tuple(one.name for one in declared(StreamDensityOptions))
RELATIVE_STEER = Applies(
    "--density relative", lambda options: options.density_kind is DensityKind.RELATIVE or options.steer == 0
)
PAPER_RULE: Mapping[str, Any] = {
    "method": StreamMethod.SPDAC, "density_kind": DensityKind.CLASS, "steer": 0.0,
    "allocation": StreamAllocation.JOINT, "acceptance": Acceptance.PAPER, "step_rows": 1, "temperature": 1.0,
    "units": Units.ABSOLUTE, "updates": Updates.PRINTED,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StreamRule(GivenOptions):
    """What decides which rows of a stream are kept, wherever the rows come from."""

    budget: int = option(
        help="How many rows to keep.", panel=Panel.KEEP, flags=("--budget", "-n"), minimum=1,
        expected="at least 1 row to keep",
    )  # fmt: skip
    preset: Rule | None = rule_option(PAPER_RULE, applies=(SPDAC,))
    method: StreamMethod = option(
        StreamMethod.SPDAC, help="Streaming method, one of those above.", panel=Panel.KEEP, choices=STREAM_CHOICES
    )
    density_kind: DensityKind = option(
        DensityKind.RELATIVE, help="spdac: by density relative to the other classes; class: Algorithm 2 as printed.",
        panel=Panel.KEEP, flags=("--density",), applies=(SPDAC,),
    )  # fmt: skip
    steer: float = option(
        STREAM_STEER, help="spdac: how much the row given up depends on those kept; 0: not at all.", panel=Panel.KEEP,
        minimum=0, applies=(SPDAC, RELATIVE_STEER),
    )  # fmt: skip
    acceptance: Acceptance = acceptance_option((SPDAC, _BY_CLASS))
    allocation: StreamAllocation = option(
        StreamAllocation.PER_CLASS, help="Compare a density within its class, or over the batch as in the paper.",
        panel=Panel.STREAMING, applies=(SPDAC, _BY_CLASS),
    )  # fmt: skip
    window: int = window_option((SPDAC, _BY_CLASS, _UNPOOLED))
    temperature: float = temperature_option(
        "Weigh by density^T: 1 is the paper's rule, 0: the density does not count.", (SPDAC,)
    )
    batch: int = option(
        32, help="Rows that arrive together.", panel=Panel.STREAMING, minimum=1, expected="at least 1 row"
    )  # fmt: skip
    density: StreamDensityOptions = group(
        StreamDensityOptions, applies=dict.fromkeys(STREAM_DENSITY, (SPDAC, _BY_CLASS))
    )
    settings: MethodOptions = group(MethodOptions)
    seed: int = seed_option()

    @property
    def run_methods(self) -> tuple[str, ...]:
        """The method."""
        return (self.method,)

    @classmethod
    def implied(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the paper's values with its preset."""
        return PAPER_RULE if given.get("preset") else {}


@dataclass(frozen=True, kw_only=True)
class StreamOptions(StreamRule, VerbOptions):
    """``pdac stream``."""

    input: InputOptions = group(InputOptions, leave_out=("chunk_rows", "labels"))
    output: Path = option(
        help="Buffer to write: .json .h5 .txt .npy.", panel=Panel.OUTPUT, flags=("--output", "-o")
    )  # fmt: skip
    state: Path | None = option(
        None, help="State file: a rerun goes on from it, and so do later calls with new files.", panel=Panel.OUTPUT
    )
    model: Path | None = option(
        None, help="--density class: also write the streamed model.", panel=Panel.OUTPUT, applies=(SPDAC, _BY_CLASS)
    )
    trace: Path | None = option(
        None, help="CSV file: rows/s, turnover, class counts, log-density along the stream.", panel=Panel.OUTPUT
    )
    state_every: int | None = option(
        None, help="Rows from one state file to the next.", panel=Panel.OUTPUT, minimum=1, expected="1 or more",
        otherwise="so that they cost little",
    )  # fmt: skip
    follow: bool = option(
        False, help="The last file is still being written (SWMR): wait for its rows.", panel=Panel.INPUT
    )
    timeout: float = option(
        60.0, help="Seconds without a new row that end --follow; a file FEATS.done ends it at once.",
        panel=Panel.INPUT, metavar="SECONDS", minimum=0, finite=False, expected="0 or more seconds",
        applies=(Applies("--follow", lambda options: options.follow),),
    )  # fmt: skip
    run: RunOptions = group(RunOptions, leave_out=("memory", "jobs", "device"))

    def __post_init__(self) -> None:
        """Refuse combinations that cannot be meant."""
        super().__post_init__()
        stateless = self.state_every is not None and self.state is None
        require(not stateless, "--state-every is given without --state; add --state state.h5")

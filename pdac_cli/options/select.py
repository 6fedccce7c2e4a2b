"""`pdac select`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pdac_cli.options.checks import Options, require
from pdac_cli.options.cluster import ClusterOptions
from pdac_cli.options.declare import Applies, Panel, group, option
from pdac_cli.options.effect import used_by
from pdac_cli.options.methods import ABOUT, DRAWN, OwnOptions
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions, Units, VerbOptions, seed_option


class Allocation(StrEnum):
    """How the budget is shared among classes."""

    PER_CLASS = "per-class"  # budget · p̂(y), drawn within the class
    BALANCED = "balanced"  # the same for every class
    JOINT = "joint"  # the paper: one draw over p̂(x|y) p̂(y)


class Eviction(StrEnum):
    """Which stored rows an earlier task gives up: by weights, Eq. (11), or by the steered draw, Eq. (25)."""

    STEERED = "steered"  # those that the steered draw takes last; without steering, as relative
    RELATIVE = "relative"  # 1 − p̂/max p̂
    INVERSE = "inverse"  # 1/p̂
    PAPER = "paper"  # 1 − p̂, clipped at 0


class DensityKind(StrEnum):
    """What rows are drawn in proportion to."""

    RELATIVE = "relative"  # r(z): the class's density over that of all classes, Eq. (23)
    CLASS = "class"  # p̂(z): the class's own projected mixture, Eq. (9)


class SteerBy(StrEnum):
    """What a row is to help with beside those kept already, g of Eq. (24)."""

    ERROR = "error"  # telling all classes apart: for sets whose classes are all there
    MEAN = "mean"  # the mean of its class: for classes that come task by task


class Rule(StrEnum):
    """Rules that set several options at once."""

    PAPER = "paper"


PAPER_RULE: Mapping[str, Any] = {  # as printed
    "method": "pdac", "density_kind": DensityKind.CLASS, "steer": 0.0, "normalize": False,
    "units": Units.ABSOLUTE, "allocation": Allocation.JOINT, "eviction": Eviction.PAPER, "temperature": 1.0,
}  # fmt: skip


def rule_option(rule: Mapping[str, Any], applies: tuple[Applies, ...] = ()) -> Any:
    """Declare --preset, which stands for other options; those named on the command line stay."""
    text = " ".join(_flag(name, value) for name, value in rule.items())
    return option(None, help=f"paper: the rule as printed, {text}.", panel=Panel.KEEP, metavar="paper", applies=applies)


def _flag(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return f"--{'' if value else 'no-'}{name}"
    number = f"{value:g}" if isinstance(value, float) else value
    return f"--{name.removesuffix('_kind').replace('_', '-')} {number}"


DRAWS = used_by(DRAWN)
STEERED = Applies("a steered draw", lambda options: options.draw.steer > 0 and not options.is_joint)
BY_CLASS = Applies("--density class", lambda options: options.draw.density_kind is DensityKind.CLASS)
_FITTED_HERE = Applies(
    "the fit, and --model is fitted already: give it to pdac fit", lambda options: options.model is None
)
CLASS_FIT = ("dim", "components", "iterations", "ridge", "tol", "solver", "units")  # of the density of each class
WEIGHED = used_by(*(name for name, about in ABOUT.items() if about.weighs))
NEEDS_LOGITS = used_by(*(name for name, about in ABOUT.items() if about.logits))


def temperature_option(help: str, applies: tuple[Applies, ...]) -> Any:  # noqa: A002
    """Declare --temperature."""
    expected = "a finite number (1: the paper, 0: uniform)"
    return option(1.0, help=help, panel=Panel.KEEP, expected=expected, applies=applies)


@dataclass(frozen=True, kw_only=True)
class DrawOptions(Options):
    """How pdac draws, Eqs. (10) and (24)."""

    density_kind: DensityKind = option(
        DensityKind.RELATIVE, help="Draw by the density relative to the other classes, or within the class alone.",
        panel=Panel.KEEP, flags=("--density",),
    )  # fmt: skip
    steer: float = option(
        30.0, help="How much a draw is steered by the rows kept already; 0: not at all.", panel=Panel.KEEP, minimum=0
    )
    steer_by: SteerBy | None = option(
        None, help="What a row is to help with: telling all classes apart, or the mean of its class.",
        panel=Panel.KEEP, otherwise="error; mean where classes come in tasks (--task, --buffer)",
    )  # fmt: skip

    def check(self, allocation: Allocation | None) -> None:
        """Refuse a steered draw over all classes at once."""
        require(
            allocation is not Allocation.JOINT or self.steer == 0,
            "--allocation joint draws from all classes at once, and --steer works within classes; "
            "expected --steer 0 with it, or --allocation balanced",
        )


DRAW_APPLIES = {"density_kind": (DRAWS,), "steer": (DRAWS,), "steer_by": (DRAWS, STEERED)}


class Printed(StrEnum):
    """What text says of the rows that are kept."""

    ROWS = "rows"  # their numbers
    IDS = "ids"  # what they are called in their files


@dataclass(frozen=True, kw_only=True)
class SelectOptions(VerbOptions):
    """``pdac select``."""

    input: InputOptions = group(InputOptions)
    budget: int = option(
        help="How many rows to keep.", panel=Panel.KEEP, flags=("--budget", "-n"), minimum=1,
        expected="at least 1 row to keep",
    )  # fmt: skip
    clusters: int | None = option(
        None, help="Without labels: part the rows by k-means into so many clusters, which are classes then.",
        panel=Panel.INPUT, minimum=2,
    )  # fmt: skip
    output: Path | None = option(
        None, help="Index file: .txt .npy .json .h5; or a table: .csv .parquet.", panel=Panel.OUTPUT,
        flags=("--output", "-o"),
        otherwise="print one row index a line",
    )  # fmt: skip
    printed: Printed = option(
        Printed.ROWS, help="What to print, or to write to .txt: row numbers, or what the files call the rows.",
        panel=Panel.OUTPUT, flags=("--print",),
    )  # fmt: skip
    model: Path | None = option(
        None, help="Model from `pdac fit`.", panel=Panel.DENSITY, otherwise="fit first", applies=(DRAWS,)
    )
    preset: Rule | None = rule_option(PAPER_RULE)
    method: str = option(
        "pdac", help="Selection method, one of those above.", panel=Panel.KEEP, choices=tuple(ABOUT),
    )  # fmt: skip
    allocation: Allocation | None = option(
        None, help="How the budget is shared among classes; joint: all rows are one pool, as in the paper.",
        panel=Panel.KEEP, otherwise="the method's own",
    )  # fmt: skip
    temperature: float = temperature_option(
        "Draw in proportion to density^T: 1 is the paper's rule, 0 is uniform.", (DRAWS,)
    )
    buffer: Path | None = option(
        None, help="Index file (.json, .h5) of the earlier tasks, to be shrunk and added to.", panel=Panel.KEEP
    )
    task: int | None = option(
        None, help="Number of this task.", panel=Panel.KEEP, minimum=1, expected="1 or more",
        otherwise="one more than the buffer's last",
    )  # fmt: skip
    draw: DrawOptions = group(DrawOptions, applies=DRAW_APPLIES)
    own: OwnOptions = group(OwnOptions)
    eviction: Eviction = option(
        Eviction.STEERED, help="Which rows earlier tasks give up first.", panel=Panel.KEEP,
        applies=(Applies("--buffer", lambda options: options.buffer is not None), WEIGHED),
    )  # fmt: skip
    strict: bool = option(
        False, help="Refuse a budget larger than the data, and a model or buffer of other data.", panel=Panel.KEEP
    )
    density: DensityOptions = group(
        DensityOptions,
        applies={"normalize": (DRAWS, _FITTED_HERE), **dict.fromkeys(CLASS_FIT, (DRAWS, _FITTED_HERE, BY_CLASS))},
    )
    run: RunOptions = group(RunOptions, applies={"device": (DRAWS, _FITTED_HERE, BY_CLASS)})
    place: ClusterOptions = group(ClusterOptions)
    seed: int = seed_option()
    head: bool = option(
        False, help="Where a method needs logits, take those of a linear head trained on the features.",
        panel=Panel.KEEP, applies=(NEEDS_LOGITS,),
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Refuse combinations that cannot be meant."""
        super().__post_init__()
        self.place.check(device=self.run.device is not None, clusters=bool(self.clusters))
        if self.method == DRAWN:
            self.draw.check(self.allocation)
        labelled = self.input.labels is not None or self.input.labels_key is not None
        require(
            self.clusters is None or not labelled,
            "--clusters is given with labels, whose place the clusters would take; expected one of them; "
            "leave --labels and --labels-key out",
        )
        require(
            self.clusters is None or self.model is None,
            "--clusters is given with --model, whose classes are others; expected one of them; leave --model out",
        )

    @property
    def run_methods(self) -> tuple[str, ...]:
        """The method."""
        return (self.method,)

    @property
    def is_joint(self) -> bool:
        """Whether all classes are drawn from at once."""
        return self.allocation is Allocation.JOINT

    @classmethod
    def implied(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the paper's values with its preset."""
        return PAPER_RULE if given.get("preset") else {}

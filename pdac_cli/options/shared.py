"""Options that several verbs have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pdac_cli.options.checks import Options, require
from pdac_cli.options.declare import Panel, group, option
from pdac_cli.options.effect import Reduced, refuse_idle
from pdac_cli.options.text import parse_bytes, parse_shape

LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class InputOptions(Options):
    """Where the rows come from and what to do with rows that cannot be used."""

    paths: tuple[str, ...] = option(
        (), help="Feature files (HDF5, npy, npz, Parquet, safetensors, pt, h5ad), folders of them, or a quoted glob.",
        panel=Panel.INPUT, argument=True, required=True, metavar="FEATS",
    )  # fmt: skip
    features_key: str | None = option(
        None, help="Name of the features in the files.", panel=Panel.INPUT, metavar="NAME", otherwise="a common name"
    )
    labels_key: str | None = option(
        None, help="Name of the labels in the files.", panel=Panel.INPUT, metavar="NAME", otherwise="a common name"
    )
    labels: str | None = option(
        None, help="Labels in a file of their own: csv, txt, npy, or any that holds features.", panel=Panel.INPUT,
        metavar="FILE[:KEY]",
        otherwise="beside the features",
    )  # fmt: skip
    shape: tuple[int, int, str] | None = option(
        None, help="Of a file of raw numbers: its columns, or rows x columns, and their type if not float32.",
        panel=Panel.INPUT, metavar="[N]xD[:TYPE]", parse=parse_shape,
    )  # fmt: skip
    no_labels: bool = option(False, help="Take all rows as one class.", panel=Panel.INPUT)
    ids_key: str | None = option(
        None, help="Name of what rows are called in the files.", panel=Panel.INPUT, metavar="NAME",
        otherwise="a common name, if there is one",
    )  # fmt: skip
    drop_nonfinite: bool = option(
        False, help="Leave out rows with NaN or Inf instead of stopping.", panel=Panel.INPUT
    )  # fmt: skip
    ignore_label: int | None = option(None, help="Leave out rows with this label.", panel=Panel.INPUT)
    allow_external: bool = option(False, help="Follow links and storage outside the files.", panel=Panel.INPUT)
    chunk_rows: int | None = option(
        None, help="Rows read at once; never changes the answer.", panel=Panel.RESOURCES, minimum=1,
        otherwise="from the memory bound",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Refuse two sources of labels."""
        super().__post_init__()
        both = [flag for flag, given in (
            ("--no-labels", self.no_labels), ("--labels", self.labels), ("--labels-key", self.labels_key)
        ) if given]  # fmt: skip
        require(
            len(both) < 2,
            f"{' and '.join(both)} are given; expected one source of labels; leave one out "
            "(a name inside a labels file is --labels FILE:NAME)",
        )
        ignored = self.no_labels and self.ignore_label is not None
        require(not ignored, "--ignore-label is given with --no-labels, where there are none; leave one of them out")


class Units(StrEnum):
    """What the first covariances of EM and the ridge are measured in."""

    CLASS = "class"  # the class's mean projected variance: the answer does not depend on the features' scale
    ABSOLUTE = "absolute"  # the features' own: Σ starts at the identity, as printed

    def variance(self, of_class: float, unit: float) -> float:
        """Return the unit's variance for a class whose rows are divided by `unit`."""
        return of_class if self is Units.CLASS else unit**-2


class Solver(StrEnum):
    """How the top directions of Eq. (3) are found."""

    FAST = "fast"
    EXACT = "exact"


def dim_option() -> Any:
    """Declare --dim, which fitted and streamed densities have."""
    return option(10, help="Projection dimensions d per class.", panel=Panel.DENSITY, minimum=1)


def components_option() -> Any:
    """Declare --components."""
    return option(7, help="Gaussian components L per class.", panel=Panel.DENSITY, minimum=1)


def ridge_option() -> Any:
    """Declare --ridge; below its least value, rounding alone makes a covariance indefinite."""
    return option(
        1e-6, help="Added to each covariance, in the units of --units.", panel=Panel.DENSITY,
        minimum=1e-12, expected="a number of 1e-12 or more",
    )  # fmt: skip


def units_option() -> Any:
    """Declare --units."""
    return option(
        Units.CLASS, help="EM starts at the identity times this, and so does --ridge count: the class's mean projected "
        "variance, or 1 as the paper prints.", panel=Panel.DENSITY,
    )  # fmt: skip


def seed_option() -> Any:
    """Declare --seed, which every verb has that draws random numbers."""
    return option(
        0, help="Seed of every random number.", panel=Panel.RESOURCES, minimum=0, maximum=LARGEST_SEED,
        expected="a whole number from 0 to 2^63 - 1",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class DensityOptions(Options):
    """The projected Gaussian mixture, Eqs. (1)–(9)."""

    dim: int = dim_option()
    components: int = components_option()
    iterations: int = option(20, help="EM steps G.", panel=Panel.DENSITY, minimum=0)
    ridge: float = ridge_option()
    units: Units = units_option()
    tol: float | None = option(
        None, help="Stop a class's EM when a step gains less than this.", panel=Panel.DENSITY, minimum=0,
        otherwise="run all steps", expected="0 or more, or leave it out",
    )  # fmt: skip
    solver: Solver = option(Solver.FAST, help="How the projection is found.", panel=Panel.DENSITY)
    normalize: bool = option(
        True, help="Divide rows by their length first.", panel=Panel.DENSITY,
        flags=("--normalize/--no-normalize",),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    """How the work is done; nothing here changes the answer."""

    memory: int | None = option(
        None, help="Bound on the working set, such as 1G.", panel=Panel.RESOURCES, metavar="SIZE", parse=parse_bytes,
        otherwise="half of what is free",
    )  # fmt: skip
    jobs: int | None = option(
        None, help="Worker threads.", panel=Panel.RESOURCES, minimum=1, otherwise="the cores this process may use"
    )
    device: str | None = option(
        None, help="Fit on a torch device: cuda, cpu.", panel=Panel.RESOURCES, metavar="NAME",
        otherwise="NumPy, the fastest on a CPU",
    )  # fmt: skip
    force: bool = option(False, help="Replace an output that exists.", panel=Panel.OUTPUT)
    json: bool = option(False, help="Print the summary as JSON on standard output.", panel=Panel.OUTPUT)
    quiet: bool = option(
        False, help="No summary or notes, only results, warnings and errors.", panel=Panel.OUTPUT,
        flags=("--quiet", "-q"),
    )  # fmt: skip
    verbose: bool = option(False, help="Say more.", panel=Panel.OUTPUT, flags=("--verbose", "-v"))


@dataclass(frozen=True, kw_only=True)
class GivenOptions(Options):
    """Options that know which of them were given, and refuse those without effect."""

    given: frozenset[str] = field(default=frozenset(), repr=False, compare=False)  # named on the command line

    @classmethod
    def implied(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG003
        """Return values that follow from the given ones, for options that are not given."""
        return {}

    @property
    def run_methods(self) -> tuple[str, ...]:
        """The methods that this run uses, by which their own options have an effect."""
        return ()

    def reduced(self) -> Reduced | None:
        """Return what is left of the options where the run is reduced to a part of what the verb does."""
        return None

    def check_effect(self) -> None:
        """Refuse options that are given and have no effect on this run."""
        refuse_idle(self)


@dataclass(frozen=True, kw_only=True)
class VerbOptions(GivenOptions):
    """All options of a verb."""

    run: RunOptions = group(RunOptions)

"""Options that several verbs share, and what is done with them; each default stands in `options` only."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from pdac_cli.errors import UsageError
from pdac_cli.options.shared import RunOptions, Solver

Files = Annotated[
    list[str], typer.Argument(metavar="FEATS...", help="Feature files (HDF5, npz, npy) or a quoted glob.")
]
FeaturesKey = Annotated[str | None, typer.Option(help="Name of the features in the files.")]
LabelsKey = Annotated[str | None, typer.Option(help="Name of the labels in the files.")]
DropNonfinite = Annotated[
    bool, typer.Option("--drop-nonfinite", help="Leave out rows with NaN or Inf instead of stopping.")
]
IgnoreLabel = Annotated[int | None, typer.Option(help="Leave out rows with this label.")]
AllowExternal = Annotated[bool, typer.Option("--allow-external", help="Follow links and storage outside the files.")]
ChunkRows = Annotated[int | None, typer.Option(min=1, help="Rows read at once; never changes the answer.")]
Dim = Annotated[int, typer.Option(help="Projection dimensions d per class.")]
Components = Annotated[int, typer.Option(help="Gaussian components L per class.")]
Iterations = Annotated[int, typer.Option(help="EM steps G.")]
Ridge = Annotated[float, typer.Option(help="Added to each covariance, times the class's mean projected variance.")]
Tol = Annotated[float | None, typer.Option(help="Stop a class's EM when a step gains less than this. Off by default.")]
Normalize = Annotated[
    bool, typer.Option("--normalize", help="Divide rows by their length before the density is estimated.")
]
SolverOption = Annotated[Solver, typer.Option(help="How the projection is found.")]
Candidates = Annotated[int, typer.Option(help="er-mir, aser: stored rows drawn to choose from.")]
Neighbours = Annotated[int, typer.Option(help="aser: nearest neighbours K of its values.")]
GradientBatches = Annotated[int, typer.Option(help="gss: batches of stored rows that a gradient is compared with.")]
Memory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Bound on the working set, e.g. 1G. Default: half of what is free.")
]
Jobs = Annotated[int | None, typer.Option(help="Worker threads. Default: the cores this process may use.")]
DeviceOption = Annotated[
    str | None, typer.Option("--device", help="Fit on a torch device: cuda, cpu. Default: NumPy, the fastest on a CPU.")
]
Seed = Annotated[int, typer.Option(help="Seed of every random number.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but warnings and errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an output that exists.")]


class Rule(StrEnum):
    """Rules that set several options at once."""

    PAPER = "paper"


def new_defaults(ctx: typer.Context, values: Mapping[str, object]) -> None:
    """Give options that are not named on the command line other defaults; for callbacks of eager options."""
    ctx.default_map = {**(ctx.default_map or {}), **values}


def rule_option(values: Mapping[str, object]) -> Any:
    """Return an option --preset that gives other options new defaults; those named on the command line stay."""
    text = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in values.items())

    def use(ctx: typer.Context, rule: Rule | None) -> Rule | None:
        if rule is not None:
            new_defaults(ctx, values)
        return rule

    return typer.Option(help=f"paper: the rule as printed, {text}.", is_eager=True, callback=use)


def named(ctx: typer.Context, *options: str) -> bool:
    """Return whether any of the options was given, by itself or by a preset."""
    return any(str(getattr(ctx.get_parameter_source(name), "name", "DEFAULT")) != "DEFAULT" for name in options)


def parse_bytes(text: str | None) -> int | None:
    """Return a size such as 512M or 1.5G in bytes (powers of 1024)."""
    if text is None:
        return None
    number, unit = text.strip().upper().removesuffix("IB").removesuffix("B"), 1
    if number[-1:] in ("K", "M", "G", "T"):
        unit = 1024 ** ("KMGT".index(number[-1]) + 1)
        number = number[:-1]
    try:
        size = float(number) * unit
    except ValueError:
        size = 0.0
    if not 2**24 <= size < 2**60:
        raise UsageError(f"--memory is {text!r}; expected a size of at least 16M, such as 512M or 1.5G")
    return int(size)


def report(summary: Any, run: RunOptions) -> None:
    """Print a command's summary: as JSON on standard output, or for people on standard error."""
    if run.json:
        print(json.dumps(dataclasses.asdict(summary), indent=2))
    elif not run.quiet:
        print(summary.text(), file=sys.stderr)


def print_result(summary: Any, run: RunOptions) -> None:
    """Print a command's tables, which are its result, on standard output; as JSON where that is asked for."""
    if run.json:
        print(json.dumps(dataclasses.asdict(summary), indent=2))
    elif not run.quiet:
        print(summary.text())

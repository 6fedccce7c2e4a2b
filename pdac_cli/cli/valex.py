"""`pdac valex`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdac_cli.cli.shared import Force, Jobs, Json, Quiet, Seed, Verbose, print_result
from pdac_cli.errors import UsageError
from pdac_cli.options.shared import RunOptions
from pdac_cli.options.valex import NetworkOptions, ValexOptions


def valex(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for tables and figures.")],
    trials: Annotated[int, typer.Option(help="Networks per strategy and buffer size.")] = ValexOptions.trials,
    c1: Annotated[str | None, typer.Option(metavar="N,N", help="Buffer sizes of C1. Default: the paper's.")] = None,
    c2: Annotated[str | None, typer.Option(metavar="N,N", help="Buffer sizes of C2. Default: the paper's.")] = None,
    rows: Annotated[int, typer.Option(help="Rows to draw from, and as many to test on.")] = ValexOptions.rows,
    hidden: Annotated[int, typer.Option(help="Units of each hidden layer.")] = NetworkOptions.hidden,
    epochs: Annotated[int, typer.Option(help="Passes over the buffer.")] = NetworkOptions.epochs,
    warmup: Annotated[int, typer.Option(help="Of these, passes with a growing step.")] = NetworkOptions.warmup,
    lr: Annotated[float, typer.Option(help="Largest step of SGD.")] = NetworkOptions.lr,
    batch: Annotated[int, typer.Option(help="Rows per step; the paper gives none.")] = NetworkOptions.batch,
    seed: Seed = ValexOptions.seed,
    jobs: Jobs = RunOptions.jobs,
    force: Force = RunOptions.force,
    as_json: Json = RunOptions.json,
    quiet: Quiet = RunOptions.quiet,
    verbose: Verbose = RunOptions.verbose,
) -> None:
    """Repeat the paper's validation experiment, where the densities are known, and say which claims hold at which N."""
    options = ValexOptions(
        output,
        trials,
        ValexOptions.c1_sizes if c1 is None else _sizes("--c1", c1),
        ValexOptions.c2_sizes if c2 is None else _sizes("--c2", c2),
        rows,
        NetworkOptions(hidden, epochs, warmup, lr, batch),
        seed=seed,
        run=RunOptions(jobs=jobs, quiet=quiet, verbose=verbose, json=as_json, force=force),
    )
    from pdac_cli.commands.valex import run

    print_result(run(options), options.run)


def _sizes(flag: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted(int(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"{flag} is {text!r}; expected buffer sizes such as 10,100") from None

"""`pdac merge`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdac_cli.cli.shared import (
    Force,
    Json,
    Quiet,
    Verbose,
    report,
)
from pdac_cli.options.extract import MergeOptions
from pdac_cli.options.shared import RunOptions


def merge(
    files: Annotated[list[Path], typer.Argument(metavar="PART...", help="All shards of one extraction.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Feature file to write.")],
    link: Annotated[
        bool, typer.Option("--link", help="Write a virtual file that refers to the shards, instead of a copy.")
    ] = MergeOptions.link,
    force: Force = RunOptions.force,
    as_json: Json = RunOptions.json,
    quiet: Quiet = RunOptions.quiet,
    verbose: Verbose = RunOptions.verbose,
) -> None:
    """Join the shards of an extraction, checking that every one is there once."""
    run_options = RunOptions(quiet=quiet, verbose=verbose, json=as_json, force=force)
    options = MergeOptions(tuple(files), output, link, run_options)
    from pdac_cli.commands.merge import run

    report(run(options), options.run)

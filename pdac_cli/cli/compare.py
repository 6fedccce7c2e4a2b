"""`pdac compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdac_cli.cli.shared import (
    AllowExternal,
    ChunkRows,
    Components,
    Dim,
    DropNonfinite,
    FeaturesKey,
    Files,
    Force,
    IgnoreLabel,
    Iterations,
    Jobs,
    Json,
    LabelsKey,
    Memory,
    Normalize,
    Quiet,
    Ridge,
    Seed,
    Verbose,
    parse_bytes,
    report,
)
from pdac_cli.errors import UsageError
from pdac_cli.options.compare import CompareOptions
from pdac_cli.options.select import Allocation
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions
from pdac_cli.selection.names import ABOUT


def compare(
    files: Files,
    budget: Annotated[
        str, typer.Option("--budget", "-n", help="How many rows to keep: one number or several, 200,500.")
    ],
    methods: Annotated[
        str, typer.Option(help=f"Which methods: all, or some of {','.join(ABOUT)}. See pdac select --help.")
    ] = "all",
    seeds: Annotated[int, typer.Option(help="Runs of every method that draws at random.")] = CompareOptions.seeds,
    test: Annotated[
        str | None, typer.Option(help="Feature file to test on, with a linear head trained on each selection.")
    ] = CompareOptions.test,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write the table to a .csv file.")
    ] = CompareOptions.output,
    allocation: Annotated[
        Allocation | None, typer.Option(help="How the budget is shared among classes. Default: each method's own.")
    ] = CompareOptions.allocation,
    temperature: Annotated[
        float, typer.Option(help="pdac draws in proportion to density^T: 1 is the paper's rule, 0 is uniform.")
    ] = CompareOptions.temperature,
    head: Annotated[
        bool, typer.Option("--head", help="Train a linear head for the logits that the files do not have.")
    ] = CompareOptions.head,
    limit: Annotated[
        float, typer.Option(help="Leave out what would take more seconds a run, unless it is named in --methods.")
    ] = CompareOptions.limit,
    dim: Dim = DensityOptions.dim,
    components: Components = DensityOptions.components,
    iterations: Iterations = DensityOptions.iterations,
    ridge: Ridge = DensityOptions.ridge,
    normalize: Normalize = DensityOptions.normalize,
    features_key: FeaturesKey = InputOptions.features_key,
    labels_key: LabelsKey = InputOptions.labels_key,
    drop_nonfinite: DropNonfinite = InputOptions.drop_nonfinite,
    ignore_label: IgnoreLabel = InputOptions.ignore_label,
    allow_external: AllowExternal = InputOptions.allow_external,
    chunk_rows: ChunkRows = InputOptions.chunk_rows,
    memory: Memory = None,
    jobs: Jobs = RunOptions.jobs,
    seed: Seed = CompareOptions.seed,
    force: Force = RunOptions.force,
    as_json: Json = RunOptions.json,
    quiet: Quiet = RunOptions.quiet,
    verbose: Verbose = RunOptions.verbose,
) -> None:
    """Select by many methods from one feature file and measure what each keeps: a table on standard output."""
    options = CompareOptions(
        InputOptions(tuple(files), features_key, labels_key, drop_nonfinite, ignore_label, allow_external, chunk_rows),
        _numbers(budget),
        () if methods == "all" else tuple(name.strip() for name in methods.split(",")),
        seeds,
        seed,
        test,
        output,
        allocation,
        temperature,
        head,
        limit,
        DensityOptions(dim, components, iterations, ridge, normalize=normalize),
        RunOptions(parse_bytes(memory), jobs, None, quiet, verbose, as_json, force),
    )
    from pdac_cli.commands.compare import run

    summary = run(options)
    if as_json:
        report(summary, options.run)
    else:
        print(summary.text())


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--budget is {text!r}; expected row numbers such as 200 or 200,500") from None

"""`pdac select`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdac_cli.cli.shared import (
    AllowExternal,
    ChunkRows,
    Components,
    DeviceOption,
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
    Rule,
    Seed,
    SolverOption,
    Tol,
    Verbose,
    named,
    parse_bytes,
    report,
    rule_option,
)
from pdac_cli.options.select import PAPER_RULE, Allocation, Eviction, SelectOptions
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions
from pdac_cli.selection.names import method_lines

# Given without --method, these mean the paper's: no other method has them.
_OF_PDAC = (
    "model", "temperature", "eviction", "dim", "components", "iterations", "ridge", "tol", "solver", "normalize",
    "device",
)  # fmt: skip


def select(
    ctx: typer.Context,
    files: Files,
    budget: Annotated[int, typer.Option("--budget", "-n", help="How many rows to keep.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Index file: .txt .npy .json .h5. Default: print rows.")
    ] = SelectOptions.output,
    model: Annotated[
        Path | None, typer.Option(help="Model from `pdac fit`. Default: fit first.")
    ] = SelectOptions.model,
    preset: Annotated[Rule | None, rule_option(PAPER_RULE)] = None,  # noqa: ARG001, its callback has used it
    method: Annotated[
        str | None,
        typer.Option(
            help="Selection method, one of those above. Default: "
            f"{SelectOptions.method}; pdac with --model or another option of the density."
        ),
    ] = None,
    head: Annotated[
        bool,
        typer.Option(
            "--head",
            help="Where a method needs logits and the files have none, train a linear head on the features first.",
        ),
    ] = SelectOptions.head,
    allocation: Annotated[
        Allocation | None,
        typer.Option(
            help="How the budget is shared among classes; joint: all rows are one pool, as in the paper. "
            "Default: the method's own."
        ),
    ] = SelectOptions.allocation,
    temperature: Annotated[
        float, typer.Option(help="Draw in proportion to density^T: 1 is the paper's rule, 0 is uniform.")
    ] = SelectOptions.temperature,
    buffer: Annotated[
        Path | None, typer.Option(help="Index file (.json, .h5) of the earlier tasks, to be shrunk and added to.")
    ] = SelectOptions.buffer,
    task: Annotated[
        int | None, typer.Option(help="Number of this task. Default: one more than the buffer's last.")
    ] = SelectOptions.task,
    eviction: Annotated[
        Eviction, typer.Option(help="Which rows earlier tasks give up first.")
    ] = SelectOptions.eviction,
    strict: Annotated[
        bool, typer.Option("--strict", help="A budget larger than the data is an error.")
    ] = SelectOptions.strict,
    dim: Dim = DensityOptions.dim,
    components: Components = DensityOptions.components,
    iterations: Iterations = DensityOptions.iterations,
    ridge: Ridge = DensityOptions.ridge,
    tol: Tol = DensityOptions.tol,
    solver: SolverOption = DensityOptions.solver,
    normalize: Normalize = DensityOptions.normalize,
    features_key: FeaturesKey = InputOptions.features_key,
    labels_key: LabelsKey = InputOptions.labels_key,
    drop_nonfinite: DropNonfinite = InputOptions.drop_nonfinite,
    ignore_label: IgnoreLabel = InputOptions.ignore_label,
    allow_external: AllowExternal = InputOptions.allow_external,
    chunk_rows: ChunkRows = InputOptions.chunk_rows,
    memory: Memory = None,
    jobs: Jobs = RunOptions.jobs,
    device: DeviceOption = RunOptions.device,
    seed: Seed = SelectOptions.seed,
    force: Force = RunOptions.force,
    as_json: Json = RunOptions.json,
    quiet: Quiet = RunOptions.quiet,
    verbose: Verbose = RunOptions.verbose,
) -> None:
    """Choose which rows to keep; print one row index a line, or write an index file."""
    options = SelectOptions(
        InputOptions(tuple(files), features_key, labels_key, drop_nonfinite, ignore_label, allow_external, chunk_rows),
        budget,
        output,
        model,
        method or ("pdac" if named(ctx, *_OF_PDAC) else SelectOptions.method),
        allocation,
        temperature,
        buffer,
        task,
        eviction,
        strict,
        DensityOptions(dim, components, iterations, ridge, tol, solver, normalize),
        RunOptions(parse_bytes(memory), jobs, device, quiet, verbose, as_json, force),
        seed,
        head,
    )
    from pdac_cli.commands.select import run

    report(run(options), options.run)


# \b keeps the lines as they are.
select.__doc__ = f"""{select.__doc__}

\b
Methods, with their costs: n rows of D features, K logits, C classes, m the budget.
{method_lines()}
Those that need logits read them from the files, or with --head from a linear head.
"""

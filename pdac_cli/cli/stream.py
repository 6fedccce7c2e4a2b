"""`pdac stream`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdac_cli.cli.shared import (
    AllowExternal,
    Candidates,
    Components,
    Dim,
    DropNonfinite,
    FeaturesKey,
    Files,
    Force,
    GradientBatches,
    IgnoreLabel,
    Json,
    LabelsKey,
    Neighbours,
    Quiet,
    Ridge,
    Rule,
    Seed,
    Verbose,
    named,
    report,
    rule_option,
)
from pdac_cli.options.shared import InputOptions, RunOptions
from pdac_cli.options.stream import (
    PAPER_RULE,
    Acceptance,
    MethodOptions,
    StreamAllocation,
    StreamDensityOptions,
    StreamMethod,
    StreamOptions,
    StreamSolver,
)

# Given without --method, these mean the paper's: no other method has them.
_OF_SPDAC = (
    "model", "acceptance", "allocation", "window", "temperature", "step_rows", "beta", "solver", "dim", "components",
    "ridge",
)  # fmt: skip


def stream(
    ctx: typer.Context,
    files: Files,
    budget: Annotated[int, typer.Option("--budget", "-n", help="How many rows to keep.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Buffer to write: .json .h5 .txt .npy.")],
    state: Annotated[
        Path | None, typer.Option(help="State file: a rerun goes on from it, and so do later calls with new files.")
    ] = StreamOptions.state,
    model: Annotated[Path | None, typer.Option(help="Also write the streamed model.")] = StreamOptions.model,
    trace: Annotated[
        Path | None, typer.Option(help="CSV file: rows/s, turnover, class counts, log-density along the stream.")
    ] = StreamOptions.trace,
    preset: Annotated[Rule | None, rule_option(PAPER_RULE)] = None,  # noqa: ARG001, its callback has used it
    method: Annotated[
        StreamMethod | None,
        typer.Option(
            metavar="herding|spdac|er|gss|aser",
            help="herding: keep each class's mean; spdac: by density, the paper's rule; er: plain reservoir sampling; "
            "gss: rows whose gradients differ, by logits; aser: by Shapley values. "
            f"Default: {StreamOptions.method.value}; spdac with --model or another option of the density.",
        ),
    ] = None,
    acceptance: Annotated[
        Acceptance, typer.Option(help="density keeps dense rows more often; paper is the printed rule.")
    ] = StreamOptions.acceptance,
    allocation: Annotated[
        StreamAllocation, typer.Option(help="Compare a density within its class, or over the batch as in the paper.")
    ] = StreamOptions.allocation,
    window: Annotated[
        int, typer.Option(help="Latest rows of its class that a density is compared with; 0: those of the batch.")
    ] = StreamOptions.window,
    temperature: Annotated[
        float, typer.Option(help="Weigh by density^T: 1 is the paper's rule, 0 is plain reservoir sampling.")
    ] = StreamOptions.temperature,
    batch: Annotated[int, typer.Option(help="Rows that arrive together.")] = StreamOptions.batch,
    step_rows: Annotated[
        int, typer.Option(help="Rows of a class from one update of its density to the next; 1: every batch.")
    ] = StreamDensityOptions.step_rows,
    beta: Annotated[float, typer.Option(help="Step of the streaming EM.")] = StreamDensityOptions.beta,
    solver: Annotated[
        StreamSolver, typer.Option(help="How the projection follows; sketch: for thousands of features.")
    ] = StreamDensityOptions.solver,
    candidates: Candidates = MethodOptions.candidates,
    neighbours: Neighbours = MethodOptions.neighbours,
    gradient_batches: GradientBatches = MethodOptions.gradient_batches,
    dim: Dim = StreamDensityOptions.dim,
    components: Components = StreamDensityOptions.components,
    ridge: Ridge = StreamDensityOptions.ridge,
    state_every: Annotated[
        int | None, typer.Option(help="Rows from one state file to the next. Default: so that they cost little.")
    ] = StreamOptions.state_every,
    follow: Annotated[
        bool, typer.Option("--follow", help="The last file is still being written (SWMR): wait for its rows.")
    ] = StreamOptions.follow,
    timeout: Annotated[
        float, typer.Option(help="Seconds without a new row that end --follow; a file FEATS.done ends it at once.")
    ] = StreamOptions.timeout,
    features_key: FeaturesKey = InputOptions.features_key,
    labels_key: LabelsKey = InputOptions.labels_key,
    drop_nonfinite: DropNonfinite = InputOptions.drop_nonfinite,
    ignore_label: IgnoreLabel = InputOptions.ignore_label,
    allow_external: AllowExternal = InputOptions.allow_external,
    seed: Seed = StreamOptions.seed,
    force: Force = RunOptions.force,
    as_json: Json = RunOptions.json,
    quiet: Quiet = RunOptions.quiet,
    verbose: Verbose = RunOptions.verbose,
) -> None:
    """Read the files once, batch by batch, and keep a replay buffer; stop and go on at any time."""
    options = StreamOptions(
        InputOptions(tuple(files), features_key, labels_key, drop_nonfinite, ignore_label, allow_external),
        budget,
        output,
        state,
        model,
        trace,
        method or (StreamMethod.SPDAC if named(ctx, *_OF_SPDAC) else StreamOptions.method),
        acceptance,
        allocation,
        window,
        temperature,
        batch,
        state_every,
        follow,
        timeout,
        StreamDensityOptions(dim, components, ridge, beta, step_rows, solver),
        settings=MethodOptions(candidates, neighbours, gradient_batches),
        run=RunOptions(quiet=quiet, verbose=verbose, json=as_json, force=force),
        seed=seed,
    )
    from pdac_cli.commands.stream import run

    report(run(options), options.run)

"""`pdac fit`."""

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
    Seed,
    SolverOption,
    Tol,
    Verbose,
    parse_bytes,
    report,
)
from pdac_cli.options.fit import FitOptions
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions


def fit(
    files: Files,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
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
    seed: Seed = FitOptions.seed,
    force: Force = RunOptions.force,
    as_json: Json = RunOptions.json,
    quiet: Quiet = RunOptions.quiet,
    verbose: Verbose = RunOptions.verbose,
) -> None:
    """Fit the density of every class: a projection and a Gaussian mixture."""
    options = FitOptions(
        InputOptions(tuple(files), features_key, labels_key, drop_nonfinite, ignore_label, allow_external, chunk_rows),
        output,
        DensityOptions(dim, components, iterations, ridge, tol, solver, normalize),
        RunOptions(parse_bytes(memory), jobs, device, quiet, verbose, as_json, force),
        seed,
    )
    from pdac_cli.commands.fit import run

    report(run(options), options.run)

"""`pdac extract`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pdac_cli.cli.shared import (
    Force,
    Jobs,
    Json,
    Quiet,
    Verbose,
    report,
)
from pdac_cli.options.extract import Amp, ExtractOptions, PreprocessingOptions, Split, StoredType
from pdac_cli.options.shared import RunOptions


def extract(
    data: Annotated[
        str,
        typer.Option(
            metavar="DATA",
            help="Images: a folder per class, an HDF5 or npz file, cifar10:PATH, cifar100:PATH or tinyimagenet:PATH.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Feature file to write.")],
    checkpoint: Annotated[
        Path | None, typer.Option(help="State dict (.pt, .ckpt, .safetensors); read without running code.")
    ] = ExtractOptions.checkpoint,
    weights: Annotated[
        str | None, typer.Option(metavar="NAME", help="torchvision's published weights, e.g. DEFAULT, with --arch.")
    ] = ExtractOptions.weights,
    arch: Annotated[
        str | None, typer.Option(help="A torchvision classifier. Default: a ResNet18 of the checkpoint's form.")
    ] = ExtractOptions.arch,
    split: Annotated[
        Split | None, typer.Option(help="Part of the dataset. Default: train, or all where there are no parts.")
    ] = ExtractOptions.split,
    mean: Annotated[str | None, typer.Option(metavar="X,X,X", help="Mean per channel on the scale 0 to 1.")] = None,
    std: Annotated[str | None, typer.Option(metavar="X,X,X", help="Deviation per channel, likewise.")] = None,
    resize: Annotated[str | None, typer.Option(metavar="N|HxW", help="Shorter side, or height x width.")] = None,
    crop: Annotated[str | None, typer.Option(metavar="N|HxW", help="Centre to keep after resizing.")] = None,
    device: Annotated[
        str, typer.Option(help="auto (cuda, then mps, then cpu), cpu, cuda, cuda:N or mps.")
    ] = ExtractOptions.device,
    amp: Annotated[Amp, typer.Option(help="Mixed precision on a GPU.")] = ExtractOptions.amp,
    dtype: Annotated[StoredType, typer.Option(help="Number type on disk.")] = ExtractOptions.dtype,
    batch_size: Annotated[int, typer.Option(help="Images per pass of the network.")] = ExtractOptions.batch_size,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Extract part I of N, from 0; `slurm`: the job array's task.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out images that cannot be read, and list them.")
    ] = ExtractOptions.skip_bad,
    download: Annotated[bool, typer.Option("--download", help="Fetch a dataset not there.")] = ExtractOptions.download,
    jobs: Jobs = RunOptions.jobs,
    force: Force = RunOptions.force,
    as_json: Json = RunOptions.json,
    quiet: Quiet = RunOptions.quiet,
    verbose: Verbose = RunOptions.verbose,
) -> None:
    """Run a network over images and write features, labels, logits and ids; a rerun goes on where one stopped."""
    from pdac_cli.commands.extract_text import parse_numbers, parse_shard, parse_size

    options = ExtractOptions(
        data,
        output,
        checkpoint,
        weights,
        arch,
        split,
        PreprocessingOptions(
            parse_numbers("--mean", mean),
            parse_numbers("--std", std),
            parse_size("--resize", resize),
            parse_size("--crop", crop),
        ),
        device,
        amp,
        dtype,
        batch_size,
        parse_shard(shard, os.environ),
        skip_bad,
        download,
        RunOptions(jobs=jobs, quiet=quiet, verbose=verbose, json=as_json, force=force),
    )
    from pdac_cli.commands.extract import run

    report(run(options), options.run)

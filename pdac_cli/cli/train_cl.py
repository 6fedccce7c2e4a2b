"""`pdac train-cl`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdac_cli.cli.shared import (
    Candidates,
    Components,
    Dim,
    Force,
    GradientBatches,
    Iterations,
    Jobs,
    Json,
    Neighbours,
    Normalize,
    Quiet,
    Ridge,
    Seed,
    Verbose,
    new_defaults,
    print_result,
)
from pdac_cli.errors import UsageError
from pdac_cli.options.extract import Amp
from pdac_cli.options.select import Allocation, Eviction
from pdac_cli.options.shared import DensityOptions, RunOptions
from pdac_cli.options.stream import Acceptance, MethodOptions
from pdac_cli.options.train_cl import (
    OFFLINE_METHODS,
    PAPER_RULE,
    STREAM_METHODS,
    LearningOptions,
    Preset,
    Setting,
    TrainOptions,
)


def _use_paper(ctx: typer.Context, presets: list[Preset] | None) -> list[Preset] | None:
    """Give the options of the paper's rules their printed values, where they are not named themselves."""
    if Preset.PAPER in (presets or ()):
        new_defaults(ctx, PAPER_RULE)
    return presets


def train_cl(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="DATA", help="Images or features; see --data. With --compare: run folders."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Images (a file, a folder per class, cifar10:PATH, cifar100:PATH, tinyimagenet:PATH) or features.",
        ),
    ] = None,
    test: Annotated[
        str | None, typer.Option(help="Test data. Default: the data's own test part, else a fifth of every class.")
    ] = TrainOptions.test,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Run folder. Default: runs/NAME, numbered.")
    ] = TrainOptions.output,
    compare: Annotated[bool, typer.Option("--compare", help="Tabulate the run folders given.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was interrupted.")
    ] = TrainOptions.resume,
    setting: Annotated[
        Setting, typer.Option(help="offline: choose after each task; relaxed, online: batch by batch.")
    ] = TrainOptions.setting,
    preset: Annotated[
        list[Preset] | None,
        typer.Option(
            help="paper: the paper's rules as printed; cifar10, …: its tasks, width and augmentation. Can be repeated.",
            is_eager=True,
            callback=_use_paper,
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Any method of `pdac select`; streaming: of `pdac stream`, er-mir, metasp. Can be repeated. "
            f"Default: {' and '.join(OFFLINE_METHODS)}; streaming: {' and '.join(STREAM_METHODS)}."
        ),
    ] = None,
    budget: Annotated[
        int, typer.Option("--budget", "-n", help="Rows to keep for replay; 0: no replay.")
    ] = TrainOptions.budget,
    tasks: Annotated[
        int | None, typer.Option(help="Number of tasks. Default: two classes each, at most five tasks.")
    ] = TrainOptions.tasks,
    class_order: Annotated[
        str, typer.Option(help="natural, random (by seed), or labels: 3,1,4.")
    ] = TrainOptions.class_order,
    imbalance: Annotated[
        float | None, typer.Option(help="Share of its rows that the last class of a task keeps, e.g. 0.05.")
    ] = TrainOptions.imbalance,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs per task. Default: 10, online 1.")
    ] = LearningOptions.epochs,
    lr: Annotated[float, typer.Option(help="Step of plain SGD.")] = LearningOptions.lr,
    batch: Annotated[int, typer.Option(help="New rows per step.")] = LearningOptions.batch,
    replay_batch: Annotated[int, typer.Option(help="Rows of the buffer per step.")] = LearningOptions.replay_batch,
    width: Annotated[
        int | None, typer.Option(help="ResNet18's width. Default: 64, ResNet18 proper; 8 below 16 pixels.")
    ] = LearningOptions.width,
    hidden: Annotated[
        int, typer.Option(help="On features: units of a hidden layer; 0: a linear head.")
    ] = LearningOptions.hidden,
    pad: Annotated[
        int | None, typer.Option(help="Frame of random crops in pixels. Default: an eighth of the image; presets: 4.")
    ] = LearningOptions.pad,
    flip: Annotated[
        bool | None, typer.Option("--flip/--no-flip", help="Mirror at random. Default: colour images only.")
    ] = LearningOptions.flip,
    resize: Annotated[str | None, typer.Option(metavar="N|HxW", help="Resize images once, at the beginning.")] = None,
    init: Annotated[
        Path | None, typer.Option(help="Checkpoint of a ResNet18 to start from, but for its classifier.")
    ] = LearningOptions.init,
    rescore: Annotated[
        bool, typer.Option("--rescore", help="Score stored rows anew with the current network before eviction.")
    ] = TrainOptions.rescore,
    allocation: Annotated[
        Allocation | None,
        typer.Option(help="How classes share the budget. Default: the method's own. Streams have joint, too."),
    ] = TrainOptions.allocation,
    temperature: Annotated[
        float, typer.Option(help="Draw in proportion to density^T; 0: uniform.")
    ] = TrainOptions.temperature,
    eviction: Annotated[
        Eviction, typer.Option(help="Offline: which rows earlier tasks give up first.")
    ] = TrainOptions.eviction,
    acceptance: Annotated[
        Acceptance, typer.Option(help="Streaming: density keeps dense rows more often; paper is the printed rule.")
    ] = TrainOptions.acceptance,
    window: Annotated[
        int, typer.Option(help="Streaming: compare a density with so many latest rows of the class; 0: its batch.")
    ] = TrainOptions.window,
    beta: Annotated[
        float, typer.Option(help="Streaming: step of the mixture's moving averages, Eq. (17).")
    ] = TrainOptions.beta,
    step_rows: Annotated[
        int, typer.Option(help="Streaming: rows of a class from one update of its density to the next; 1: every batch.")
    ] = TrainOptions.step_rows,
    rows_per_class: Annotated[
        int | None, typer.Option(help="Learn from the first so many rows of every class. Default: all.")
    ] = TrainOptions.rows_per_class,
    candidates: Candidates = MethodOptions.candidates,
    neighbours: Neighbours = MethodOptions.neighbours,
    gradient_batches: GradientBatches = MethodOptions.gradient_batches,
    dim: Dim = DensityOptions.dim,
    components: Components = DensityOptions.components,
    iterations: Iterations = DensityOptions.iterations,
    ridge: Ridge = DensityOptions.ridge,
    normalize: Normalize = DensityOptions.normalize,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = LearningOptions.device,
    amp: Annotated[Amp, typer.Option(help="Mixed precision on a GPU.")] = LearningOptions.amp,
    channels_last: Annotated[
        bool, typer.Option("--channels-last", help="Memory format of images on a GPU.")
    ] = LearningOptions.channels_last,
    download: Annotated[bool, typer.Option("--download", help="Fetch a dataset not there.")] = TrainOptions.download,
    seeds: Annotated[int, typer.Option(help="How many seeds, from --seed on.")] = TrainOptions.seeds,
    seed: Seed = TrainOptions.seed,
    jobs: Jobs = RunOptions.jobs,
    force: Force = RunOptions.force,
    as_json: Json = RunOptions.json,
    quiet: Quiet = RunOptions.quiet,
    verbose: Verbose = RunOptions.verbose,
) -> None:
    """Run a continual-learning experiment with replay: tasks by classes, methods side by side, over several seeds."""
    run_options = RunOptions(jobs=jobs, quiet=quiet, verbose=verbose, json=as_json, force=force)
    if compare:
        from pdac_cli.commands.train_cl_compare import compare as compared

        print_result(compared(tuple(inputs or ())), run_options)
        return
    if data is not None and inputs:
        raise UsageError("data is given twice, as an argument and by --data; expected it once")
    from pdac_cli.commands.extract_text import parse_size

    options = TrainOptions(
        data=(data,) if data is not None else tuple(inputs or ()),
        test=test,
        output=output,
        setting=setting,
        preset=_protocol(preset),
        paper=Preset.PAPER in (preset or ()),
        tasks=tasks,
        class_order=class_order,
        budget=budget,
        imbalance=imbalance,
        methods=tuple(method or ()),
        seeds=seeds,
        seed=seed,
        rescore=rescore,
        resume=resume,
        download=download,
        allocation=allocation,
        temperature=temperature,
        eviction=eviction,
        acceptance=acceptance,
        window=window,
        beta=beta,
        step_rows=step_rows,
        rows_per_class=rows_per_class,
        learning=LearningOptions(
            epochs, lr, batch, replay_batch, width, hidden, pad, flip, parse_size("--resize", resize), init, device,
            amp, channels_last,
        ),
        density=DensityOptions(dim, components, iterations, ridge, normalize=normalize),
        settings=MethodOptions(candidates, neighbours, gradient_batches),
        run=run_options,
    )  # fmt: skip
    from pdac_cli.commands.train_cl import run

    summary = run(options)
    if summary is not None:
        print_result(summary, run_options)


def _protocol(presets: list[Preset] | None) -> Preset | None:
    protocols = [preset for preset in presets or () if preset is not Preset.PAPER]
    if len(protocols) > 1:
        raise UsageError(f"--preset names {' and '.join(protocols)}; expected one data set's protocol")
    return protocols[0] if protocols else None

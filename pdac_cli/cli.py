"""The command line: options, help and exit codes.  Nothing heavy is imported until a command runs."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from pdac_cli import __version__
from pdac_cli.errors import PdacError, UsageError
from pdac_cli.options import (
    Allocation,
    Amp,
    DensityOptions,
    Eviction,
    ExtractOptions,
    FitOptions,
    InputOptions,
    MergeOptions,
    PreprocessingOptions,
    RunOptions,
    SelectOptions,
    Solver,
    Split,
    StoredType,
)

app = typer.Typer(
    name="pdac",
    help="Choose which samples to keep: coresets and replay buffers for continual learning, from saved features.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_INTERRUPTED, _TERMINATED = 130, 143  # 128 + the signal's number

# Options that several commands share; each default stands in `options` only.
Files = Annotated[
    list[str], typer.Argument(metavar="FEATS...", help="Feature files (HDF5, npz, npy) or a quoted glob.")
]
FeaturesKey = Annotated[str | None, typer.Option(help="Name of the features in the files.")]
LabelsKey = Annotated[str | None, typer.Option(help="Name of the labels in the files.")]
DropNonfinite = Annotated[bool, typer.Option("--drop-nonfinite", help="Leave out rows with NaN or Inf instead of stopping.")]
IgnoreLabel = Annotated[int | None, typer.Option(help="Leave out rows with this label.")]
AllowExternal = Annotated[bool, typer.Option("--allow-external", help="Follow links and storage outside the files.")]
ChunkRows = Annotated[int | None, typer.Option(min=1, help="Rows read at once; never changes the answer.")]
Dim = Annotated[int, typer.Option(help="Projection dimensions d per class.")]
Components = Annotated[int, typer.Option(help="Gaussian components L per class.")]
Iterations = Annotated[int, typer.Option(help="EM steps G.")]
Ridge = Annotated[float, typer.Option(help="Added to each covariance, times the class's mean projected variance.")]
Tol = Annotated[float | None, typer.Option(help="Stop a class's EM when a step gains less than this. Off by default.")]
SolverOption = Annotated[Solver, typer.Option(help="How the projection is found.")]
Memory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Bound on the working set, e.g. 1G. Default: half of what is free.")
]
Jobs = Annotated[int | None, typer.Option(help="Worker threads. Default: the cores this process may use.")]
Seed = Annotated[int, typer.Option(help="Seed of every random number.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but warnings and errors.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an output that exists.")]


@app.command()
def fit(
    files: Files,
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write.")],
    dim: Dim = DensityOptions.dim,
    components: Components = DensityOptions.components,
    iterations: Iterations = DensityOptions.iterations,
    ridge: Ridge = DensityOptions.ridge,
    tol: Tol = DensityOptions.tol,
    solver: SolverOption = DensityOptions.solver,
    features_key: FeaturesKey = InputOptions.features_key,
    labels_key: LabelsKey = InputOptions.labels_key,
    drop_nonfinite: DropNonfinite = InputOptions.drop_nonfinite,
    ignore_label: IgnoreLabel = InputOptions.ignore_label,
    allow_external: AllowExternal = InputOptions.allow_external,
    chunk_rows: ChunkRows = InputOptions.chunk_rows,
    memory: Memory = None,
    jobs: Jobs = RunOptions.jobs,
    seed: Seed = FitOptions.seed,
    force: Force = RunOptions.force,
    as_json: Json = RunOptions.json,
    quiet: Quiet = RunOptions.quiet,
    verbose: Verbose = RunOptions.verbose,
) -> None:
    """Fit the density of every class: a projection and a Gaussian mixture."""
    options = FitOptions(
        _input(files, features_key, labels_key, drop_nonfinite, ignore_label, allow_external, chunk_rows),
        output,
        DensityOptions(dim, components, iterations, ridge, tol, solver),
        _run(memory, jobs, quiet, verbose, as_json, force),
        seed,
    )
    from pdac_cli.commands.fit import run

    _report(run(options), options.run)


@app.command()
def select(
    files: Files,
    budget: Annotated[int, typer.Option("--budget", "-n", help="How many rows to keep.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Index file: .txt .npy .json .h5. Default: print rows.")
    ] = SelectOptions.output,
    model: Annotated[
        Path | None, typer.Option(help="Model from `pdac fit`. Default: fit first.")
    ] = SelectOptions.model,
    method: Annotated[str, typer.Option(help="Selection method: pdac, uniform.")] = SelectOptions.method,
    allocation: Annotated[
        Allocation, typer.Option(help="How the budget is shared among classes; joint is the paper's single draw.")
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
    features_key: FeaturesKey = InputOptions.features_key,
    labels_key: LabelsKey = InputOptions.labels_key,
    drop_nonfinite: DropNonfinite = InputOptions.drop_nonfinite,
    ignore_label: IgnoreLabel = InputOptions.ignore_label,
    allow_external: AllowExternal = InputOptions.allow_external,
    chunk_rows: ChunkRows = InputOptions.chunk_rows,
    memory: Memory = None,
    jobs: Jobs = RunOptions.jobs,
    seed: Seed = SelectOptions.seed,
    force: Force = RunOptions.force,
    as_json: Json = RunOptions.json,
    quiet: Quiet = RunOptions.quiet,
    verbose: Verbose = RunOptions.verbose,
) -> None:
    """Choose which rows to keep; print one row index a line, or write an index file."""
    options = SelectOptions(
        _input(files, features_key, labels_key, drop_nonfinite, ignore_label, allow_external, chunk_rows),
        budget,
        output,
        model,
        method,
        allocation,
        temperature,
        buffer,
        task,
        eviction,
        strict,
        DensityOptions(dim, components, iterations, ridge, tol, solver),
        _run(memory, jobs, quiet, verbose, as_json, force),
        seed,
    )
    from pdac_cli.commands.select import run

    _report(run(options), options.run)


@app.command()
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
        _run(None, jobs, quiet, verbose, as_json, force),
    )
    from pdac_cli.commands.extract import run

    _report(run(options), options.run)


@app.command()
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
    options = MergeOptions(tuple(files), output, link, _run(None, None, quiet, verbose, as_json, force))
    from pdac_cli.commands.merge import run

    _report(run(options), options.run)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        print(f"pdac {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; the one place where errors become exit codes."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        if code == _INTERRUPTED:  # Typer has caught the KeyboardInterrupt
            code = _fail("interrupted; nothing was written", _INTERRUPTED)
    except PdacError as error:
        code = _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has had enough, which is no error; nothing must be flushed into the pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except KeyboardInterrupt:
        code = _fail("interrupted; nothing was written", _INTERRUPTED)
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        code = _fail(f"standard output: {os.strerror(error.errno).lower()}; expected room for the result", 5)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        # Typer's own usage errors; its base class is private, its exit code and message are not.
        if not hasattr(error, "format_message"):
            raise
        code = _fail(f"{error.format_message().rstrip('.')}; see pdac --help", 2)
    sys.exit(code or 0)


def _fail(message: str, code: int) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code


def _terminated(_signal: int, _frame: FrameType | None) -> None:
    """Leave through the open contexts, so that temporaries are removed."""
    print("error: terminated; nothing was written", file=sys.stderr)
    sys.exit(_TERMINATED)


def _input(
    files: list[str],
    features_key: str | None,
    labels_key: str | None,
    drop_nonfinite: bool,
    ignore_label: int | None,
    allow_external: bool,
    chunk_rows: int | None,
) -> InputOptions:
    return InputOptions(
        tuple(files), features_key, labels_key, drop_nonfinite, ignore_label, allow_external, chunk_rows
    )


def _run(memory: str | None, jobs: int | None, quiet: bool, verbose: bool, as_json: bool, force: bool) -> RunOptions:
    return RunOptions(_bytes(memory), jobs, quiet, verbose, as_json, force)


def _bytes(text: str | None) -> int | None:
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


def _report(summary: Any, run: RunOptions) -> None:
    """Print a command's summary: as JSON on standard output, or for people on standard error."""
    if run.json:
        print(json.dumps(dataclasses.asdict(summary), indent=2))
    elif not run.quiet:
        print(summary.text(), file=sys.stderr)

"""``pdac fit``: feature files to a model file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

import numpy as np

from pdac_cli.commands.input import open_input, tell_left_out
from pdac_cli.console import Console, facts, size_text
from pdac_cli.density import kernel
from pdac_cli.density.device import NUMPY, Device
from pdac_cli.density.model import Model
from pdac_cli.engine import local
from pdac_cli.engine.estimate import WORTH_ESTIMATING, fit_seconds
from pdac_cli.engine.grouping import GroupedRows, grouped
from pdac_cli.engine.source import Classes, Plan, Source, count_classes, make_plan
from pdac_cli.engine.unit import measured_rows
from pdac_cli.errors import UsageError
from pdac_cli.files.atomic import check_output
from pdac_cli.files.model import StoredModel, write_model
from pdac_cli.options.fit import FitOptions
from pdac_cli.options.shared import DensityOptions, RunOptions


@dataclass(frozen=True)
class FitSummary:
    """What a fit came to."""

    output: str
    rows: int
    dim: int
    classes: int
    fingerprint: str
    log_likelihood: list[float]  # mean over rows, before each EM step and after the last
    model_bytes: int
    warnings: list[str]

    def text(self) -> str:
        """Return the summary for people."""
        steps = len(self.log_likelihood) - 1
        return facts({
            "model": self.output,
            "rows, features, classes": f"{self.rows:,}, {self.dim:,}, {self.classes:,}",
            "mean log-likelihood": f"{self.log_likelihood[0]:.4f} -> {self.log_likelihood[-1]:.4f} in {steps} steps",
            "size of W, mu, Sigma, alpha": size_text(self.model_bytes),
        })  # fmt: skip


def run(options: FitOptions) -> FitSummary:
    """Fit the densities of the files' classes, Eqs. (1)–(8), and write them."""
    console = Console.of(options.run)
    with open_input(options.input, console) as source:
        check_output(options.output, source.paths, options.run.force)
        rows = measured_rows(source, options.density.normalize)
        plan = make_plan(rows, options.input, options.run)
        check_dim(options.density, source)
        device = device_of(options.run)
        classes = count_classes(source, plan, options.input)
        tell_left_out(source, options.input, console)
        announce_plan(rows, classes, options.density, plan, device, console)
        with grouped_rows(rows, classes, plan, console) as stored:
            model = fit_model(stored, options.density, options.seed, plan, device, console)
        source.check_unchanged()
        made = StoredModel(model, source.fingerprint, source.label_names, asdict(options.density), options.seed)
    for step, value in enumerate(model.step_log_likelihood()):
        console.detail(f"step {step:3d}  mean log-likelihood {value:.6f}")
    write_model(made, options.output, options.run.force)
    return FitSummary(
        str(options.output),
        int(model.counts.sum()),
        source.dim,
        len(model.labels),
        made.fingerprint,
        [float(value) for value in model.step_log_likelihood()],
        model.size,
        console.warnings,
    )


def fit_model(
    stored: Sequence[GroupedRows],
    options: DensityOptions,
    seed: int,
    plan: Plan,
    device: Device,
    console: Console,
) -> Model:
    """Fit and warn of what was clipped."""
    with console.progress("fitting", sum(rows.count for rows in stored)) as tick:
        model = local.fit(stored, options, seed, plan, tick, device)
    _warn_of_small_classes(model, options, console)
    return model


def device_of(run: RunOptions) -> Device:
    """Return where the products of the fit are taken; torch is loaded only if it is asked for."""
    if run.device is None:
        return NUMPY
    from pdac_cli.learning.arrays import density_device

    return density_device(run.device)


def announce_plan(
    source: Source, classes: Classes, options: DensityOptions, plan: Plan, device: Device, console: Console
) -> None:
    """Before long work, say what will be done and about how long it takes."""
    if console.quiet or source.n * source.dim < WORTH_ESTIMATING:
        return
    plan = local.fit_plan(plan, classes.counts, source.dim, source.dtype, options.solver)
    seconds = fit_seconds(source, classes, options, plan, device)
    size = source.n * source.dim * source.dtype.itemsize
    slow = device.is_numpy and kernel.compiled is None
    console.note(
        f"plan: {source.n:,} rows x {source.dim:,} ({source.dtype}), {len(classes.labels):,} classes, one pass; "
        f"rows grouped by class in {'memory' if plan.in_memory else 'a scratch file'} ({size_text(size)}); "
        f"{plan.jobs} threads, memory bound {size_text(plan.memory)}; about {seconds:.0f} s"
        + ("; EM by NumPy, as pdac was installed where there was no C compiler" if slow else "")
    )


@contextmanager
def grouped_rows(source: Source, classes: Classes, plan: Plan, console: Console) -> Iterator[Sequence[GroupedRows]]:
    """Read the rows and give them class by class."""
    with ExitStack() as stack:
        with console.progress("reading", int(classes.counts.sum())) as tick:
            stored = stack.enter_context(grouped(source, classes, plan, tick))
        yield stored


def check_dim(options: DensityOptions, source: Source) -> None:
    """Refuse more dimensions than there are features."""
    if options.dim > source.dim:
        raise UsageError(f"--dim is {options.dim}, the data has {source.dim} features; expected at most as many")


def _warn_of_small_classes(model: Model, options: DensityOptions, console: Console) -> None:
    flat = model.labels[model.dims == 0]
    fewer_dims = model.labels[(model.dims < options.dim) & (model.dims > 0)]
    fewer_components = model.labels[model.counts < options.components]
    if len(flat):
        console.warn(f"flat density for {_named(flat)}: one sample, or all samples the same")
    if len(fewer_dims):
        console.warn(f"fewer than --dim {options.dim} directions for {_named(fewer_dims)}: the rank is lower")
    if len(fewer_components):
        console.warn(f"fewer than --components {options.components} for {_named(fewer_components)}: too few samples")


def _named(labels: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> str:
    shown = ", ".join(map(str, labels[:8].tolist()))
    more = f" and {len(labels) - 8} more" if len(labels) > 8 else ""
    return f"{'class' if len(labels) == 1 else 'classes'} {shown}{more}"

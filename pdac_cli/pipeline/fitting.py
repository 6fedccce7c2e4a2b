"""Fitting the density of every class of a set and scoring its rows: the plan, the work, and what to say of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np

from pdac_cli.arrays import Candidates, Source
from pdac_cli.console import Console, size_text
from pdac_cli.density import kernel
from pdac_cli.density.device import NUMPY, Device
from pdac_cli.density.model import Model, clipped_components
from pdac_cli.engine import fitting
from pdac_cli.engine.fitting import WORTH_ESTIMATING, fit_seconds
from pdac_cli.engine.grouping import GroupedRows
from pdac_cli.engine.plan import Classes, Plan
from pdac_cli.engine.sources import normalized
from pdac_cli.errors import UsageError
from pdac_cli.options.shared import DensityOptions, RunOptions


@dataclass(frozen=True)
class DensitySetup:
    """All that decides the densities of a set's rows beside the rows themselves."""

    options: DensityOptions = field(default_factory=DensityOptions)
    seed: int = 0
    device: Device = NUMPY
    model: Model | None = None  # None: fitted first


def fit_source(source: Source, classes: Classes, setup: DensitySetup, plan: Plan, console: Console) -> Model:
    """Return the densities of the source's classes, Eqs. (1)–(8)."""
    with _fitted(source, classes, setup, plan, console) as (_, model):
        return model


def scored_rows(
    source: Source, classes: Classes, setup: DensitySetup, plan: Plan, console: Console
) -> Iterator[Candidates]:
    """Yield all rows with their log-densities, Eq. (9), class by class."""
    with (
        _fitted(source, classes, setup, plan, console) as (stored, model),
        console.progress("scoring", classes.total) as tick,
    ):
        yield from fitting.score(stored, model, plan, tick)


@contextmanager
def _fitted(
    source: Source, classes: Classes, setup: DensitySetup, plan: Plan, console: Console
) -> Iterator[tuple[Sequence[GroupedRows], Model]]:
    """Read the rows as the density takes them, class by class, and fit unless there is a model."""
    rows = normalized(source) if setup.options.normalize else source
    if setup.model is None:
        _announce_plan(rows, classes, setup, plan, console)
    with ExitStack() as stack:
        with console.progress("reading", classes.total) as tick:
            stored = stack.enter_context(plan.engine.grouped(rows, classes, plan, tick))
        model = setup.model
        if model is None:
            needed = clipped_components(setup.options, classes.counts.tolist())
            _check_size(needed, len(stored), plan)
            with console.progress("fitting", classes.total) as tick:
                model = fitting.fit(stored, needed, setup.seed, plan, tick, setup.device)
            _warn_of_small_classes(model, setup.options, console)
        yield stored, model


def _check_size(options: DensityOptions, classes: int, plan: Plan) -> None:
    """Refuse mixtures that the memory bound has no room for: the covariances (C, L, d, d) are kept in double."""
    size = 8 * classes * options.components * options.dim**2
    if size > plan.memory:
        raise UsageError(
            f"the covariances of {classes:,} classes with {options.components:,} components in {options.dim:,} "
            f"dimensions take {size_text(size)}, and --memory is {size_text(plan.memory)}; expected room for them; "
            "lower --components or --dim, or raise --memory"
        )


def device_of(run: RunOptions) -> Device:
    """Return where the products of the fit are taken; torch is loaded only if it is asked for."""
    if run.device is None:
        return NUMPY
    from pdac_cli.learning.devices import density_device

    return density_device(run.device)


def _announce_plan(source: Source, classes: Classes, setup: DensitySetup, plan: Plan, console: Console) -> None:
    """Before long work, say what will be done and about how long it takes."""
    if console.quiet or source.n * source.n_features < WORTH_ESTIMATING:
        return
    plan = fitting.fit_plan(plan, classes.counts, source.n_features, source.dtype, setup.options.solver)
    seconds = fit_seconds(source, classes, setup.options, plan, setup.device)
    size = source.n * source.n_features * source.dtype.itemsize
    slow = setup.device.is_numpy and kernel.compiled is None
    console.note(
        f"plan: {source.n:,} rows x {source.n_features:,} ({source.dtype}), {len(classes.labels):,} classes, one pass; "
        f"rows grouped by class in {'memory' if plan.in_memory(source) else 'a scratch file'} ({size_text(size)}); "
        f"{plan.jobs} threads, memory bound {size_text(plan.memory)}; about {seconds:.0f} s"
        + ("; EM by NumPy, as pdac was installed where there was no C compiler" if slow else "")
    )


def check_dim(options: DensityOptions, source: Source) -> None:
    """Refuse more dimensions than there are features."""
    if options.dim > source.n_features:
        raise UsageError(f"--dim is {options.dim}, the data has {source.n_features} features; expected at most as many")


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

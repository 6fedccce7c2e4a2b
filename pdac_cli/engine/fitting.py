"""Fit and score, some classes at a time: the units of the engine, wherever they run."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import local
from typing import Any

import numpy as np

from pdac_cli.arrays import Array, Candidates, Source, Tick, ignore
from pdac_cli.density.blocks import ROWS, SEGMENT_ROWS
from pdac_cli.density.centred import kept_bytes
from pdac_cli.density.device import NUMPY, Device, Workspace
from pdac_cli.density.model import Model, Scorer, clipped_components, fit_classes, merge_models
from pdac_cli.density.projection import fit_dtype
from pdac_cli.density.sweep import PIECE
from pdac_cli.engine.grouping import GroupedRows, StoredRows
from pdac_cli.engine.plan import Classes, Plan
from pdac_cli.engine.protocol import Work
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.scratch import allocator
from pdac_cli.options.shared import DensityOptions, Solver

WORTH_ESTIMATING = 1 << 26  # numbers in the data: below this a fit takes about as long as the estimate
_GROUP_ROWS = PIECE * ROWS  # classes are worked on together up to this many rows


_workspaces = local()  # of each thread


def fit(
    stored: Sequence[GroupedRows],
    options: DensityOptions,
    seed: int,
    plan: Plan,
    tick: Tick = ignore,
    device: Device = NUMPY,
) -> Model:
    """Fit the projected Gaussian mixture of every class, Eqs. (1)–(8)."""
    counts = [rows.count for rows in stored]
    plan = fit_plan(plan, counts, stored[0].n_features, stored[0].dtype, options.solver)
    work = _Fit(options, seed, device, plan.memory // 8 // plan.jobs)
    # The largest groups go first, so that none is left over for one thread at the end.
    groups = sorted(_groups(stored, plan.jobs), key=lambda group: -sum(rows.count for rows in group))
    sizes = [sum(rows.count for rows in group) for group in groups]
    with one_blas_thread():
        try:
            found = []
            row = stored[0].n_features * stored[0].dtype.itemsize
            how = Work(plan.jobs, [row * size for size in sizes], "fitting classes")
            for size, model in zip(sizes, plan.engine.run(work, groups, how), strict=True):
                tick(size)
                found.append(model)
        finally:
            _workspaces.__dict__.clear()
    return merge_models(found)


@dataclass(frozen=True)
class _Fit:
    """Fits some classes."""

    options: DensityOptions
    seed: int
    device: Device
    scratch_above: int  # bytes

    def __call__(self, group: Sequence[GroupedRows]) -> Model:
        workspace: Workspace = _workspaces.__dict__.setdefault("own", Workspace())
        return fit_classes(group, self.options, self.seed, self.device, allocator(self.scratch_above), workspace)


def fit_plan(plan: Plan, counts: Iterable[int], n_features: int, dtype: np.dtype[Any], solver: Solver) -> Plan:
    """Return the plan for fitting classes of these sizes: as many threads as keep their rows in half of the bound."""
    kept = max(kept_bytes(int(count), n_features, fit_dtype(dtype, solver)) for count in counts)
    return replace(plan, jobs=max(1, min(plan.jobs, plan.memory // 2 // kept))) if kept else plan


def score(stored: Sequence[GroupedRows], model: Model, plan: Plan, tick: Tick = ignore) -> Iterator[Candidates]:
    """Yield log p̂(z) of every row, Eq. (9), class by class; codes are positions in `stored`."""
    place = np.searchsorted(model.labels, [rows.label for rows in stored])  # of each class in the model
    work = _Score(Scorer.of(model), model.log_prior)
    pieces = [
        _Scored(code, int(place[code]), start, min(start + _GROUP_ROWS, rows.count), rows)
        for code, rows in enumerate(stored)
        for start in range(0, rows.count, _GROUP_ROWS)
    ]
    weights = [(at.stop - at.start) * at.rows.n_features * at.rows.dtype.itemsize for at in pieces]
    with one_blas_thread():
        for some in plan.engine.run(work, pieces, Work(plan.jobs, weights, "scoring rows")):
            tick(len(some.ids))
            yield some


@dataclass(frozen=True)
class _Scored:
    """Rows of one class that are scored together."""

    code: int
    place: int  # of the class in the model
    start: int
    stop: int
    rows: GroupedRows


@dataclass(frozen=True)
class _Score:
    """Scores rows of one class."""

    scorer: Scorer
    log_prior: Array

    def __call__(self, piece: _Scored) -> Candidates:
        start, stop, c = piece.start, piece.stop, piece.place
        log_p = self.scorer.log_conditional(piece.rows.read(start, stop), c) + self.log_prior[c]
        return Candidates(piece.rows.ids(start, stop), np.full(stop - start, piece.code), log_p)


def fit_seconds(source: Source, classes: Classes, options: DensityOptions, plan: Plan, device: Device) -> float:
    """Estimate the seconds of a fit: one chunk is read and one class of the usual size fitted, both on the clock."""
    start = time.perf_counter()
    rows = len(next(iter(source.chunks(plan.rows_at_once(source)))).ids)
    reading = (time.perf_counter() - start) / max(rows, 1) * source.n
    # A scratch file is written and read again.
    moving = reading if plan.in_memory(source) else 3 * reading
    size = int(min(max(np.median(classes.counts), 1), SEGMENT_ROWS))
    options = clipped_components(options, [size])
    h = np.random.default_rng(0).standard_normal((size, source.n_features)).astype(source.dtype)
    sample = StoredRows(0, h, np.arange(size))
    with one_blas_thread():
        fit_classes([sample], options, 0, device)  # the first call also loads what it needs
        start = time.perf_counter()
        fit_classes([sample], options, 0, device)
        fitting = (time.perf_counter() - start) / size * float(classes.counts.sum()) / plan.jobs
    return moving + fitting


def _groups(stored: Sequence[GroupedRows], jobs: int) -> list[list[GroupedRows]]:
    """Put classes together until a group has enough rows, or a thread its share of all rows."""
    groups: list[list[GroupedRows]] = [[]]
    total, done, share, size = sum(rows.count for rows in stored), 0, 0, 0
    for rows in stored:
        if groups[-1] and (size + rows.count > _GROUP_ROWS or done * jobs // total > share):
            groups.append([])
            share, size = done * jobs // total, 0
        groups[-1].append(rows)
        size += rows.count
        done += rows.count
    return groups

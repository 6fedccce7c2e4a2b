"""Fit and score in this process, classes in parallel on threads."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import local
from typing import Any

import numpy as np

from pdac_cli.arrays import Candidates, Source, Tick, ignore
from pdac_cli.density.blocks import ROWS, SEGMENT_ROWS
from pdac_cli.density.centred import kept_bytes
from pdac_cli.density.device import NUMPY, Device, Workspace
from pdac_cli.density.model import Model, Scorer, clipped_components, fit_classes, merge_models
from pdac_cli.density.projection import fit_dtype
from pdac_cli.density.sweep import PIECE
from pdac_cli.engine.grouping import GroupedRows, StoredRows
from pdac_cli.engine.plan import Classes, Plan
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.scratch import allocator
from pdac_cli.options.shared import DensityOptions, Solver

WORTH_ESTIMATING = 1 << 26  # numbers in the data: below this a fit takes about as long as the estimate
_GROUP_ROWS = PIECE * ROWS  # classes are worked on together up to this many rows


def fit(
    stored: Sequence[GroupedRows],
    options: DensityOptions,
    seed: int,
    plan: Plan,
    tick: Tick = ignore,
    device: Device = NUMPY,
) -> Model:
    """Fit the projected Gaussian mixture of every class, Eqs. (1)–(8)."""

    def work(group: Sequence[GroupedRows]) -> Model:
        workspace: Workspace = workspaces.__dict__.setdefault("own", Workspace())
        model = fit_classes(group, options, seed, device, allocate, workspace)
        tick(sum(rows.count for rows in group))
        return model

    counts = [rows.count for rows in stored]
    plan = fit_plan(plan, counts, stored[0].n_features, stored[0].dtype, options.solver)
    workspaces = local()
    allocate = allocator(plan.memory // 8 // plan.jobs)
    with one_blas_thread(), ThreadPoolExecutor(plan.jobs) as pool:
        # The largest groups go first, so that none is left over for one thread at the end.
        groups = sorted(_groups(stored, plan.jobs), key=lambda group: -sum(rows.count for rows in group))
        return merge_models(list(pool.map(work, groups)))


def fit_plan(plan: Plan, counts: Iterable[int], n_features: int, dtype: np.dtype[Any], solver: Solver) -> Plan:
    """Return the plan for fitting classes of these sizes: as many threads as keep their rows in half of the bound."""
    kept = max(kept_bytes(int(count), n_features, fit_dtype(dtype, solver)) for count in counts)
    return replace(plan, jobs=max(1, min(plan.jobs, plan.memory // 2 // kept))) if kept else plan


def score(stored: Sequence[GroupedRows], model: Model, plan: Plan, tick: Tick = ignore) -> Iterator[Candidates]:
    """Yield log p̂(z) of every row, Eq. (9), class by class; codes are positions in `stored`."""
    scorer, log_prior = Scorer.of(model), model.log_prior
    place = np.searchsorted(model.labels, [rows.label for rows in stored])  # of each class in the model

    def work(piece: tuple[int, int, int]) -> Candidates:
        code, start, stop = piece
        rows, c = stored[code], int(place[code])
        log_p = scorer.log_conditional(rows.read(start, stop), c) + log_prior[c]
        tick(stop - start)
        return Candidates(rows.ids(start, stop), np.full(stop - start, code), log_p)

    pieces = [
        (code, start, min(start + _GROUP_ROWS, rows.count))
        for code, rows in enumerate(stored)
        for start in range(0, rows.count, _GROUP_ROWS)
    ]
    with one_blas_thread(), ThreadPoolExecutor(plan.jobs) as pool:
        # A few pieces at a time: results wait in memory until they are taken.
        for at in range(0, len(pieces), 64):
            yield from pool.map(work, pieces[at : at + 64])


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

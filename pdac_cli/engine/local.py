"""Fit and score in this process, classes in parallel on threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import local
from typing import Any

import numpy as np

from pdac_cli.density.blocks import ROWS, Array
from pdac_cli.density.centred import kept_bytes
from pdac_cli.density.device import NUMPY, Device
from pdac_cli.density.model import Model, Scorer, fit_classes, merge_models
from pdac_cli.density.projection import fit_dtype
from pdac_cli.density.room import Room
from pdac_cli.density.sweep import PIECE
from pdac_cli.engine.grouping import GroupedRows
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.scratch import allocator
from pdac_cli.engine.source import Plan, Tick, ignore
from pdac_cli.options.shared import DensityOptions, Solver

_GROUP_ROWS = PIECE * ROWS  # classes are worked on together up to this many rows


@dataclass(frozen=True)
class Scored:
    """Some rows and their densities."""

    ids: Array  # (m,)
    codes: Array  # (m,) class positions
    log_p: Array  # (m,) log p̂(z), Eq. (9)


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
        room: Room = rooms.__dict__.setdefault("own", Room())
        model = fit_classes(group, options, seed, device, allocate, room)
        tick(sum(rows.count for rows in group))
        return model

    counts = [rows.count for rows in stored]
    plan = fit_plan(plan, counts, stored[0].dim, stored[0].dtype, options.solver)
    rooms = local()
    allocate = allocator(plan.memory // 8 // plan.jobs)
    with one_blas_thread(), ThreadPoolExecutor(plan.jobs) as pool:
        # The largest groups go first, so that none is left over for one thread at the end.
        groups = sorted(_groups(stored, plan.jobs), key=lambda group: -sum(rows.count for rows in group))
        return merge_models(list(pool.map(work, groups)))


def fit_plan(plan: Plan, counts: Iterable[int], dim: int, dtype: np.dtype[Any], solver: Solver) -> Plan:
    """Return the plan for fitting classes of these sizes: as many threads as keep their rows in half of the bound."""
    kept = max(kept_bytes(int(count), dim, fit_dtype(dtype, solver)) for count in counts)
    return replace(plan, jobs=max(1, min(plan.jobs, plan.memory // 2 // kept))) if kept else plan


def score(stored: Sequence[GroupedRows], model: Model, plan: Plan, tick: Tick = ignore) -> Iterator[Scored]:
    """Yield log p̂(z) of every row, Eq. (9), class by class; codes are positions in `stored`."""
    scorer, log_prior = Scorer.of(model), model.log_prior
    place = np.searchsorted(model.labels, [rows.label for rows in stored])  # of each class in the model

    def work(piece: tuple[int, int, int]) -> Scored:
        code, start, stop = piece
        rows, c = stored[code], int(place[code])
        log_p = scorer.log_conditional(rows.read(start, stop), c) + log_prior[c]
        tick(stop - start)
        return Scored(rows.ids(start, stop), np.full(stop - start, code), log_p)

    pieces = [
        (code, start, min(start + _GROUP_ROWS, rows.count))
        for code, rows in enumerate(stored)
        for start in range(0, rows.count, _GROUP_ROWS)
    ]
    with one_blas_thread(), ThreadPoolExecutor(plan.jobs) as pool:
        # A few pieces at a time: results wait in memory until they are taken.
        for at in range(0, len(pieces), 64):
            yield from pool.map(work, pieces[at : at + 64])


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

"""Fit and score in this process, classes in parallel on threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from pdac_cli.density.blocks import Array, ClassRows
from pdac_cli.density.model import Model, Scorer, fit_classes, merge_models
from pdac_cli.engine.grouping import grouped
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.source import Classes, Plan, Source
from pdac_cli.options import DensityOptions

_GROUP_ROWS = 8192  # classes are fitted together up to this many rows: enough to hide Python, little enough for caches
_SCORE_ROWS = 4096  # rows scored in one call

Tick = Callable[[int], None]  # told of rows done


@dataclass(frozen=True)
class Scored:
    """Some rows and their densities."""

    ids: Array  # (m,)
    codes: Array  # (m,) class positions
    log_p: Array  # (m,) log p̂(z), Eq. (9)


def fit(
    source: Source, classes: Classes, options: DensityOptions, seed: int, plan: Plan, tick: Tick = lambda _: None
) -> Model:
    """Fit the projected Gaussian mixture of every class, Eqs. (1)–(8)."""

    def work(group: Sequence[ClassRows]) -> Model:
        model = fit_classes(group, options, seed)
        tick(sum(rows.count for rows in group))
        return model

    with grouped(source, classes, plan) as stored, one_blas_thread(), ThreadPoolExecutor(plan.jobs) as pool:
        # The largest groups go first, so that none is left over for one thread at the end.
        groups = sorted(_groups(stored), key=lambda group: -sum(rows.count for rows in group))
        return merge_models(list(pool.map(work, groups)))


def score(source: Source, classes: Classes, model: Model, plan: Plan, tick: Tick = lambda _: None) -> Iterator[Scored]:
    """Yield log p̂(z) of every usable row, Eq. (9), in order of the ids; each row's answer stands for itself."""
    scorer, log_prior = Scorer.of(model), model.log_prior
    place = np.searchsorted(model.labels, classes.labels)  # class positions in the model

    def work(part: tuple[Array, Array]) -> Array:
        h, codes = part
        conditional = scorer.log_conditional(h, codes)
        log_p: Array = conditional + log_prior[codes]
        return log_p

    with one_blas_thread(), ThreadPoolExecutor(plan.jobs) as pool:
        for chunk in source.chunks(plan.chunk_rows):
            codes = classes.codes(chunk.y)
            # Rows of a class together: fewer, fuller blocks.
            order = np.argsort(codes, kind="stable")
            cuts = range(0, len(order), _SCORE_ROWS)
            parts = [(chunk.h[order[a : a + _SCORE_ROWS]], place[codes[order[a : a + _SCORE_ROWS]]]) for a in cuts]
            log_p = np.empty(len(order))
            log_p[order] = np.concatenate(list(pool.map(work, parts))) if parts else []
            yield Scored(chunk.ids, codes, log_p)
            tick(len(order))


def _groups(stored: Sequence[ClassRows]) -> list[list[ClassRows]]:
    """Put classes together until a group has enough rows."""
    groups: list[list[ClassRows]] = [[]]
    size = 0
    for rows in stored:
        if groups[-1] and size + rows.count > _GROUP_ROWS:
            groups.append([])
            size = 0
        groups[-1].append(rows)
        size += rows.count
    return groups

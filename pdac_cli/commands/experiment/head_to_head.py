"""Trials of a head-to-head: rules choose from the same rows, and every head is trained on what they keep."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from pdac_cli.arrays import Array, Source
from pdac_cli.commands.experiment.plan import Unit
from pdac_cli.commands.experiment.schema import METHOD
from pdac_cli.console import Console
from pdac_cli.engine.plan import Classes, Plan, count_classes, make_plan
from pdac_cli.engine.resources import PeakMemory
from pdac_cli.engine.sources import MemorySource
from pdac_cli.errors import DataError
from pdac_cli.files.features import open_features
from pdac_cli.metrics import check_test_classes
from pdac_cli.options.heads import Classifier
from pdac_cli.options.select import Allocation, SelectOptions
from pdac_cli.options.shared import InputOptions, RunOptions
from pdac_cli.pipeline.corruption import Labelled, corrupted, drawn_pool
from pdac_cli.pipeline.heads.beginnings import RankedRows
from pdac_cli.pipeline.heads.classifiers import FeatureScale, accuracies, train_classifier
from pdac_cli.pipeline.selecting import choose
from pdac_cli.pipeline.trained_head import train_on_source
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.selection.interface import Method
from pdac_cli.selection.methods import method_named

_TEST_SHARE = 0.2  # of the rows, where there is no file to test on
_ROWS = 4096  # read or tested at once


@dataclass(frozen=True)
class TrialData:
    """A data set in memory."""

    rows: Labelled  # to choose from
    test: MemorySource


def run_trials(units: Sequence[Unit], run: RunOptions, console: Console, done: Callable[[Unit, Any], None]) -> None:
    """Run the trials of one data set, corruption and seed; tell of each as it is complete."""
    first = units[0]
    trial = first.trial_options()
    data = _loaded(first.path, first.test)
    rows = corrupted(drawn_pool(data.rows, trial.pool, first.seed), trial.corruption, first.seed)
    source = MemorySource(rows.h, rows.y, row_ids=rows.ids, total=int(data.rows.ids[-1]) + 1)
    plan = make_plan(InputOptions(), run)
    classes = count_classes(source, plan, InputOptions())
    if len(classes.labels) < 2:
        raise DataError(f"{first.path}: all rows are of class {classes.labels[0]}; expected at least two classes")
    pool = _Trial(source, classes, rows.ids, data.test, plan, console, first.seed)
    for unit in units:
        done(unit, pool.result(unit, run))


@dataclass(frozen=True)
class _Trial:
    """Rows that all rules choose from, and rows to test on."""

    source: MemorySource
    classes: Classes
    ids: Array  # (n,) of the source's rows
    test: MemorySource
    plan: Plan
    console: Console
    seed: int

    @cached_property
    def scale(self) -> FeatureScale:
        """What features are standardised by."""
        return FeatureScale.of(self.source.h)

    @cached_property
    def with_logits(self) -> Source:
        """The rows with the logits of a head trained on them, wrong labels and all."""
        return train_on_source(self.source, self.classes, self.plan, self.seed, self.console)

    def result(self, unit: Unit, run: RunOptions) -> dict[str, Any]:
        """Return the accuracy of every head at every number of rows a class."""
        method = method_named(unit.options[METHOD])
        source = self.with_logits if method.needs_logits else self.source
        budgets = {n: min(n * len(self.classes.labels), self.classes.total) for n in unit.trial_options().per_class}
        found: dict[str, dict[str, float]] = {}
        ranked: RankedRows | None = None
        for n, budget in sorted(budgets.items(), reverse=True):
            out: dict[str, float] = {}
            if ranked is None or not self._is_nested(method, ranked.allocation, max(budgets)):
                options = replace(unit.select_options(budget, run), run=run)
                ranked, out = self._ranked(source, options)
            kept = ranked.beginning(budget)
            accuracy = self._accuracies(np.searchsorted(self.ids, ranked.ids[kept]))
            found[str(n)] = {**accuracy, "kept": len(kept), **out}
        return {"trials": dict(reversed(found.items()))}

    def _is_nested(self, method: Method, allocation: Allocation, most: int) -> bool:
        """Whether the answer at each budget is the beginning of the one at the largest, `most` rows a class."""
        all_alike = allocation is Allocation.BALANCED and int(self.classes.counts.min()) >= most
        return method.nested and (allocation is Allocation.JOINT or all_alike)

    def _ranked(self, source: Source, options: SelectOptions) -> tuple[RankedRows, dict[str, float]]:
        method = method_named(options.method)
        with PeakMemory() as memory:
            start = time.perf_counter()
            chosen = choose(source, None, options, method, self.plan, self.console)
            cost = {"seconds": time.perf_counter() - start}
        if memory.bytes is not None:
            cost["peak_mib"] = memory.bytes / 2**20
        ranking = chosen.answer.ranking
        allocation = options.allocation or method.allocation
        return RankedRows(ranking.ids, ranking.codes, self.classes.counts, allocation), cost

    def _accuracies(self, places: Array) -> dict[str, float]:
        """Return the accuracy of every head trained on the rows of these places."""
        h, y = self.source.h[places], self.source.y[places]
        heads = [train_classifier(kind, h, y, self.scale) for kind in Classifier]
        found = accuracies(heads, self.test.chunks(_ROWS), self.scale)
        return {kind.value: share for kind, share in zip(Classifier, found, strict=True)}


@lru_cache(maxsize=1)
def _loaded(path: str, test: str | None) -> TrialData:
    """Read a data set; without test rows of its own, the same fifth of it is set apart for every seed."""
    rows, names = _read(path)
    if test is not None:
        tested, test_names = _read(test)
        if tested.h.shape[1] != rows.h.shape[1] or names != test_names:
            raise DataError(
                f"{test}: its features or label names are others than those of {path}; expected the same; "
                "extract both with the same network"
            )
    else:
        apart = row_uniforms(0, Purpose.HOLD_OUT, rows.ids) < _TEST_SHARE
        rows, tested = rows.of(np.flatnonzero(~apart)), rows.of(np.flatnonzero(apart))
    if not len(rows.y) or not len(tested.y):
        raise DataError(f"{test or path}: too few rows to choose from and to test on; expected some of each")
    labels = np.unique(rows.y)
    if test is not None:
        check_test_classes(labels, np.unique(tested.y), test)
    known = np.isin(tested.y, labels)
    return TrialData(rows, MemorySource(tested.h[known], tested.y[known]))


def _read(path: str) -> tuple[Labelled, tuple[str, ...] | None]:
    with open_features(InputOptions(paths=(path,))) as source:
        parts = list(source.chunks(_ROWS))
        if not parts:
            raise DataError(f"{path}: has no usable row; expected some")
        ids, h, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "h", "y"))
        return Labelled(ids, h, y.astype(np.int64)), source.label_names

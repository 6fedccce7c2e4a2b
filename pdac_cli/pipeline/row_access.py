"""From files to a method: opening the input, and giving a method the rows of a set in the ways it may ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pdac_cli.arrays import Array, Candidates, Pool, Source, T
from pdac_cli.console import Console
from pdac_cli.density.common_rows import common_width
from pdac_cli.density.relative import CommonSpace
from pdac_cli.engine.grouping import GroupedRows, gathered, grouped
from pdac_cli.engine.plan import Classes, Plan
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.sources import narrowed, with_logits_beside
from pdac_cli.errors import DataError
from pdac_cli.files.features import FeatureSet, open_features
from pdac_cli.options.shared import InputOptions
from pdac_cli.pipeline.fitting import DensitySetup, scored_rows
from pdac_cli.selection.interface import blocks
from pdac_cli.selection.judging import common_space


def open_input(options: InputOptions, console: Console, memory: int | None = None) -> FeatureSet:
    """Open the files as one set and tell the user what was found under which names; no chunk is over `memory`."""
    source = open_features(options, memory=memory)
    for note in source.notes:
        console.note(f"note: {note}")
    return source


def report_unused_rows(source: FeatureSet, options: InputOptions, console: Console) -> None:
    """After a pass over the rows, tell the user how many were not used."""
    if source.dropped:
        console.warn(f"{source.dropped:,} of {source.n:,} rows with NaN or infinity left out")
    if source.ignored:
        console.note(f"note: {source.ignored:,} of {source.n:,} rows with label {options.ignore_label} left out")


def note_directions(n_features: int, console: Console) -> None:
    """Tell the user where rows of many features are compared in fewer directions."""
    width = common_width(n_features)
    if width < n_features:
        console.note(f"note: {n_features:,} features are compared in {width:,} directions: random signed sums of them")


@dataclass(frozen=True)
class LogitColumns:
    """Which column of the logits is each class's."""

    n_logits: int  # K; 0: none are needed
    of_class: Array  # (C,)


def logit_columns(source: Source, classes: Classes, plan: Plan) -> LogitColumns:
    """Return the columns, having checked that every class has one."""
    if source.logit_labels is not None:
        return LogitColumns(len(source.logit_labels), np.searchsorted(source.logit_labels, classes.labels))
    first = next(source.chunks(plan.rows_at_once(source), logits=True)).logits
    width = 0 if first is None else int(first.shape[1])
    if classes.labels[-1] >= width:
        raise DataError(
            f"{', '.join(source.files[:1])}: 'logits' has {width:,} columns and there is a label "
            f"{classes.labels[-1]:,}; expected a column for every label from 0 on; train a head with --head"
        )
    return LogitColumns(width, classes.labels)


@dataclass(frozen=True)
class StoredPool:
    """Rows in memory or in a scratch file; see `arrays.Pool`."""

    key: tuple[int, ...]
    rows: GroupedRows  # features, then logits
    codes: Array
    targets: Array
    n_features: int
    workers: ThreadPoolExecutor | None
    ids: Array = field(init=False)

    def __post_init__(self) -> None:
        """Read the ids once."""
        object.__setattr__(self, "ids", self.rows.ids(0, self.count))

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.rows.count

    @property
    def dtype(self) -> np.dtype[Any]:
        """What features are given as."""
        return self.rows.dtype

    def read(self, start: int, stop: int) -> Array:
        """Return the features of rows start to stop."""
        return self.rows.read(start, stop)[:, : self.n_features]

    def logits(self, start: int, stop: int) -> Array:
        """Return the logits of rows start to stop."""
        return self.rows.read(start, stop)[:, self.n_features :]

    def map(self, work: Callable[[int, int], T]) -> list[T]:
        """Return work(start, stop) of every block, in order."""
        cuts = list(blocks(self.count))
        if self.workers is None or len(cuts) == 1:
            return [work(start, stop) for start, stop in cuts]
        return list(self.workers.map(lambda cut: work(*cut), cuts))


@dataclass(frozen=True)
class SourceRows:
    """All rows of a source; see `arrays.Rows`."""

    source: Source
    classes: Classes
    columns: LogitColumns
    density: DensitySetup
    plan: Plan
    console: Console
    narrow: bool = False  # rows are given in fewer directions where features are many; densities are of all features

    def candidates(self) -> Iterator[Candidates]:
        """Yield all rows once, in order of their ids."""
        with_logits = self.columns.n_logits > 0
        source = narrowed(self.source) if self.narrow else self.source
        rows = self.plan.rows_at_once(with_logits_beside(self.source, self.columns.n_logits))
        for chunk in source.chunks(rows, logits=with_logits):
            codes = self.classes.codes(chunk.y)
            yield Candidates(chunk.ids, codes, None, chunk.h, chunk.logits, self.columns.of_class[codes])

    def scored(self) -> Iterator[Candidates]:
        """Yield all rows once, class by class, with their densities."""
        return scored_rows(self.source, self.classes, self.density, self.plan, self.console)

    def common_space(self) -> CommonSpace:
        """Fit the density that all classes share, Eq. (23)."""
        with self.pools(joint=False) as pools:
            return common_space(pools, self.density.options.normalize, self.plan.jobs)

    @contextmanager
    def pools(self, joint: bool) -> Iterator[Sequence[Pool]]:
        """Store the rows and give them as one pool, or class by class."""
        given = narrowed(self.source) if self.narrow else self.source
        source, n_features = with_logits_beside(given, self.columns.n_logits), given.n_features
        with ExitStack() as stack:
            groups: list[tuple[tuple[int, ...], GroupedRows, Array]] = []
            with self.console.progress("reading", self.classes.total) as tick:
                if joint:
                    rows, codes = stack.enter_context(gathered(source, self.classes, self.plan, tick))
                    groups.append(((), rows, codes))
                else:
                    stored = stack.enter_context(grouped(source, self.classes, self.plan, tick))
                    groups += [((rows.label,), rows, np.full(rows.count, c)) for c, rows in enumerate(stored)]
            stack.enter_context(one_blas_thread())
            workers = stack.enter_context(ThreadPoolExecutor(self.plan.jobs)) if self.plan.jobs > 1 else None
            yield [
                StoredPool(key, rows, codes, self.columns.of_class[codes], n_features, workers)
                for key, rows, codes in groups
            ]

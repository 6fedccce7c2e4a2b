"""From files to a method: opening the input, and giving a method the rows of a set in the ways it may ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Generic

import numpy as np

from pdac_cli.arrays import Array, Candidates, Chunk, Pools, Source, T
from pdac_cli.console import Console
from pdac_cli.density.common_rows import common_width
from pdac_cli.density.relative import CommonSpace
from pdac_cli.engine.plan import Classes, Plan
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.sources import narrowed, with_logits_beside
from pdac_cli.errors import DataError
from pdac_cli.files.features import FeatureSet, open_features
from pdac_cli.options.shared import InputOptions
from pdac_cli.pipeline.fitting import DensitySetup, scored_rows
from pdac_cli.pipeline.stored_pools import LogitColumns, PoolRows, StoredPools
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
    if options.ignore_label is not None and not source.ignored:
        console.warn(f"--ignore-label is {options.ignore_label} and no row has that label; none is left out")
    if source.ignored:
        console.note(f"note: {source.ignored:,} of {source.n:,} rows with label {options.ignore_label} left out")


def note_directions(n_features: int, console: Console) -> None:
    """Tell the user where rows of many features are compared in fewer directions."""
    width = common_width(n_features)
    if width < n_features:
        console.note(f"note: {n_features:,} features are compared in {width:,} directions: random signed sums of them")


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
    if first is not None and _alike(first):
        raise DataError(
            f"{', '.join(source.files[:1])}: 'logits' are alike in every row or for all classes, as those of a head "
            "that was never trained; expected a trained one's; train a head with --head"
        )
    return LogitColumns(width, classes.labels)


def _alike(logits: Array) -> bool:
    """Return whether logits (m, K) tell nothing: the same for all classes of a row, or the same in all rows."""
    rows, classes = logits.shape
    flat = classes > 1 and bool((logits == logits[:, :1]).all())
    return flat or (rows > 1 and bool((logits == logits[:1]).all()))


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
        given, rows = self._given()
        return map(self._candidates(), given.chunks(rows, logits=self.columns.n_logits > 0))

    def pieces(self, work: Callable[[Iterator[Candidates]], T]) -> Iterator[T]:
        """Yield work(rows) of every piece of the ids, in order."""
        given, rows = self._given()
        logits = self.columns.n_logits > 0
        return self.plan.engine.pieces(given, _PieceWork(work, self._candidates()), self.plan, rows=rows, logits=logits)

    def scored(self) -> Iterator[Candidates]:
        """Yield all rows once, class by class, with their densities."""
        return scored_rows(self.source, self.classes, self.density, self.plan, self.console)

    def common_space(self) -> CommonSpace:
        """Fit the density that all classes share, Eq. (23)."""
        with self.pools(joint=False) as pools:
            return common_space(pools, self.density.options.normalize)

    @contextmanager
    def pools(self, joint: bool) -> Iterator[Pools]:
        """Store the rows and give them as one pool, or class by class."""
        given = narrowed(self.source) if self.narrow else self.source
        source, engine = with_logits_beside(given, self.columns.n_logits), self.plan.engine
        with ExitStack() as stack:
            with self.console.progress("reading", self.classes.total) as tick:
                if joint:
                    rows, codes = stack.enter_context(engine.gathered(source, self.classes, self.plan, tick))
                    groups = [PoolRows((), rows, codes, given.n_features, self.columns)]
                else:
                    stored = stack.enter_context(engine.grouped(source, self.classes, self.plan, tick))
                    groups = [
                        PoolRows((rows.label,), rows, c, given.n_features, self.columns)
                        for c, rows in enumerate(stored)
                    ]
            stack.enter_context(one_blas_thread())
            workers = stack.enter_context(ThreadPoolExecutor(self.plan.jobs)) if self.plan.jobs > 1 else None
            yield StoredPools(groups, self.plan, workers)

    def _given(self) -> tuple[Source, int]:
        """Return the rows as methods see them that go through them once, and how many are read at once."""
        rows = self.plan.rows_at_once(with_logits_beside(self.source, self.columns.n_logits))
        return (narrowed(self.source) if self.narrow else self.source), rows

    def _candidates(self) -> _CandidatesOf:
        return _CandidatesOf(self.classes, self.columns)


@dataclass(frozen=True)
class _CandidatesOf:
    """Turns chunks into rows that may be chosen."""

    classes: Classes
    columns: LogitColumns

    def __call__(self, chunk: Chunk) -> Candidates:
        codes = self.classes.codes(chunk.y)
        return Candidates(chunk.ids, codes, None, chunk.h, chunk.logits, self.columns.of_class[codes])


@dataclass(frozen=True)
class _PieceWork(Generic[T]):
    """Work on the rows of a piece, as an engine gives them."""

    work: Callable[[Iterator[Candidates]], T]
    candidates: _CandidatesOf

    def __call__(self, chunks: Iterator[Chunk]) -> T:
        return self.work(map(self.candidates, chunks))

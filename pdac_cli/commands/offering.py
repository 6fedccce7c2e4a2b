"""How a method is offered the rows of a set: once as they come, or in pools stored in memory or a scratch file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from pdac_cli.commands.fit import grouped_rows
from pdac_cli.console import Console
from pdac_cli.density.blocks import Array, work_dtype
from pdac_cli.engine.arrays import ArrayChunk
from pdac_cli.engine.grouping import GroupedRows
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.source import Chunk, Classes, Plan, Source, make_plan
from pdac_cli.errors import DataError
from pdac_cli.options.shared import InputOptions, RunOptions
from pdac_cli.selection.rows import Offer, Pool, blocks

T = TypeVar("T")


class LogitChunk(Chunk, Protocol):
    """Some rows, with their logits where asked for."""

    @property
    def logits(self) -> Array | None:
        """(m, K)."""


class NamedSource(Source, Protocol):
    """A set of rows that an index can refer to."""

    @property
    def fingerprint(self) -> str:
        """What identifies the set."""

    @property
    def files(self) -> tuple[str, ...]:
        """Where it comes from."""

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """Names of the classes, where they have names."""


class LogitSource(NamedSource, Protocol):
    """A set that may have logits beside its features."""

    @property
    def has_logits(self) -> bool:
        """Whether there are logits."""

    def chunks(self, rows: int, *, logits: bool = False) -> Iterator[LogitChunk]:
        """Yield the usable rows, about `rows` at a time."""


def has_logits(source: NamedSource) -> bool:
    """Return whether the set has logits, which a set need know nothing of."""
    return bool(getattr(source, "has_logits", False))


def _chunks(source: NamedSource, rows: int, logits: bool) -> Iterator[tuple[Chunk, Array | None]]:
    """Yield the usable rows and, where asked for, their logits."""
    if not logits:
        yield from ((chunk, None) for chunk in source.chunks(rows))
        return
    for chunk in cast(LogitSource, source).chunks(rows, logits=True):
        yield chunk, chunk.logits


def logit_columns(source: NamedSource, classes: Classes, plan: Plan) -> int:
    """Return K, having checked that every class has a column among the logits."""
    _, first = next(_chunks(source, plan.chunk_rows, logits=True))
    width = 0 if first is None else int(first.shape[1])
    if classes.labels[-1] >= width:
        raise DataError(
            f"{', '.join(source.files[:1])}: 'logits' has {width:,} columns and there is a label "
            f"{classes.labels[-1]:,}; expected a column for every label from 0 on; train a head with --head"
        )
    return width


@dataclass(frozen=True)
class StoredPool:
    """Rows in memory or in a scratch file; see `selection.rows.Pool`."""

    key: tuple[int, ...]
    rows: GroupedRows  # features, then logits
    codes: Array
    targets: Array
    dim: int
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
        return self.rows.read(start, stop)[:, : self.dim]

    def logits(self, start: int, stop: int) -> Array:
        """Return the logits of rows start to stop."""
        return self.rows.read(start, stop)[:, self.dim :]

    def map(self, work: Callable[[int, int], T]) -> list[T]:
        """Return work(start, stop) of every block, in order."""
        cuts = list(blocks(self.count))
        if self.workers is None or len(cuts) == 1:
            return [work(start, stop) for start, stop in cuts]
        return list(self.workers.map(lambda cut: work(*cut), cuts))


@dataclass(frozen=True)
class OfferedRows:
    """All rows of a set; see `selection.rows.Rows`."""

    source: NamedSource
    classes: Classes
    logits: int  # K; 0: none are needed
    columns: Array  # (C,) the logits' column of each class
    input: InputOptions
    run: RunOptions
    console: Console
    scored: Callable[[], Iterator[Offer]] | None = None  # rows with their densities, where the method needs them

    def offers(self) -> Iterator[Offer]:
        """Yield all rows once."""
        if self.scored is not None:
            yield from self.scored()
            return
        for chunk, logits in _chunks(self.source, self._plan().chunk_rows, self.logits > 0):
            codes = self.classes.codes(chunk.y)
            yield Offer(chunk.ids, codes, None, logits, self.columns[codes], chunk.h)

    @contextmanager
    def pools(self, joint: bool) -> Iterator[Sequence[Pool]]:
        """Store the rows and give them as one pool, or class by class."""
        stored = _Storable(self.source, self.classes, self.logits, joint)
        plan = self._plan()
        pooled = Classes(np.zeros(1, np.int64), self.classes.counts.sum()[None]) if joint else self.classes
        with ExitStack() as stack:
            groups = stack.enter_context(grouped_rows(stored, pooled, plan, self.console))
            stack.enter_context(one_blas_thread())
            workers = stack.enter_context(ThreadPoolExecutor(plan.jobs)) if plan.jobs > 1 else None
            pools: list[Pool] = []
            for place, rows in enumerate(groups):
                codes = np.concatenate(stored.codes) if joint else np.full(rows.count, place)
                key = () if joint else (rows.label,)
                pools.append(StoredPool(key, rows, codes, self.columns[codes], self.source.dim, workers))
            yield pools

    def _plan(self) -> Plan:
        return make_plan(_Storable(self.source, self.classes, self.logits, joint=True), self.input, self.run)


class _Storable:
    """A set as it is stored for many passes: in the precision it is computed in, the logits beside the features."""

    def __init__(self, source: NamedSource, classes: Classes, logits: int, joint: bool) -> None:
        self.source, self.classes, self.logits, self.joint = source, classes, logits, joint
        self.n, self.dim, self.dtype = source.n, source.dim + logits, work_dtype(source.dtype)
        self.codes: list[Array] = []  # of the chunks read

    def chunks(self, rows: int) -> Iterator[ArrayChunk]:
        """Yield the rows; where all are one pool, as one class."""
        self.codes = []
        for chunk, logits in _chunks(self.source, rows, self.logits > 0):
            self.codes.append(self.classes.codes(chunk.y))
            h = chunk.h.astype(self.dtype, copy=False)
            if logits is not None:
                h = np.concatenate([h, logits.astype(self.dtype)], axis=1)
            yield ArrayChunk(chunk.ids, h, np.zeros_like(chunk.y) if self.joint else chunk.y)

    def label_chunks(self, rows: int) -> Iterator[tuple[Array, Array]]:
        """Yield ids and labels."""
        return self.source.label_chunks(rows)

"""Stored rows as the pools that methods choose from: in this process, or where an engine has sent them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, overload

import numpy as np

from pdac_cli.arrays import Array, Follower, Followers, Pool, PoolUnit, T, Tick, ignore
from pdac_cli.engine.grouping import GroupedRows
from pdac_cli.engine.local import InProcess
from pdac_cli.engine.plan import Plan
from pdac_cli.engine.protocol import Work
from pdac_cli.selection.interface import BLOCK, blocks

_ALONE = Plan(1 << 30, 1, engine=InProcess())  # of a pool that was sent: its rows are worked on where it is


@dataclass(frozen=True)
class LogitColumns:
    """Which column of the logits is each class's."""

    n_logits: int  # K; 0: none are needed
    of_class: Array  # (C,)


@dataclass(frozen=True)
class PoolRows:
    """The rows of a pool and what tells it from others, as they are sent."""

    key: tuple[int, ...]
    rows: GroupedRows  # features, then logits
    code: Array | int  # (n,) the class of every row, or that of all
    n_features: int
    columns: LogitColumns

    @property
    def size(self) -> int:
        """How many bytes the rows take."""
        return self.rows.count * self.rows.n_features * self.rows.dtype.itemsize

    def loaded(self, start: int = 0, stop: int | None = None) -> PoolRows:
        """Return the same with some of the rows in memory, those that are read."""
        stop = self.rows.count if stop is None else stop
        return replace(self, rows=_LoadedRows(self.rows, start, self.rows.read(start, stop)))

    def without_codes(self) -> PoolRows:
        """Return the same for work on single blocks, which does not ask for the classes of all rows."""
        return self if isinstance(self.code, int) else replace(self, code=-1)


@dataclass(frozen=True)
class _LoadedRows:
    """Rows of which some are in memory; see `grouping.GroupedRows`."""

    of: GroupedRows
    first: int
    held: Array  # (m, D) from the first on

    @property
    def label(self) -> int:
        """The class."""
        return self.of.label

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.of.count

    @property
    def n_features(self) -> int:
        """The number of features."""
        return self.of.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the rows are stored as."""
        return self.of.dtype

    def read(self, start: int, stop: int) -> Array:
        """Return rows start to stop."""
        inside = self.first <= start and stop <= self.first + len(self.held)
        return self.held[start - self.first : stop - self.first] if inside else self.of.read(start, stop)

    def read_into(self, start: int, out: Array) -> None:
        """Lay the rows from `start` on into `out`."""
        out[...] = self.read(start, start + len(out))

    def ids(self, start: int, stop: int) -> Array:
        """Return the global ids of rows start to stop."""
        return self.of.ids(start, stop)


class StoredPool:
    """Rows in memory or in a scratch file; see `arrays.Pool`."""

    def __init__(self, of: PoolRows, plan: Plan = _ALONE, workers: ThreadPoolExecutor | None = None) -> None:
        self.of, self.plan, self._workers = of, plan, workers
        self.key, self.n_features, self._rows = of.key, of.n_features, of.rows

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self._rows.count

    @property
    def dtype(self) -> np.dtype[Any]:
        """What features are given as."""
        return self._rows.dtype

    @cached_property
    def ids(self) -> Array:
        """Global row ids, read once: (n,)."""
        return self._rows.ids(0, self.count)

    @cached_property
    def codes(self) -> Array:
        """Class positions: (n,)."""
        return np.full(self.count, self.of.code) if isinstance(self.of.code, int) else self.of.code

    @property
    def targets(self) -> Array:
        """The logits' column of each row's class: (n,)."""
        targets: Array = self.of.columns.of_class[self.codes]
        return targets

    def read(self, start: int, stop: int) -> Array:
        """Return the features of rows start to stop."""
        return self._rows.read(start, stop)[:, : self.n_features]

    def logits(self, start: int, stop: int) -> Array:
        """Return the logits of rows start to stop."""
        return self._rows.read(start, stop)[:, self.n_features :]

    def map(self, work: Callable[[int, int], T]) -> list[T]:
        """Return work(start, stop) of every block, in order."""
        cuts = list(blocks(self.count))
        if self.plan.engine.divides(self.of.size):
            row = BLOCK * self._rows.n_features * self.dtype.itemsize
            how = Work(self.plan.jobs, [row] * len(cuts), "working on blocks of rows")
            return list(self.plan.engine.run(_OfCut(work), cuts, how))
        if self._workers is None or len(cuts) == 1:
            return [work(start, stop) for start, stop in cuts]
        return list(self._workers.map(lambda cut: work(*cut), cuts))

    def follow(self, begin: Callable[[Pool, int, int], Follower[T]]) -> Followers[T]:
        """Begin to follow the steps of a method."""
        return self.plan.engine.follow(_Begin(begin, self), self.count, self.of.size)

    def __reduce__(self) -> tuple[Any, ...]:
        """Be sent without what only this process has."""
        return StoredPool, (self.of.without_codes(),)


class StoredPools:
    """All pools of a set; see `arrays.Pools`."""

    def __init__(self, groups: Sequence[PoolRows], plan: Plan, workers: ThreadPoolExecutor | None = None) -> None:
        self._pools, self._plan = [StoredPool(of, plan, workers) for of in groups], plan

    def __len__(self) -> int:
        return len(self._pools)

    @overload
    def __getitem__(self, number: int) -> Pool: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Pool]: ...
    def __getitem__(self, number: int | slice) -> Pool | Sequence[Pool]:
        return self._pools[number]

    def __iter__(self) -> Iterator[Pool]:
        return iter(self._pools)

    def each(
        self,
        work: Callable[[Sequence[Pool], PoolUnit], T],
        units: Sequence[PoolUnit],
        tick: Tick = ignore,
        *,
        threads: bool = False,
    ) -> Iterator[T]:
        """Yield work(pools of the unit, unit) of every unit, in order."""
        engine = self._plan.engine

        def here(unit: PoolUnit) -> T:
            return work([self._pools[k] for k in unit.numbers], unit)

        if engine.here:
            yield from map(here, units) if threads else engine.run(here, units, Work(self._plan.jobs))
            return
        # A unit too large for one worker is worked on here, and its blocks elsewhere.
        for large, some in groupby(units, lambda unit: engine.divides(self._size(unit))):
            together = list(some)
            if large:
                yield from map(here, together)
                continue
            sent = [_Sent([self._pools[k].of for k in unit.numbers], unit) for unit in together]
            how = Work(self._plan.jobs, [self._size(unit) for unit in together], "working on classes")
            for unit, answer in zip(together, engine.run(_OfPools(work), sent, how), strict=True):
                tick(unit.size)
                yield answer

    def _size(self, unit: PoolUnit) -> int:
        return sum(self._pools[k].of.size for k in unit.numbers)


@dataclass(frozen=True)
class _Sent:
    groups: Sequence[PoolRows]
    unit: PoolUnit


@dataclass(frozen=True)
class _OfPools:
    """Work on the pools of a unit, where the unit is."""

    work: Callable[[Sequence[Pool], PoolUnit], Any]

    def __call__(self, sent: _Sent) -> Any:
        return self.work([StoredPool(of.loaded()) for of in sent.groups], sent.unit)


@dataclass(frozen=True)
class _OfCut:
    """Work on a block of a pool."""

    work: Callable[[int, int], Any]

    def __call__(self, cut: tuple[int, int]) -> Any:
        return self.work(*cut)


@dataclass(frozen=True)
class _Begin:
    """Begins to follow a method with rows of a pool."""

    begin: Callable[[Pool, int, int], Follower[Any]]
    pool: StoredPool

    def __call__(self, start: int, stop: int) -> Follower[Any]:
        return self.begin(self.pool, start, stop)

    def __reduce__(self) -> tuple[Any, ...]:
        """Be sent as what reads the rows it follows once."""
        return _BeginElsewhere, (self.begin, self.pool.of.without_codes())


@dataclass(frozen=True)
class _BeginElsewhere:
    """Begins to follow a method where rows of a pool were sent."""

    begin: Callable[[Pool, int, int], Follower[Any]]
    of: PoolRows

    def __call__(self, start: int, stop: int) -> Follower[Any]:
        return self.begin(StoredPool(self.of.loaded(start, stop)), start, stop)

"""The engine that sends units to the workers of a Dask cluster; see `protocol.Engine`.

What is done is in the job's folder, so nothing is lost with a worker, and a unit done twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdac_cli.arrays import PIECE_ROWS, A, Array, Chunk, Follower, Followers, Source, T, Tick, ignore
from pdac_cli.engine.cluster.identity import identity
from pdac_cli.engine.cluster.job_folder import JobFolder
from pdac_cli.engine.cluster.shared_rows import PartByClass, Parted, PartUnit, SharedRows, rows_of_classes
from pdac_cli.engine.cluster.tasks import FollowTask, UnitTask, follow, perform
from pdac_cli.engine.cluster.waiting import Workers
from pdac_cli.engine.grouping import GroupedRows
from pdac_cli.engine.local import InProcess, in_pieces
from pdac_cli.engine.plan import Classes, Plan
from pdac_cli.engine.protocol import Work
from pdac_cli.engine.sources import divisible
from pdac_cli.selection.interface import BLOCK

_ALIGNED = 1024  # rows: where logits of a head are made, so many are made at a time
_LARGE = 4  # units: more than so many are not held by one worker
_AT_ONCE = 1 << 25  # bytes read at once by a worker


@dataclass
class Cluster:
    """Units are done by workers, which may come and go."""

    workers: Workers
    folder: JobFolder
    unit: int  # bytes that a task reads, about
    here = False
    _stages: int = 0

    def pieces(
        self,
        source: Source,
        work: Callable[[Iterator[Chunk]], T],
        plan: Plan,  # noqa: ARG002
        *,
        rows: int,
        logits: bool = False,
    ) -> Iterator[T]:
        """Yield work(chunks) of every piece, in order."""
        many = PIECE_ROWS * max(1, self.unit // (PIECE_ROWS * _row(source)))
        ranges = divisible(source).ranges(many)
        found = self.run(_Pieces(work, min(rows, self._at_once(source)), logits), ranges, Work(1, title="reading rows"))
        dropped = ignored = 0
        for answers, unused in found:
            dropped, ignored = dropped + unused[0], ignored + unused[1]
            yield from answers
        divisible(source).note_unused(dropped, ignored)

    @contextmanager
    def grouped(
        self,
        source: Source,
        classes: Classes,
        plan: Plan,  # noqa: ARG002
        tick: Tick = ignore,
    ) -> Iterator[Sequence[GroupedRows]]:
        """Have the source read once and parted by class."""
        parted, stem = self._parted(source, classes, tick, together=False)
        yield rows_of_classes(parted, classes.labels, source, stem)

    @contextmanager
    def gathered(
        self,
        source: Source,
        classes: Classes,
        plan: Plan,  # noqa: ARG002
        tick: Tick = ignore,
    ) -> Iterator[tuple[GroupedRows, Array]]:
        """Have the source read once, its rows kept in order."""
        parted, stem = self._parted(source, classes, tick, together=True)
        codes = np.concatenate([part.codes for part in parted if part.codes is not None]).astype(np.int64)
        (rows,) = rows_of_classes(parted, np.zeros(1, np.int64), source, stem)
        yield rows, codes

    def run(self, work: Callable[[A], T], units: Sequence[A], how: Work) -> Iterator[T]:
        """Yield work(unit) of every unit, in order."""
        stage = self._stage(work)
        batches = _batches(units, how.weights, self.unit)
        tasks = []
        for number, batch in enumerate(batches):
            task = UnitTask(self.folder.path, stage, number, identity())
            tasks.append(task)
            if not self.folder.has(task.answers) and not self.folder.has(task.units):
                self.folder.save(task.units, batch)
        names = [f"{how.title or 'working'}, unit {k + 1:,} of {len(tasks):,}" for k in range(len(tasks))]
        todo = [not self.folder.has(task.answers) for task in tasks]
        for task in self.workers.in_order(perform, tasks, names, todo):
            yield from self.folder.load(task.answers)

    def divides(self, size: int) -> bool:
        """Return whether rows are more than one worker is to hold."""
        return size > _LARGE * self.unit

    def follow(self, begin: Callable[[int, int], Follower[T]], count: int, size: int) -> Followers[T]:
        """Have ranges of the rows follow a method, each where it was read."""
        step = max(1, self.unit * count // max(size, 1) // BLOCK) * BLOCK
        ranges = [(start, min(start + step, count)) for start in range(0, count, step)]
        return RemoteFollowers(self, self._stage(begin), ranges)

    def _parted(self, source: Source, classes: Classes, tick: Tick, *, together: bool) -> tuple[list[Parted], str]:
        rows = max(1, self.unit // _row(source) // _ALIGNED) * _ALIGNED
        units = [PartUnit(k, part) for k, part in enumerate(divisible(source).ranges(rows))]
        stage = f"{self._stages:04}"  # the one that run() is about to begin
        part = PartByClass(self.folder.path, stage, classes, together, self._at_once(source))
        parted, dropped, ignored = list[Parted](), 0, 0
        for found in self.run(part, units, Work(1, [self.unit] * len(units), "parting rows by class")):
            parted.append(found)
            dropped, ignored = dropped + found.unused[0], ignored + found.unused[1]
            tick(int(found.counts.sum()))
        divisible(source).note_unused(dropped, ignored)
        return parted, str(self.folder.path / stage)

    def _stage(self, work: Any) -> str:
        """Begin a stage: write what is to be done, unless an earlier run has."""
        stage = f"{self._stages:04}"
        self._stages += 1
        if not self.folder.has(f"{stage}.work"):
            self.folder.save(f"{stage}.work", work)
        return stage

    def _at_once(self, source: Source) -> int:
        return max(_ALIGNED, _AT_ONCE // _row(source) // _ALIGNED * _ALIGNED)

    def __reduce__(self) -> tuple[Any, ...]:
        """Be a worker's own process where work is sent with it."""
        return InProcess, ()


@dataclass
class RemoteFollowers:
    """Ranges of rows that follow a method on workers; see `arrays.Followers`."""

    cluster: Cluster
    stage: str
    ranges: list[tuple[int, int]]
    steps: int = 0
    where: dict[int, str] | None = None  # the worker that each range was last with

    def step(self, step: Any) -> list[Any]:
        """Tell all of one more step, and return their answers in order."""
        folder, number = self.cluster.folder, self.steps
        self.steps += 1
        log = f"{self.stage}.answers{number}"
        if folder.has(log):
            found: list[Any] = folder.load(log)
            return found
        folder.save(f"{self.stage}.step{number}", step)
        tasks = [FollowTask(folder.path, self.stage, start, stop, number, identity()) for start, stop in self.ranges]
        names = [f"step {number + 1:,}, rows {start:,} to {stop - 1:,}" for start, stop in self.ranges]
        answers = self.cluster.workers.all_of(follow, tasks, names, self.where)
        self.where = {k: address for k, (address, _) in enumerate(answers)}
        out = [answer for _, answer in answers]
        folder.save(log, out)
        return out


@dataclass(frozen=True)
class _Pieces:
    """Works on the pieces of a range, and says how many of its rows were left out."""

    work: Callable[[Iterator[Chunk]], Any]
    rows: int
    logits: bool

    def __call__(self, source: Source) -> tuple[list[Any], tuple[int, int]]:
        answers = [self.work(piece) for piece in in_pieces(source.chunks(self.rows, logits=self.logits))]
        return answers, divisible(source).unused()


def _row(source: Source) -> int:
    return source.n_features * source.dtype.itemsize + 8


def _batches(units: Sequence[A], weights: Sequence[float], limit: int) -> list[list[A]]:
    """Put units that follow each other together until they read enough for one task."""
    if not weights:
        return [[unit] for unit in units]
    batches: list[list[A]] = []
    size = 0.0
    for unit, weight in zip(units, weights, strict=True):
        if not batches or size + weight > limit:
            batches.append([])
            size = 0.0
        batches[-1].append(unit)
        size += weight
    return batches


__all__ = ["Cluster", "RemoteFollowers", "SharedRows"]

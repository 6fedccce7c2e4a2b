"""The engine without which nothing is installed: everything runs in this process, on threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from pdac_cli.arrays import PIECE_ROWS, A, Array, Chunk, Follower, Followers, Source, T, Tick, ignore
from pdac_cli.engine import grouping
from pdac_cli.engine.grouping import GroupedRows
from pdac_cli.engine.plan import Classes, Plan
from pdac_cli.engine.protocol import Work


@dataclass(frozen=True)
class InProcess:
    """Units run in this process; see `protocol.Engine`."""

    here = True

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
        return map(work, in_pieces(source.chunks(rows, logits=logits)))

    def grouped(
        self, source: Source, classes: Classes, plan: Plan, tick: Tick = ignore
    ) -> AbstractContextManager[Sequence[GroupedRows]]:
        """Read the source once and give its rows class by class."""
        return grouping.grouped(source, classes, plan, tick)

    def gathered(
        self, source: Source, classes: Classes, plan: Plan, tick: Tick = ignore
    ) -> AbstractContextManager[tuple[GroupedRows, Array]]:
        """Read the source once and give all its rows together, and their class positions."""
        return grouping.gathered(source, classes, plan, tick)

    def run(self, work: Callable[[A], T], units: Sequence[A], how: Work) -> Iterator[T]:
        """Yield work(unit) of every unit, in order; a few of them worked on at the same time and few held."""
        if how.jobs < 2:
            yield from map(work, units)
            return
        with ThreadPoolExecutor(how.jobs) as workers:
            waiting: deque[Future[T]] = deque()
            for unit in units:
                waiting.append(workers.submit(work, unit))
                if len(waiting) > 2 * how.jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def divides(self, size: int) -> bool:  # noqa: ARG002
        """Return that no unit is too large: rows beyond memory are read from a scratch file."""
        return False

    def follow(self, begin: Callable[[int, int], Follower[T]], count: int, size: int) -> Followers[T]:  # noqa: ARG002
        """Follow a method with all rows at once."""
        return OneFollower(begin(0, count))


@dataclass(frozen=True)
class OneFollower:
    """All rows of a pool in one place; see `arrays.Followers`."""

    follower: Follower[Any]

    def step(self, step: Any) -> list[Any]:
        """Tell the rows of one more step, and return their answer."""
        self.follower.take(step)
        return [self.follower.answer()]


def in_pieces(chunks: Iterator[Chunk]) -> Iterator[Iterator[Chunk]]:
    """Yield the chunks of every piece of the ids, cut where a piece ends; each piece must be used up before the next.

    What is left of a piece that was not used up is passed over.
    """
    waiting: deque[Chunk] = deque()

    def fill() -> bool:
        while not waiting:
            found = next(chunks, None)
            if found is None:
                return False
            waiting.extend(_cut(found))
        return True

    def of(piece: int) -> Iterator[Chunk]:
        while fill() and int(waiting[0].ids[0]) // PIECE_ROWS == piece:
            yield waiting.popleft()

    while fill():
        piece = int(waiting[0].ids[0]) // PIECE_ROWS
        rest = of(piece)
        yield rest
        for _ in rest:
            pass


def _cut(chunk: Chunk) -> Iterator[Chunk]:
    """Yield a chunk's rows of each piece of the ids; ids ascend."""
    if not len(chunk.ids):
        return
    at, end = 0, len(chunk.ids)
    while at < end:
        piece = int(chunk.ids[at]) // PIECE_ROWS
        stop = at + int(chunk.ids[at:].searchsorted((piece + 1) * PIECE_ROWS))
        part = slice(at, stop)
        whole = at == 0 and stop == end
        logits = None if chunk.logits is None else chunk.logits[part]
        yield chunk if whole else replace(chunk, ids=chunk.ids[part], h=chunk.h[part], y=chunk.y[part], logits=logits)
        at = stop

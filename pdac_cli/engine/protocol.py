"""What an engine is: where units of work run.  Commands, pipeline and methods know this and nothing more of it.

A unit is worked on by the very same code wherever that is, and what comes of the units is put together in their order,
so that the answer does not depend on the engine, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pdac_cli.arrays import A, Array, Chunk, Follower, Followers, Source, T, Tick, ignore

if TYPE_CHECKING:
    from pdac_cli.engine.grouping import GroupedRows
    from pdac_cli.engine.plan import Classes, Plan


@dataclass(frozen=True)
class Work:
    """How units are to be worked on beside each other."""

    jobs: int  # threads, where they are those of this process
    weights: Sequence[float] = ()  # about how many bytes each unit reads: where units are sent, small ones go together
    title: str = ""  # what is being done


class Engine(Protocol):
    """Where units of work run."""

    @property
    def here(self) -> bool:
        """Whether that is this process, whose threads and progress the units share."""

    def pieces(
        self, source: Source, work: Callable[[Iterator[Chunk]], T], plan: Plan, *, rows: int, logits: bool = False
    ) -> Iterator[T]:
        """Yield work(chunks) of every `PIECE_ROWS` ids of a source that have rows, in order; `rows` are read at once.

        The work must be a function that can be sent to another process.
        """

    def grouped(
        self, source: Source, classes: Classes, plan: Plan, tick: Tick = ignore
    ) -> AbstractContextManager[Sequence[GroupedRows]]:
        """Read the source once and give its rows class by class, each class's in order of the ids."""

    def gathered(
        self, source: Source, classes: Classes, plan: Plan, tick: Tick = ignore
    ) -> AbstractContextManager[tuple[GroupedRows, Array]]:
        """Read the source once and give all its rows together, in order of the ids, and their class positions (n,)."""

    def run(self, work: Callable[[A], T], units: Sequence[A], how: Work) -> Iterator[T]:
        """Yield work(unit) of every unit, in order; several are worked on at the same time."""

    def divides(self, size: int) -> bool:
        """Return whether rows of so many bytes are too many for one unit, and are to be worked on in parts."""

    def follow(self, begin: Callable[[int, int], Follower[T]], count: int, size: int) -> Followers[T]:
        """Begin to follow a method with `count` rows of `size` bytes, some rows (start, stop) at a time."""

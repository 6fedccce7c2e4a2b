"""The array type, and what sets of rows look like to whoever reads them: written once, imported everywhere.

`Source` is a set as it is read, chunk by chunk.  `Rows` is a set as a selection method sees it: once through all of it,
or again and again through `Pool`s of rows that are chosen from together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
T = TypeVar("T")
A = TypeVar("A")
S_co = TypeVar("S_co", covariant=True)
PIECE_ROWS = 1 << 16  # what is summed up from zero before it is added to the rest, so that it can be done anywhere
Tick = Callable[[int], None]  # told of work done


def ignore(_done: int) -> None:
    """Be told of work done and do nothing."""


@dataclass(frozen=True)
class Chunk:
    """Some rows of a source."""

    ids: Array  # (m,) global row ids, ascending
    h: Array  # (m, D) features: float16, float32 or float64, native byte order
    y: Array  # (m,) labels
    logits: Array | None = None  # (m, K), where asked for


class Source(Protocol):
    """A set of rows that can be read again and again, in order, and that an index can refer to."""

    @property
    def n(self) -> int:
        """How many rows there are, unusable ones included."""

    @property
    def n_features(self) -> int:
        """The number of features D."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """What features are given as: float16, float32 or float64."""

    @property
    def has_logits(self) -> bool:
        """Whether there are logits beside the features."""

    @property
    def logit_labels(self) -> Array | None:
        """(K,) labels of the logits' columns; None: column k is that of label k."""

    @property
    def fingerprint(self) -> str:
        """What identifies the set."""

    @property
    def files(self) -> tuple[str, ...]:
        """Where it comes from."""

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """Names of the classes, where they have names."""

    def chunks(self, rows: int, *, logits: bool = False) -> Iterator[Chunk]:
        """Yield the usable rows, about `rows` at a time."""

    def label_chunks(self, rows: int) -> Iterator[tuple[Array, Array]]:
        """Yield ids and labels, without reading features."""


@runtime_checkable
class Resident(Protocol):
    """A source whose features are in memory anyway, so that they need not be copied to be gathered by class."""

    def take(self, ids: Array, out: Array) -> None:
        """Lay the features of the rows of these ids into out (m, D), as its dtype."""


@runtime_checkable
class Divisible(Protocol):
    """A source of which parts can be read by other processes."""

    def ranges(self, rows: int) -> Sequence[Source]:
        """Return the source in parts of `rows` consecutive ids, each of which can be sent."""

    def note_unused(self, dropped: int, ignored: int) -> None:
        """Be told, after a pass that others have made, how many rows were left out in it."""

    def unused(self) -> tuple[int, int]:
        """Return how many rows were left out in the last pass, as not finite and by their label."""


@dataclass(frozen=True)
class Candidates:
    """Some rows that a method may choose, with what it needs to know of them."""

    ids: Array  # (n,) global row ids
    codes: Array  # (n,) int64 class positions
    log_p: Array | None = None  # (n,) log p̂(z), Eq. (9), where rows are scored
    h: Array | None = None  # (n, D), where they were read
    logits: Array | None = None  # (n, K), where the method needs them
    targets: Array | None = None  # (n,) the logits' column of each row's class


class Pool(Protocol):
    """Rows that are chosen from together, in order of their ids, which can be read again and again."""

    @property
    def key(self) -> tuple[int, ...]:
        """What tells its random numbers from another pool's."""

    @property
    def count(self) -> int:
        """How many rows there are."""

    @property
    def n_features(self) -> int:
        """The number of features D."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """What features are given as: float32 or float64."""

    @property
    def ids(self) -> Array:
        """(n,) global row ids, ascending."""

    @property
    def codes(self) -> Array:
        """(n,) class positions."""

    @property
    def targets(self) -> Array:
        """(n,) the logits' column of each row's class."""

    def read(self, start: int, stop: int) -> Array:
        """Return the features of rows start to stop: (stop − start, D)."""

    def logits(self, start: int, stop: int) -> Array:
        """Return the logits of rows start to stop: (stop − start, K)."""

    def map(self, work: Callable[[int, int], T]) -> list[T]:
        """Return work(start, stop) of every block, in order; blocks may be worked on at the same time."""

    def follow(self, begin: Callable[[Pool, int, int], Follower[T]]) -> Followers[T]:
        """Begin to follow the steps of a method, some rows (start, stop) at a time, each where its rows are."""


class Follower(Protocol[S_co]):
    """What some rows of a pool know of the steps of a method so far."""

    def take(self, step: Any) -> None:
        """Take in one more step."""

    def answer(self) -> S_co:
        """Return what these rows say now."""


class Followers(Protocol[S_co]):
    """All rows of a pool, following a method."""

    def step(self, step: Any) -> Sequence[S_co]:
        """Tell all of one more step, and return their answers in the order of their rows."""


@dataclass(frozen=True)
class PoolUnit:
    """Some pools that are worked on together, in one place."""

    numbers: Sequence[int]  # of the pools
    argument: Any = None  # what the work is told beside them
    size: int = 0  # what progress is told when it is done, where the work cannot tell it


class Pools(Protocol):
    """The pools of a set of rows."""

    def __len__(self) -> int:
        """How many there are."""

    @overload
    def __getitem__(self, number: int) -> Pool: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Pool]: ...

    def __iter__(self) -> Iterator[Pool]: ...

    def each(
        self,
        work: Callable[[Sequence[Pool], PoolUnit], T],
        units: Sequence[PoolUnit],
        tick: Tick = ignore,
        *,
        threads: bool = False,
    ) -> Iterator[T]:
        """Yield work(pools of the unit, unit) of every unit, in order; they may be worked on anywhere, side by side.

        threads: the work keeps the threads of a process busy by itself, so that there one unit follows the other.
        """


class Rows(Protocol):
    """All rows of a task, as a method sees them; each call is a pass over the source."""

    def candidates(self) -> Iterator[Candidates]:
        """Yield all rows once in order of their ids, in pieces of any size, with features and, if needed, logits."""

    def scored(self) -> Iterator[Candidates]:
        """Yield all rows once, class by class, with their log-densities, fitted first unless a model is given."""

    def pieces(self, work: Callable[[Iterator[Candidates]], T]) -> Iterator[T]:
        """Yield work(rows with ids from k · PIECE_ROWS up to the next) for every k, in order: a pass over all rows."""

    def pools(self, joint: bool) -> AbstractContextManager[Pools]:
        """Give the rows as one pool, or class by class."""

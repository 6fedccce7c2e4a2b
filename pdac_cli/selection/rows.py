"""What every method is given and what it answers.

A method may go once through all rows as they come (`Rows.offers`) or many times through pools of rows
(`Rows.pools`): the classes, or under joint allocation all rows together.  A pool is worked on in blocks of fixed size
from its first row on, so that nothing about how the rows were read changes a bit of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from pdac_cli.options.select import Allocation
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.selection.budget import Array, class_budgets, places
from pdac_cli.selection.sampling import Ranking, TopK

BLOCK = 2048  # rows worked on at once: 4 MB of 512 features, enough to hide Python's part
T = TypeVar("T")


def ignore(_done: int) -> None:
    """Be told of progress and do nothing."""


@dataclass(frozen=True)
class Offer:
    """Some rows of the task."""

    ids: Array  # (n,) global row ids
    codes: Array  # (n,) class positions
    log_p: Array | None = None  # (n,) log p̂(z), Eq. (9), where the method needs a density
    logits: Array | None = None  # (n, K), where the method needs them
    targets: Array | None = None  # (n,) the logits' column of each row's class
    h: Array | None = None  # (n, D), where they were read


class Pool(Protocol):
    """Rows that are chosen from together, in order of their ids, which can be read again and again."""

    @property
    def key(self) -> tuple[int, ...]:
        """What tells its random numbers from another pool's."""

    @property
    def count(self) -> int:
        """How many rows there are."""

    @property
    def dim(self) -> int:
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


class Rows(Protocol):
    """All rows of the task."""

    def offers(self) -> Iterator[Offer]:
        """Yield all rows once, in pieces of any size, with what the method needs."""

    def pools(self, joint: bool) -> AbstractContextManager[Sequence[Pool]]:
        """Give the rows as one pool, or class by class."""


@dataclass(frozen=True)
class Reference:
    """The rows already stored, whose mean gradient new rows should agree with."""

    h: Array  # (r, D)
    residuals: Array  # (r, K) p − onehot(y)


@dataclass(frozen=True)
class Request:
    """What is asked of a method."""

    budget: int
    counts: Array  # (C,) rows of each class
    allocation: Allocation
    temperature: float
    seed: int
    tick: Callable[[int], None] = ignore  # told of progress; a whole run adds up to the budget
    memory: int = 1 << 34  # bytes
    reference: Reference | None = None

    @property
    def joint(self) -> bool:
        """Whether all rows are one pool."""
        return self.allocation is Allocation.JOINT

    def quotas(self) -> Array:
        """Return how many rows each pool keeps: (P,)."""
        total = min(self.budget, int(self.counts.sum()))
        return np.array([total]) if self.joint else class_budgets(total, self.counts, self.allocation)


@dataclass(frozen=True)
class Answer:
    """What a method answers."""

    ranking: Ranking
    effective_size: Array | None = None  # (C,) of π in each class, where rows are drawn
    effective_total: float | None = None  # of π over all rows


@dataclass(frozen=True)
class Picked:
    """Rows of one pool, best first."""

    places: Array  # (k,) positions in the pool
    score: Array | None = None  # (k,), larger stays longer, 0 or more


def within_pools(pick: Callable[[Pool, int, Request], Picked], rows: Rows, request: Request) -> Answer:
    """Pick from every pool its share and join the lists, so that every beginning has the pools in proportion."""
    ids, codes, scores, where = [], [], [], []
    with rows.pools(request.joint) as pools:
        for pool, quota in zip(pools, request.quotas().tolist(), strict=True):
            if quota == 0:
                continue
            picked = pick(pool, quota, request)
            ids.append(pool.ids[picked.places])
            codes.append(pool.codes[picked.places])
            if picked.score is not None:
                scores.append(picked.score)
            where.append(places(quota))
    joined = np.concatenate(ids)
    order = np.lexsort((joined, np.concatenate(where)))
    score = np.concatenate(scores)[order].astype(np.float64) if scores else None
    return Answer(Ranking(joined[order], np.concatenate(codes)[order], np.full(len(order), np.nan), score))


def best_of_pool(pool: Pool, key: Array, score: Array, request: Request) -> Answer:
    """Return the rows of a pool of all rows with the largest keys, each class its share: key, score (n,)."""
    top = TopK(request.quotas())
    pools = np.zeros(pool.count, np.int64) if request.joint else pool.codes
    top.offer(key, pools, pool.ids, np.stack([pool.codes.astype(np.float64), score], axis=1))
    found = top.ranking()
    return Answer(replace(found, log_p=np.full(len(found.ids), np.nan), score=found.log_p))


def ranked(pool: Pool, picked: Picked) -> Answer:
    """Return the rows picked from a pool of all rows, in their order."""
    places = picked.places
    return Answer(Ranking(pool.ids[places], pool.codes[places], np.full(len(places), np.nan), picked.score))


def blocks(count: int) -> Iterator[tuple[int, int]]:
    """Yield the (start, stop) of each block of a pool."""
    for start in range(0, count, BLOCK):
        yield start, min(start + BLOCK, count)


def gather(read: Callable[[int, int], Array], places: Array) -> Array:
    """Return rows at any places of a pool by its `read` or `logits`: places (k,) -> (k, …)."""
    return np.concatenate([read(int(k), int(k) + 1) for k in places])


def random_places(pool: Pool, free: Array, count: int, request: Request) -> Array:
    """Return `count` places drawn uniformly from those that are free: free (n,) bool -> (count,)."""
    noise = np.where(free, row_uniforms(request.seed, Purpose.FILL, pool.ids, *pool.key), np.inf)
    places: Array = np.argsort(noise, kind="stable")[:count]
    return places


class Meter:
    """Turns the steps of a method into ticks that add up to its quota."""

    def __init__(self, tick: Callable[[int], None], quota: int, steps: int) -> None:
        self.tick, self.quota, self.steps = tick, quota, max(steps, 1)
        self.done = self.told = 0

    def step(self) -> None:
        """Tell of one step."""
        self.done += 1
        due = self.quota * min(self.done, self.steps) // self.steps
        self.tick(due - self.told)
        self.told = due

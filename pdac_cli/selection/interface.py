"""What a selection method is asked, what it answers, and how it picks from pools of rows.

A method is a function of (`arrays.Rows`, `Request`).  It may go once through all rows as they come, with or without
densities, and many times through pools of rows: the classes, or under joint allocation all rows together.  A pool is
worked on in blocks of fixed size from its first row on, so that nothing about how the rows were read changes a bit of
the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from pdac_cli.arrays import Array, Pool, PoolUnit, Rows, Tick, ignore
from pdac_cli.options.methods import OwnOptions
from pdac_cli.options.select import Allocation
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.selection.budget import class_budgets, places
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.sampling import Ranking, TopK

if TYPE_CHECKING:
    from pdac_cli.density.relative import CommonSpace

_GROUP_ROWS, _GROUPS = 4096, 1024
BLOCK = 2048  # rows worked on at once: 4 MB of 512 features, enough to hide Python's part
# How much longer a multiplication takes than in a product of square matrices, as measured: with one vector it waits for
# memory, with a few columns there are exponentials between the products.
VECTOR_COST, NARROW_COST = 8, 3


@dataclass(frozen=True)
class Reference:
    """The rows already stored, whose mean gradient new rows should agree with."""

    h: Array  # (r, D)
    residuals: Array  # (r, K) p − onehot(y)


@dataclass(frozen=True)
class DrawRule:
    """How rows are drawn by their density, Eqs. (10) and (24)."""

    relative: bool = True  # to the other classes, Eq. (23); otherwise the density within the class
    beta: float = 30.0  # how much a draw is steered by the rows kept already, unless all classes are one pool
    by_error: bool = True  # g is the fall of a classifier's error; otherwise that of the means' distance
    normalize: bool = True  # rows are divided by their length, Eq. (22)
    space: CommonSpace | None = None  # fitted before; None: from these rows


@dataclass(frozen=True)
class Suspects:
    """Rows whose label is more likely wrong than right, Eq. (26)."""

    ids: Array  # (s,) ascending
    codes: Array  # (s,) what the label says
    likely: Array  # (s,) the likeliest other class
    share: float  # of all labels, estimated to be wrong


@dataclass(frozen=True)
class Request:
    """What is asked of a method."""

    budget: int
    counts: Array  # (C,) rows of each class
    allocation: Allocation
    temperature: float
    seed: int
    tick: Tick = ignore  # told of progress; a whole run adds up to the budget
    memory: int = 1 << 34  # bytes
    reference: Reference | None = None
    jobs: int = 1  # threads
    draw: DrawRule = field(default_factory=DrawRule)
    own: OwnOptions = field(default_factory=OwnOptions)  # of single methods

    @property
    def joint(self) -> bool:
        """Whether all rows are one pool."""
        return self.allocation is Allocation.JOINT

    def pools(self, codes: Array) -> Array:
        """Return which pool rows of these classes are in: (n,) -> (n,)."""
        return np.zeros(len(codes), np.int64) if self.joint else codes

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
    suspects: Suspects | None = None  # where labels were judged


@dataclass(frozen=True)
class Picked:
    """Rows of one pool, best first."""

    places: Array  # (k,) positions in the pool
    score: Array | None = None  # (k,), larger stays longer, 0 or more


def within_pools(pick: Callable[[Pool, int, Request], Picked], rows: Rows, request: Request) -> Answer:
    """Pick from every pool its share and join the lists, so that every beginning has the pools in proportion."""
    ids, codes, scores, where = [], [], [], []
    with rows.pools(request.joint) as pools:
        units = [PoolUnit((k,), quota, quota) for k, quota in enumerate(request.quotas().tolist()) if quota]
        for found in pools.each(partial(_pick_from, pick, request), units, request.tick, threads=True):
            ids.append(found.ids)
            codes.append(found.codes)
            if found.score is not None:
                scores.append(found.score)
            where.append(places(len(found.ids)))
    joined = np.concatenate(ids)
    order = np.lexsort((joined, np.concatenate(where)))
    score = np.concatenate(scores)[order].astype(np.float64) if scores else None
    return Answer(Ranking(joined[order], np.concatenate(codes)[order], score=score))


def _pick_from(
    pick: Callable[[Pool, int, Request], Picked], request: Request, pools: Sequence[Pool], unit: PoolUnit
) -> Ranking:
    (pool,) = pools
    picked = pick(pool, unit.argument, request)
    return Ranking(pool.ids[picked.places], pool.codes[picked.places], score=picked.score)


def best_of_pool(pool: Pool, key: Array, score: Array, request: Request) -> Answer:
    """Return the rows of a pool of all rows with the largest keys, each class its share: key, score (n,)."""
    top = TopK(request.quotas())
    top.add(key, request.pools(pool.codes), pool.ids, pool.codes, score=score)
    return Answer(top.ranking())


def ranked(pool: Pool, picked: Picked) -> Answer:
    """Return the rows picked from a pool of all rows, in their order."""
    return Answer(Ranking(pool.ids[picked.places], pool.codes[picked.places], score=picked.score))


def blocks(count: int) -> Iterator[tuple[int, int]]:
    """Yield the (start, stop) of each block of a pool."""
    for start in range(0, count, BLOCK):
        yield start, min(start + BLOCK, count)


def over_blocks(pool: Pool, start: int, stop: int, work: Callable[[int, int], Array]) -> Array:
    """Return what work(start, stop) of every block of some rows gives, joined; of all rows on the pool's threads."""
    if (start, stop) == (0, pool.count):
        return np.concatenate(pool.map(work))
    return np.concatenate([work(at, min(at + BLOCK, stop)) for at in range(start, stop, BLOCK)])


@dataclass(frozen=True)
class Best:
    """The row of some that a method would choose next."""

    gain: float
    place: int  # in the pool
    row: Array  # (D,)


def largest(found: Sequence[Best]) -> Best:
    """Return the best of all rows, the earliest of equals."""
    return max(found, key=lambda best: best.gain)


def gather(read: Callable[[int, int], Array], places: Array) -> Array:
    """Return rows at any places of a pool by its `read` or `logits`: places (k,) -> (k, …)."""
    return np.concatenate([read(int(k), int(k) + 1) for k in places])


def random_places(pool: Pool, free: Array, count: int, request: Request) -> Array:
    """Return `count` places drawn uniformly from those that are free: free (n,) bool -> (count,)."""
    noise = np.where(free, row_uniforms(request.seed, Purpose.FILL, pool.ids, *pool.key), np.inf)
    places: Array = np.argsort(noise, kind="stable")[:count]
    return places


def class_groups(counts: Array) -> list[tuple[int, ...]]:
    """Return the classes (C,) in groups: what is worked on together and summed up before it is added to the rest.

    The groups follow from the counts alone, so that sums come to the same wherever they are made.  There are about
    1,024 at most; few classes of few rows are one.
    """
    wanted = max(_GROUP_ROWS, int(counts.sum()) // _GROUPS)
    groups: list[list[int]] = [[]]
    rows = 0
    for code, count in enumerate(counts.tolist()):
        if groups[-1] and rows + count > wanted:
            groups.append([])
            rows = 0
        groups[-1].append(code)
        rows += count
    return [tuple(group) for group in groups]


class ProgressSteps:
    """Turns the steps of a method into ticks that add up to its quota."""

    def __init__(self, tick: Tick, quota: int, steps: int) -> None:
        self.tick, self.quota, self.steps = tick, quota, max(steps, 1)
        self.done = self.told = 0

    def step(self) -> None:
        """Tell of one step."""
        self.done += 1
        due = self.quota * min(self.done, self.steps) // self.steps
        self.tick(due - self.told)
        self.told = due


@dataclass(frozen=True)
class ProblemSize:
    """How much there is to choose from."""

    n: int  # rows
    n_features: int  # D
    n_logits: int  # K, or the number of classes
    pools: int  # that are chosen from separately
    m: int  # budget


@dataclass(frozen=True)
class Method:
    """One entry of the table."""

    select: Callable[[Rows, Request], Answer]
    allocation: Allocation  # where the user does not say
    evict: Evict
    work: Callable[[ProblemSize], float]  # multiplications, about
    needs_density: bool = False
    needs_logits: bool = False
    needs_classes: bool = False  # judges rows by telling classes apart: nothing to do where there is one
    needs_features: bool = True  # False: labels and what stands above do
    squares_features: bool = False  # keeps D × D numbers, so it is given fewer directions where features are many
    takes_inputs: bool = False  # is as well defined on raw inputs, as one original is
    uses_stored: bool = False  # compares new rows with those already stored
    random: bool = True  # whether another seed gives another answer, but for places filled at random
    nested: bool = False  # whether the beginning of a list is the answer at that budget
    distributed: bool = False  # whether a cluster can take the work over
    is_reference: bool = False  # what others are compared with: it draws uniformly

    @property
    def looks_at_rows(self) -> bool:
        """Whether anything but the labels decides."""
        return self.needs_features or self.needs_logits or self.needs_density


def product_a_row(size: ProblemSize) -> float:
    """Return the work of a product with all rows of its pool for every row kept."""
    return size.m * size.n * size.n_features / size.pools * VECTOR_COST

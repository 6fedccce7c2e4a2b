"""The one table of selection methods.

A method turns offered rows into a ranking.  It is offered every row of the task once, in chunks of any size, and must
answer the same whatever the chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pdac_cli.errors import UsageError
from pdac_cli.options import Allocation
from pdac_cli.selection.budget import Array, class_budgets
from pdac_cli.selection.sampling import EffectiveSize, Ranking, TopK, keys


@dataclass(frozen=True)
class Offer:
    """Some rows of the task."""

    ids: Array  # (n,) global row ids
    codes: Array  # (n,) class positions
    log_p: Array | None  # (n,) log p̂(z), Eq. (9), where the method needs a density


@dataclass(frozen=True)
class Request:
    """What is asked of a method."""

    budget: int
    counts: Array  # (C,) rows of each class
    allocation: Allocation
    temperature: float
    seed: int


@dataclass(frozen=True)
class Answer:
    """What a method answers."""

    ranking: Ranking
    effective_size: Array | None  # (C,) of π in each class, where rows are drawn
    effective_total: float | None  # of π over all rows


class Selector(Protocol):
    """A method at work."""

    def offer(self, rows: Offer) -> None:
        """Take in some rows."""

    def answer(self) -> Answer:
        """Return the rows to keep."""


@dataclass(frozen=True)
class Method:
    """One entry of the table."""

    summary: str
    needs_density: bool
    start: Callable[[Request], Selector]


class _Draw:
    """Draw rows ∝ p̂^T without replacement, Eq. (10), within each class or over all."""

    def __init__(self, request: Request) -> None:
        self.request = request
        joint = request.allocation is Allocation.JOINT
        total = min(request.budget, int(request.counts.sum()))
        self.joint = joint
        self.top = TopK(np.array([total]) if joint else class_budgets(total, request.counts, request.allocation))
        self.size = EffectiveSize(len(request.counts))

    def offer(self, rows: Offer) -> None:
        """Take in some rows."""
        log_p = np.full(len(rows.ids), np.nan) if rows.log_p is None else rows.log_p
        log_w = np.zeros(len(rows.ids)) if rows.log_p is None else self.request.temperature * log_p
        self.size.offer(log_w, rows.codes)
        pools = np.zeros(len(rows.ids), np.int64) if self.joint else rows.codes
        extra = np.stack([rows.codes.astype(np.float64), log_p], axis=1)
        self.top.offer(keys(log_w, rows.ids, self.request.seed), pools, rows.ids, extra)

    def answer(self) -> Answer:
        """Return the rows to keep."""
        return Answer(self.top.ranking(), self.size.sizes(), self.size.total())


METHODS: Mapping[str, Method] = {
    "pdac": Method("draw in proportion to the estimated density (the paper's rule)", needs_density=True, start=_Draw),
    "uniform": Method("draw uniformly at random", needs_density=False, start=_Draw),
}


def method_named(name: str) -> Method:
    """Return the method of that name."""
    if name not in METHODS:
        raise UsageError(f"--method is {name!r}; expected one of: {', '.join(METHODS)}")
    return METHODS[name]

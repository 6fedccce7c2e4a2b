"""The beginnings of one selection: what a list of kept rows answers for smaller budgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.options.select import Allocation
from pdac_cli.selection.budget import class_budgets


@dataclass(frozen=True)
class RankedRows:
    """A selection, best first."""

    ids: Array  # (m,)
    codes: Array  # (m,) positions among the classes
    counts: Array  # (C,) rows of each class to choose from
    allocation: Allocation

    def beginning(self, budget: int) -> Array:
        """Return the places of the first rows that make up this budget.

        Where every class has its share, the first rows of each class, as many as it has at that budget; where all rows
        are one pool, the first rows.
        """
        if self.allocation is Allocation.JOINT:
            return np.arange(min(budget, len(self.ids)))
        quotas = class_budgets(min(budget, len(self.ids)), self.counts, self.allocation)
        order = np.argsort(self.codes, kind="stable")  # class by class, best first
        kept = np.bincount(self.codes, minlength=len(self.counts))
        nth = np.arange(len(order)) - np.repeat(np.cumsum(kept) - kept, kept)
        return np.sort(order[nth < quotas[self.codes[order]]])


def smallest_reaching(goal: float, tried: dict[int, float], accuracy: Callable[[int], float]) -> int | None:
    """Return the smallest budget at which the goal is reached, None if none that was tried reaches it.

    Between the last tried below the goal and the first that reaches it, halving, as if accuracy grew with the budget.
    """
    reached = [budget for budget in sorted(tried) if tried[budget] >= goal]
    if not reached:
        return None
    high = reached[0]
    low = max((budget for budget in tried if budget < high), default=0)
    while high - low > 1:
        middle = (low + high) // 2
        if accuracy(middle) >= goal:
            high = middle
        else:
            low = middle
    return high

"""How the density of a task's rows goes with what the network makes of them, while it learns.

A row of high density is worth replaying where dense rows are hard, and is not where they are those that the network is
sure of.  The margin of a row is its own class's logit less the largest of the others.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.console import Silent
from pdac_cli.engine.plan import Plan
from pdac_cli.engine.sources import MemorySource
from pdac_cli.options.methods import DRAWN
from pdac_cli.options.select import Allocation, DensityKind, SelectOptions
from pdac_cli.pipeline.selecting import choose
from pdac_cli.selection.methods import method_named

EPOCHS = (1, 2, 4, 10, 20, 50, 100, 200)  # after which the rows are looked at


@dataclass(frozen=True)
class Probe:
    """What one kind of density says of a task's rows after an epoch; means over the classes."""

    task: int
    epoch: int
    density: str
    margin_correlation: float  # Spearman's, of the log-density with the margin, within a class
    effective_share: float  # of a class's rows, in a draw in proportion to the density


def probe(
    task: int, epoch: int, source: MemorySource, margin: Array, options: SelectOptions, plan: Plan
) -> list[dict[str, Any]]:
    """Compare the densities of a task's rows with their margins (n,), by each kind of density."""
    rows, ids = len(margin), source.row_ids
    found: list[dict[str, Any]] = []
    if ids is None:
        raise ValueError("rows without numbers")
    for kind in DensityKind:
        every = replace(  # a draw of all rows tells the density of each
            options, budget=rows, method=DRAWN, allocation=Allocation.BALANCED, temperature=1.0, model=None,
            draw=replace(options.draw, density_kind=kind, steer=0.0),
        )  # fmt: skip
        answer = choose(source, None, every, method_named(DRAWN), plan, Silent()).answer
        ranking = answer.ranking
        log_density = ranking.log_p if ranking.score is None else np.log(np.maximum(ranking.score, 1e-300))
        if log_density is None or answer.effective_size is None:
            raise ValueError("a draw by density without densities")
        mine = margin[np.searchsorted(ids, ranking.ids)]
        classes = np.unique(ranking.codes)
        by_class = [rank_correlation(log_density[ranking.codes == c], mine[ranking.codes == c]) for c in classes]
        share = [answer.effective_size[c] / np.count_nonzero(ranking.codes == c) for c in classes]
        found.append(asdict(Probe(task, epoch, kind.value, float(np.mean(by_class)), float(np.mean(share)))))
    return found


def margins(logits: Array, labels: Array) -> Array:
    """Return each row's logit of its own class less the largest of the others: (n, K), (n,) -> (n,)."""
    others, rows = logits.copy(), np.arange(len(logits))
    others[rows, labels] = -np.inf
    margin: Array = logits[rows, labels] - others.max(axis=1)
    return margin


def rank_correlation(a: Array, b: Array) -> float:
    """Return Spearman's rank correlation, 0 where one of them does not vary: (n,), (n,)."""
    from scipy.stats import rankdata

    x, y = (rankdata(values) - (len(values) + 1) / 2 for values in (a, b))
    scale = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / scale) if scale > 0 else 0.0

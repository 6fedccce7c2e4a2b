"""The paper's claims on the validation experiment, each held against the trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.commands.valex.trials import Measured
from pdac_cli.metrics import Difference, mean_interval, paired_difference
from pdac_cli.options.valex import Strategy

BINS = 5
HOLDS, REVERSED, OPEN = "holds", "reversed", "open"
ORDER = (  # C2: the first strategy's error is below the second's
    (Strategy.DENSITY, Strategy.UNIFORM),
    (Strategy.ESTIMATE, Strategy.UNIFORM),
    (Strategy.UNIFORM, Strategy.INVERSE),
    (Strategy.DENSITY, Strategy.ESTIMATE),
)
Trials = Mapping[tuple[Strategy, int], Measured]


@dataclass(frozen=True)
class Claim:
    """A quantity that is below 0 where the claim holds, with its 95 % interval over trials."""

    claim: str
    size: int
    mean: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """Whether the claim holds, its opposite does, or the interval leaves it open."""
        return HOLDS if self.high < 0 else REVERSED if self.low > 0 else OPEN


@dataclass(frozen=True)
class Bin:
    """Cells of similar resampling probability p_i."""

    size: int
    number: int  # from 1
    low: float  # of p_i
    high: float
    values: Array  # variance of each cell
    groups: Array  # (groups,) mean variance, of each group of trials


def bins_of(measured: Measured, probability: Array) -> list[Bin]:
    """Divide the range of p_i (cells,) into five equal intervals; empty ones are left out."""
    edges = np.linspace(probability.min(), probability.max(), BINS + 1)
    place = np.clip(np.searchsorted(edges, probability, side="right") - 1, 0, BINS - 1)
    found = []
    for b in range(BINS):
        cells = place == b
        if cells.any():
            groups = measured.group_variance[:, cells].mean(axis=1)
            values = measured.cell_variance[cells]
            found.append(Bin(measured.size, b + 1, float(edges[b]), float(edges[b + 1]), values, groups))
    return found


def c1_claims(measured: Measured, probability: Array) -> list[Claim]:
    """Hold C1 against the trials: the variance falls from bin to bin, and with p_i over all cells (rank correlation).

    The interval is over groups of trials, each of which has a variance of its own.
    """
    bins = bins_of(measured, probability)
    claims = [
        claim_of(f"C1: bin {b.number} below bin {a.number}", measured.size, paired_difference(b.groups, a.groups))
        for a, b in pairwise(bins)
    ]
    correlations = np.array([rank_correlation(probability, row) for row in measured.group_variance])
    return [*claims, claim_of("C1: rank correlation", measured.size, mean_interval(correlations))]


def same_cell_claims(trials: Trials, probability: Mapping[Strategy, Array], size: int) -> list[Claim]:
    """Hold C1 against one and the same cell: its variance falls where p_i is raised and grows where it is lowered.

    Between cells, p_i is not all that differs: dense cells lie elsewhere.  Here the cell stays, and its p_i changes
    from that of uniform drawing to that of drawing in proportion to p.
    """
    other, uniform = trials[Strategy.DENSITY, size], trials[Strategy.UNIFORM, size]
    change = other.group_variance - uniform.group_variance  # (groups, cells)
    raised = probability[Strategy.DENSITY] > probability[Strategy.UNIFORM]
    return [
        claim_of("C1, same cell: p_i raised", size, mean_interval(change[:, raised].mean(axis=1))),
        claim_of("C1, same cell: p_i lowered", size, mean_interval(-change[:, ~raised].mean(axis=1))),
    ]


def c2_claims(trials: Trials, size: int) -> list[Claim]:
    """Hold C2 against the trials: differences of the error, paired by trial."""
    return [
        claim_of(name_of(first, second), size, paired_difference(trials[first, size].mse, trials[second, size].mse))
        for first, second in ORDER
    ]


def name_of(first: Strategy, second: Strategy) -> str:
    """Return how a claim of C2 is called."""
    return f"C2: {first.value} < {second.value}"


def claim_of(name: str, size: int, found: Difference) -> Claim:
    """Return a claim by a difference that is below 0 where it holds."""
    low, high = (found.mean if bound is None else bound for bound in (found.low, found.high))
    return Claim(name, size, found.mean, low, high)


def rank_correlation(a: Array, b: Array) -> float:
    """Return Spearman's: (n,), (n,)."""
    from scipy.stats import spearmanr

    return float(spearmanr(a, b).statistic)

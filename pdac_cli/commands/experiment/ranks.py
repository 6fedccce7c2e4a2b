"""Ranks of the rules of a head-to-head over its cells, and how far apart two must be to differ.

A cell is a data set, a corruption, a number of rows a class and a head; in it the rules are ranked by their mean over
the seeds that all of them have.  Friedman's test asks whether the rules differ at all, Nemenyi's critical difference
which of them do (Demšar 2006).  Both take cells for independent; those of one data set are not, so what is needed is
more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.commands.experiment.results import Cell

_LEVEL = 0.05
_LEAST_RULES, _LEAST_CELLS = 2, 2


@dataclass(frozen=True)
class MeanRanks:
    """Mean ranks of the rules under some heads, 1 the best."""

    heads: str  # one's name, or all
    cells: int
    mean_ranks: dict[str, float]  # best first
    critical_difference: float
    p_value: float | None  # of Friedman's test; None of two rules
    left_out: list[str]  # rules that not all of these cells have


def rankings(cells: Sequence[Cell], heads: Sequence[str], reference: str | None) -> list[MeanRanks]:
    """Return the ranking under all heads together and under each, where there are cells enough."""
    tables = {head: _blocks(cells, head) for head in heads}
    both = {(head, *key): block for head, blocks in tables.items() for key, block in blocks.items()}
    found = [_ranking("all heads", both, reference)]
    found += [_ranking(head, tables[head], reference) for head in heads]
    return [ranking for ranking in found if ranking is not None]


def mean_ranks(table: Array) -> Array:
    """Return each column's mean rank over the rows, 1 for the largest, ties shared: (cells, rules) -> (rules,)."""
    from scipy.stats import rankdata

    ranks: Array = rankdata(-table, axis=1).mean(axis=0)
    return ranks


def critical_difference(rules: int, cells: int) -> float:
    """Return by how much two mean ranks must differ: q_α √(k(k + 1) / 6N), q_α of the studentised range over √2."""
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - _LEVEL, rules, np.inf)) / np.sqrt(2)
    return float(q * np.sqrt(rules * (rules + 1) / (6 * cells)))


Block = dict[str, dict[int, float]]  # accuracy by rule and seed


def _blocks(cells: Sequence[Cell], head: str) -> dict[tuple[str, ...], Block]:
    found: dict[tuple[str, ...], Block] = {}
    for cell in cells:
        if head in cell.values:
            key = (cell.data, *(f"{axis}={value}" for axis, value in cell.axes.items()))
            found.setdefault(key, {})[cell.method] = dict(zip(cell.seeds, cell.values[head], strict=True))
    return found


def _ranking(heads: str, blocks: dict[tuple[str, ...], Block], reference: str | None) -> MeanRanks | None:
    """Rank the rules that all cells of the reference have, over the cells that have seeds in common."""
    blocks = {key: block for key, block in blocks.items() if reference is None or reference in block}
    every = list(dict.fromkeys(rule for block in blocks.values() for rule in block))
    rules = [rule for rule in every if all(rule in block for block in blocks.values())]
    rows = []
    for block in blocks.values():
        seeds = set.intersection(*(set(block[rule]) for rule in rules)) if rules else set()
        if seeds:
            rows.append([np.mean([block[rule][seed] for seed in sorted(seeds)]) for rule in rules])
    if len(rules) < _LEAST_RULES or len(rows) < _LEAST_CELLS:
        return None
    table = np.array(rows)
    means = mean_ranks(table)
    order = np.argsort(means, kind="stable")
    return MeanRanks(
        heads,
        len(rows),
        {rules[k]: float(means[k]) for k in order},
        critical_difference(len(rules), len(rows)),
        _friedman(table),
        [rule for rule in every if rule not in rules],
    )


def _friedman(table: Array) -> float | None:
    from scipy.stats import friedmanchisquare

    if table.shape[1] < 3 or np.ptp(table, axis=1).max() == 0:
        return None
    return float(friedmanchisquare(*table.T).pvalue)

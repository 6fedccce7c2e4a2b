"""What a head-to-head does to the rows before a rule may choose: a random pool, wrong labels, uneven classes.

All of it is a function of the seed and of row ids, so that every rule with the same seed has the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.options.heads import Corruption
from pdac_cli.rng import Purpose, generator, row_uniforms


@dataclass(frozen=True)
class Labelled:
    """Rows in memory: ids ascending, and what their labels say."""

    ids: Array  # (n,)
    h: Array  # (n, D)
    y: Array  # (n,)

    def of(self, places: Array) -> Labelled:
        """Return some of the rows, in order of their ids."""
        kept = np.sort(places)
        return Labelled(self.ids[kept], self.h[kept], self.y[kept])


def drawn_pool(rows: Labelled, share: float, seed: int) -> Labelled:
    """Return a random part of each class, at least one row of it."""
    if share >= 1:
        return rows
    noise = row_uniforms(seed, Purpose.POOL, rows.ids)
    return rows.of(_first_of_classes(rows.y, noise, lambda count, _place: max(1, round(share * count))))


def corrupted(rows: Labelled, kind: Corruption, seed: int) -> Labelled:
    """Return the rows with what the corruption does to them."""
    return _CORRUPTIONS[kind](rows, seed)


def _clean(rows: Labelled, _seed: int) -> Labelled:
    return rows


def _wrong(share: float) -> Callable[[Labelled, int], Labelled]:
    def change(rows: Labelled, seed: int) -> Labelled:
        labels, codes = np.unique(rows.y, return_inverse=True)
        others = max(1, len(labels) - 1)
        step = 1 + (others * row_uniforms(seed, Purpose.WRONG_LABEL, rows.ids)).astype(np.int64)
        return _replaced(rows, labels[(codes + step) % len(labels)], share, seed)

    return change


def _confused(share: float) -> Callable[[Labelled, int], Labelled]:
    def change(rows: Labelled, seed: int) -> Labelled:
        labels, codes = np.unique(rows.y, return_inverse=True)
        u = unit_rows(rows.h.astype(np.float32))
        means = np.stack([u[codes == code].mean(axis=0, dtype=np.float64) for code in range(len(labels))])
        apart = np.square(means[:, None] - means[None]).sum(axis=2) + np.diag(np.full(len(labels), np.inf))
        return _replaced(rows, labels[apart.argmin(axis=1)[codes]], share, seed)

    return change


def _imbalance(ratio: float) -> Callable[[Labelled, int], Labelled]:
    """Class i of a random order keeps n · ratio^(−i/(C − 1)) of its rows, at least one."""

    def change(rows: Labelled, seed: int) -> Labelled:
        classes = len(np.unique(rows.y))
        order = generator(seed, Purpose.CLASS_ORDER).permutation(classes)
        shares = ratio ** (-order / max(1, classes - 1))
        noise = row_uniforms(seed, Purpose.IMBALANCE, rows.ids)
        return rows.of(_first_of_classes(rows.y, noise, lambda count, code: max(1, round(shares[code] * count))))

    return change


_CORRUPTIONS: Mapping[Corruption, Callable[[Labelled, int], Labelled]] = {
    Corruption.CLEAN: _clean,
    Corruption.WRONG_20: _wrong(0.2),
    Corruption.WRONG_40: _wrong(0.4),
    Corruption.CONFUSED_20: _confused(0.2),
    Corruption.CONFUSED_40: _confused(0.4),
    Corruption.IMBALANCE_100: _imbalance(100.0),
}


def _replaced(rows: Labelled, others: Array, share: float, seed: int) -> Labelled:
    """Replace exactly that share of the labels."""
    noise = row_uniforms(seed, Purpose.CORRUPT, rows.ids)
    wrong = np.argsort(noise, kind="stable")[: round(share * len(rows.y))]
    y = rows.y.copy()
    y[wrong] = others[wrong]
    return Labelled(rows.ids, rows.h, y)


def _first_of_classes(y: Array, noise: Array, quota: Callable[[int, int], int]) -> Array:
    """Return the places of each class's rows with the least noise, quota(count, code) of them."""
    kept = []
    for code, label in enumerate(np.unique(y)):
        mine = np.flatnonzero(y == label)
        kept.append(mine[np.argsort(noise[mine], kind="stable")[: quota(len(mine), code)]])
    return np.concatenate(kept)

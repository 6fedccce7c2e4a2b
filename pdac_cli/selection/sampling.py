"""Drawing without replacement by Gumbel-top-k, Eq. (10): mergeable over chunks, files and workers.

Keeping the k largest of log w + Gumbel noise is exactly sequential drawing of k rows with probability ∝ w without
replacement (Yellott 1977; Kool et al. 2019).  The noise is a function of (seed, global row id), so it does not matter
how the rows are cut up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.rng import Purpose, row_gumbels


@dataclass(frozen=True)
class Ranking:
    """Chosen rows, best first, so that a shorter list is still the method's answer."""

    ids: Array  # (m,) int64 global row ids
    codes: Array  # (m,) int64 class positions
    log_p: Array | None = None  # (m,) float64 log p̂(z), where the method has a density
    score: Array | None = None  # (m,) float64, what earlier rows are evicted by in place of the density


class TopK:
    """The rows with the largest keys of each pool, gathered from any number of pieces."""

    def __init__(self, caps: Array) -> None:
        self.caps = np.asarray(caps, np.int64)  # (P,) how many each pool keeps
        self.bar = np.where(self.caps > 0, -np.inf, np.inf)  # (P,) a row must beat this to enter
        self.keys = np.empty(0)
        self.pools, self.ids, self.codes = (np.empty(0, np.int64) for _ in range(3))
        self.log_p: Array | None = None
        self.score: Array | None = None

    def add(
        self,
        keys: Array,
        pools: Array,
        ids: Array,
        codes: Array,
        log_p: Array | None = None,
        score: Array | None = None,
    ) -> None:
        """Take in rows, (n,) each; densities and scores come with every piece or with none."""
        new = keys > self.bar[pools]
        keys = np.concatenate([self.keys, keys[new]])
        pools = np.concatenate([self.pools, pools[new]])
        ids = np.concatenate([self.ids, ids[new]])
        order = np.lexsort((ids, -keys, pools))
        pools = pools[order]
        keep = _rank_within(pools) < self.caps[pools]
        order, self.pools = order[keep], pools[keep]
        self.keys, self.ids = keys[order], ids[order]
        self.codes = np.concatenate([self.codes, codes[new]])[order]
        self.log_p = _joined(self.log_p, log_p, new, order)
        self.score = _joined(self.score, score, new, order)
        full = np.bincount(self.pools, minlength=len(self.caps)) == self.caps
        lowest = np.full(len(self.caps), np.inf)
        np.minimum.at(lowest, self.pools, self.keys)
        self.bar = np.where(full, lowest, self.bar)

    def ranking(self) -> Ranking:
        """Return the rows so that every beginning of the list has the pools in their final proportions."""
        place = (_rank_within(self.pools) + 0.5) / self.caps[self.pools]
        order = np.lexsort((self.ids, place))
        log_p = None if self.log_p is None else self.log_p[order]
        score = None if self.score is None else self.score[order]
        return Ranking(self.ids[order], self.codes[order], log_p, score)


class EffectiveSize:
    """The effective sample size (Σπ)²/Σπ² of each class, summed up in the log domain."""

    def __init__(self, classes: int) -> None:
        self.largest = np.full(classes, -np.inf)
        self.first = np.zeros(classes)  # Σ w / exp(largest)
        self.second = np.zeros(classes)  # Σ w² / exp(2 largest)

    def add(self, log_w: Array, codes: Array) -> None:
        """Take in rows: log_w, codes (n,)."""
        largest = self.largest.copy()
        np.maximum.at(largest, codes, log_w)
        with np.errstate(invalid="ignore"):
            shrink = np.where(np.isfinite(self.largest), np.exp(self.largest - largest), 0.0)
        w = np.exp(log_w - largest[codes])
        self.first = self.first * shrink + np.bincount(codes, w, len(largest))
        self.second = self.second * shrink**2 + np.bincount(codes, w * w, len(largest))
        self.largest = largest

    def put(self, code: int, of_class: EffectiveSize) -> None:
        """Take in the rows of a class that has none yet, summed up by themselves."""
        for name in ("largest", "first", "second"):
            getattr(self, name)[code] = getattr(of_class, name)[0]

    def sizes(self) -> Array:
        """Return the effective sample size of each class, 0 for one without rows: (C,)."""
        return np.divide(self.first**2, self.second, out=np.zeros_like(self.first), where=self.second > 0)

    def total(self) -> float:
        """Return the effective sample size of all rows together."""
        with np.errstate(under="ignore"):
            scale = np.exp(self.largest - self.largest.max())
            return float((self.first * scale).sum() ** 2 / (self.second * scale**2).sum())


def keys(log_w: Array, ids: Array, seed: int) -> Array:
    """Return log w + Gumbel(seed, row id): log_w, ids (n,) -> (n,)."""
    noisy: Array = log_w + row_gumbels(seed, Purpose.DRAW, ids)
    return noisy


def _rank_within(pools: Array) -> Array:
    """Return each entry's position among those of its pool; pools (n,) are sorted."""
    starts = np.searchsorted(pools, pools, side="left")
    rank: Array = np.arange(len(pools)) - starts
    return rank


def _joined(old: Array | None, more: Array | None, new: Array, order: Array) -> Array | None:
    """Return a column with the new rows' part of another behind it, in order; None where there is none."""
    if more is None:
        return None
    found: Array = np.concatenate([np.empty(0) if old is None else old, more[new]])[order]
    return found

"""One pass over all rows: the moments of their density and some rows of each class to choose from.

Memory is D × D numbers and the rows kept, however many rows there are.  The rows of each piece of the ids are taken in
blocks of fixed size and summed from zero, and the pieces are added up in order, so that neither how rows were read nor
where changes a bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from pdac_cli.arrays import Array, Candidates, Rows
from pdac_cli.errors import DataError, UsageError
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.selection.interface import BLOCK

_SAFE = 1e15  # float32 numbers below it, and above its inverse, have squares


@dataclass(frozen=True)
class Standardizer:
    """Standardises features."""

    mean: Array  # (D,)
    factor: Array  # (D,) 1 / standard deviation, 0 for a feature that is constant

    @property
    def length(self) -> float:
        """The mean squared length of a standardised row; 1 where all features are constant."""
        return float(max(int(np.count_nonzero(self.factor)), 1))

    def __call__(self, h: Array) -> Array:
        """Return standardised rows: (n, D) -> (n, D)."""
        x: Array = ((h - self.mean) * self.factor).astype(h.dtype)
        return x


@dataclass(frozen=True)
class MomentsAndSample:
    """What one pass leaves of all rows."""

    weights: Array  # (C,) of the classes, sum 1
    scale: Standardizer
    first: Array  # (D, C) E[x onehot(y)ᵀ] of standardised rows, the classes weighed
    second: Array  # (D, D) E[x xᵀ]
    ids: Array  # (r,) of the rows kept
    codes: Array  # (r,) their classes
    h: Array  # (r, D)

    def candidates(self, code: int) -> tuple[Array, Array]:
        """Return ids and features of the rows kept of a class, in order of their ids: (n,), (n, D)."""
        mine = np.flatnonzero(self.codes == code)
        return self.ids[mine], self.h[mine]


def moments_and_sample(rows: Rows, counts: Array, weights: Array, limits: Array, memory: int) -> MomentsAndSample:
    """Go once through all rows: the classes' counts, weights and numbers of rows to keep, each (C,)."""
    first = next(_blocks(rows.candidates()), None)
    if first is None:
        raise DataError("no rows to choose from; expected at least one")
    _check_memory(first[2], int(limits.sum()), memory)
    each = np.divide(weights, counts, out=np.zeros(len(counts)), where=counts > 0)
    # By chance a class may have fewer rows below the bar than it is to keep: then all of its rows are looked at.
    for bar in (_likely_bar(limits, counts), np.where(limits > 0, np.inf, -np.inf)):
        moments, sample = WeightedMoments.of(first[2], weights), _Sample(limits, bar)
        for part, found in rows.pieces(partial(_piece, moments.empty(), limits, bar, each)):
            moments.merge(part)
            for ids, codes, h in found:
                sample.add(ids, codes, h)
        kept = sample.rows()
        if kept is not None and np.array_equal(np.bincount(kept[1], minlength=len(counts)), np.minimum(limits, counts)):
            break
    if kept is None:
        kept = first[0][:0], first[1][:0], first[2][:0]
    return MomentsAndSample(weights, *moments.standardised(), *kept)


def _piece(
    moments: WeightedMoments, limits: Array, bar: Array, each: Array, some: Iterator[Candidates]
) -> tuple[WeightedMoments, list[tuple[Array, Array, Array]]]:
    """Return the moments of a piece of the rows, and which of them may be kept."""
    moments, sample = moments.empty(), _Sample(limits, bar)
    for ids, codes, h in _blocks(some):
        moments.add(h, codes, each[codes])
        sample.add(ids, codes, h)
    kept = sample.rows()
    return moments, [] if kept is None else [kept]


def _likely_bar(limits: Array, counts: Array) -> Array:
    """Return numbers that enough rows of each class are below, all but certainly: (C,)."""
    wanted = limits + 8 * np.sqrt(limits) + 16
    return np.where(limits <= 0, -np.inf, np.where(wanted < counts, wanted / np.maximum(counts, 1), np.inf))


def _check_memory(h: Array, kept: int, memory: int) -> None:
    width = h.shape[1] + 1
    need = 6 * 8 * width * width + 3 * kept * width * h.dtype.itemsize
    if need > memory:
        raise UsageError(
            f"the method keeps D x D numbers and {kept:,} rows to choose from, {need:,} bytes, and --memory is "
            f"{memory:,}; expected room for them; raise --memory, lower --budget or use --method herding"
        )


def _blocks(candidates: Iterator[Candidates]) -> Iterator[tuple[Array, Array, Array]]:
    """Yield ids, classes and features of rows, BLOCK at a time, as float32 or float64."""
    held: list[tuple[Array, Array, Array]] = []
    count = 0
    for some in candidates:
        if some.h is None:
            raise ValueError("given without features")
        h = some.h.astype(np.result_type(some.h, np.float32), copy=False)
        held.append((some.ids, some.codes, h))
        count += len(h)
        if count >= BLOCK:
            ids, codes, h = (np.concatenate(column) for column in zip(*held, strict=True))
            full = count - count % BLOCK
            for start in range(0, full, BLOCK):
                part = slice(start, start + BLOCK)
                yield ids[part], codes[part], h[part]
            held, count = [(ids[full:], codes[full:], h[full:])], count - full
    if count:
        ids, codes, h = (np.concatenate(column) for column in zip(*held, strict=True))
        yield ids, codes, h


class WeightedMoments:
    """Weighted sums of rows and of their products; each block's about its own mean, so that no digits are lost."""

    def __init__(self, unit: Array, weights: Array) -> None:
        self.unit, self.weights = unit, weights  # (D,), (C,)
        self.within, self.between = np.zeros((len(unit), len(unit))), np.zeros((len(unit), len(unit)))
        self.sums = np.zeros((len(unit), len(weights)))

    @classmethod
    def of(cls, h: Array, weights: Array) -> WeightedMoments:
        """Return the moments of no rows, in units of some (n, D) like those to come."""
        largest = np.abs(h).max(axis=0).astype(np.float64)
        return cls(np.exp2(np.round(np.log2(np.where(largest > 0, largest, 1.0)))), weights)

    def empty(self) -> WeightedMoments:
        """Return the moments of no rows, to be merged with these."""
        return WeightedMoments(self.unit, self.weights)

    def of_classes(self, codes: Sequence[int]) -> WeightedMoments:
        """Return the moments of no rows of some of the classes."""
        return WeightedMoments(self.unit, self.weights[list(codes)])

    def merge(self, other: WeightedMoments, codes: Sequence[int] | None = None) -> None:
        """Add the moments of other rows, where need be of some of the classes."""
        self.within += other.within
        self.between += other.between
        self.sums[:, slice(None) if codes is None else list(codes)] += other.sums

    def __reduce__(self) -> tuple[object, ...]:
        """Be sent without the zeros of no rows."""
        state = None if not self.sums.any() else {"within": self.within, "between": self.between, "sums": self.sums}
        return WeightedMoments, (self.unit, self.weights), state

    def add(self, h: Array, codes: Array, weight: Array) -> None:
        """Take in a block: h (n, D), codes and weight (n,)."""
        x = h / self.unit.astype(h.dtype)
        total = float(weight.sum())
        if total == 0:
            return
        exact = x.astype(np.float64, copy=False)
        mean = (weight @ exact) / total
        centred = np.subtract(exact, mean, out=exact if exact is not x else None)
        largest = np.abs(centred).max(initial=0.0)
        if 1 / _SAFE < largest < _SAFE:
            centred = centred.astype(h.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            centred *= np.sqrt(weight).astype(centred.dtype)[:, None]
            self.within += centred.T @ centred
            self.between += np.outer(mean * total, mean)
        if (codes == codes[0]).all():  # as the rows of a pool are
            self.sums[:, codes[0]] += mean * total
            return
        order = np.argsort(codes, kind="stable")
        present, starts = np.unique(codes[order], return_index=True)
        weighed = x[order].astype(np.float64) * weight[order, None]
        self.sums[:, present] += np.add.reduceat(weighed, starts, axis=0).T

    def standardised(self) -> tuple[Standardizer, Array, Array]:
        """Return the scale and both moments of standardised rows."""
        mean = self.sums.sum(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            second = self.within + (self.between - np.outer(mean, mean))
        if not np.isfinite(second).all():
            raise DataError("the features range too widely to be squared; scale them or use another --method")
        variance = np.maximum(np.diag(second), 0.0)
        # A spread at the level of rounding is none.
        noise = 1e-13 * np.diag(self.between)
        factor = np.divide(1.0, np.sqrt(variance), out=np.zeros_like(variance), where=variance > noise)
        with np.errstate(over="ignore"):
            scale = factor / self.unit
        factor = np.where(np.isfinite(scale), factor, 0.0)  # nor is one among the smallest numbers there are
        first = factor[:, None] * (self.sums - mean[:, None] * self.weights)
        scale = np.where(np.isfinite(scale), scale, 0.0)
        return Standardizer(mean * self.unit, scale), first, factor[:, None] * second * factor


class _Sample:
    """Rows of each class, at most its limit, by a number of their id alone."""

    def __init__(self, limits: Array, bar: Array) -> None:
        self.limits, self.bar = limits, bar  # (C,), (C,) a row's number must be below this
        self.parts: list[tuple[Array, Array, Array, Array]] = []
        self.size = 0

    def add(self, ids: Array, codes: Array, h: Array) -> None:
        """Take in a block."""
        numbers = row_uniforms(0, Purpose.CANDIDATE, ids)
        new = np.flatnonzero(numbers < self.bar[codes])
        if len(new):
            self.parts.append((numbers[new], ids[new], codes[new], h[new]))
            self.size += len(new)
        if self.size > 1.25 * self.limits.sum() + BLOCK:
            self._shrink()

    def rows(self) -> tuple[Array, Array, Array] | None:
        """Return ids, classes and features of the rows kept, by class and id; None for no rows."""
        if not self.parts:
            return None
        self._shrink()
        _, ids, codes, h = self.parts[0]
        return ids, codes, h

    def _shrink(self) -> None:
        numbers, ids, codes, h = (np.concatenate(column) for column in zip(*self.parts, strict=True))
        order = np.lexsort((numbers, codes))
        ranks = np.arange(len(order)) - np.searchsorted(codes[order], codes[order], side="left")
        order = order[ranks < self.limits[codes[order]]]
        kept = np.bincount(codes[order], minlength=len(self.limits))
        largest = np.zeros(len(self.limits))
        np.maximum.at(largest, codes[order], numbers[order])
        self.bar = np.where((kept == self.limits) & (kept > 0), largest, self.bar)
        order = order[np.lexsort((ids[order], codes[order]))]
        self.parts, self.size = [(numbers[order], ids[order], codes[order], h[order])], len(order)

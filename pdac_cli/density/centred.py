"""The rows of one class around their mean, Eq. (1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density import kernel
from pdac_cli.density.blocks import ROWS, ClassRows, block_count, segments
from pdac_cli.density.device import Workspace

_IN_CACHE = 2 * ROWS  # rows that are read and then worked on while they are still in the processor's cache
_KEEP = 1 << 24  # numbers: a class up to this size is read once and kept, a larger one is read on every pass
_SMALL, _LARGE = 2.0**-40, 2.0**60  # between these a class's mean square distance is safe in single precision
_FAR = 2.0**-8  # of the mean's square: rounding in a mean above this may shift a class by 1e-5 of its extent


class Centred:
    """A class's rows around their mean (1), in its unit, segment by segment; small classes are read only once.

    What is taken off rows that are kept is the mean of the first of them, which is known while the others are read.
    `offset` is what their mean still is; whoever needs it to be zero takes it off the sums over the rows instead.
    """

    mean: Array  # (D,), in the unit 1
    offset: Array  # (D,) the mean of the rows as they are given, in double precision
    _origin: Array  # (D,) what has been taken off them

    def __init__(self, rows: ClassRows, dtype: np.dtype[Any], workspace: Workspace) -> None:
        self.rows, self.dtype = rows, dtype
        self.unit, self.constant = 1.0, False
        self._kept: Array | None = None
        if kept_bytes(rows.count, rows.n_features, dtype):
            self._kept = workspace.take("rows", (block_count(rows.count) * ROWS, rows.n_features), dtype)
            self._kept[rows.count :] = 0
        self._load()

    @property
    def small(self) -> bool:
        """Whether all rows are in memory."""
        return self._kept is not None

    @property
    def rest(self) -> Array:
        """What is still to be taken off the rows to have the mean off them: (D,)."""
        rest: Array = self.mean * self.mean.dtype.type(1 / self.unit) - self._origin
        return rest

    def changed(self, squares: float) -> bool:
        """Given the mean square distance from the mean, choose unit and mean anew if need be; say if that was so."""
        # Where squares leave the safe range or are no more than rounding, look at the values themselves.
        looked = not max(_SMALL, 1e-10 * self._size) < squares < _LARGE
        if looked:
            self._look()
            if self.constant:
                return True
            squares = self.squares()
        # Where the mean is far above the extent, the centred rows' mean is not yet zero; where the first rows are not
        # like the others, the offset is too large to be taken off a sum.
        far = self._size * _FAR > squares or float(self.offset @ self.offset) > squares
        if far:
            self._correct()
        return looked or far

    def together(self) -> Array:
        """Return all rows at once: (n, D)."""
        kept = np.concatenate([part for _, part in self]) if self._kept is None else self._kept
        return kept[: self.rows.count]

    def __iter__(self) -> Iterator[tuple[int, Array]]:
        """Yield each segment's first row and its rows, filled up with zeros to whole blocks."""
        for start, stop in segments(self.rows.count):
            if self._kept is not None:
                yield start, self._kept[start : start + block_count(stop - start) * ROWS]
            else:
                part = self._read(start, stop)
                centre(part[: stop - start], self.mean, self.unit)
                yield start, part

    def squares(self) -> float:
        """Return the rows' mean square distance from their mean."""
        with np.errstate(over="ignore"):
            squares = sum(float(np.vdot(part, part)) for _, part in self) / self.rows.count
        return squares - float(self.offset @ self.offset)

    def _load(self) -> None:
        """Read the rows and find their mean; those of a small class are kept."""
        self.offset = np.zeros(self.rows.n_features)
        with np.errstate(over="ignore", invalid="ignore"):  # then the values themselves are looked at
            for at, part in enumerate(self._read_all()):
                if at == 0:
                    self._origin = _mean([part], len(part), self.rows.n_features).astype(self.dtype)
                _shift(part, self._origin, 1 / self.rows.count, self.offset)
            self._set_mean(self._origin + self.offset)
            if self._kept is None or self.rows.count < self.rows.n_features:
                self._centre_exactly()

    def _read_all(self) -> Iterator[Array]:
        """Yield the rows in the class's unit, some at a time; those that are kept are read into their place."""
        if self._kept is None:
            parts = (self._read(start, stop)[: stop - start] for start, stop in segments(self.rows.count))
        else:
            parts = (self._read_into_place(start) for start in range(0, self.rows.count, _IN_CACHE))
        for part in parts:
            if self.unit != 1.0:
                part *= self.dtype.type(1 / self.unit)
            yield part

    def _read(self, start: int, stop: int) -> Array:
        """Return rows start to stop as they are, filled up with zeros to whole blocks."""
        out = whole_blocks(stop - start, self.rows.n_features, self.dtype)
        self.rows.read_into(start, out[: stop - start])
        return out

    def _read_into_place(self, start: int) -> Array:
        """Return the rows from `start` on that stay in the cache, as they are."""
        part = self.together()[start : start + _IN_CACHE]
        self.rows.read_into(start, part)
        return part

    def _set_mean(self, mean: Array) -> None:
        """Take this as the mean; it is in the class's unit."""
        self._size = float(mean @ mean)
        self.mean = (mean * self.unit).astype(self.dtype)

    def _centre_exactly(self) -> None:
        """Take the mean off the rows, as exactly as it is known."""
        if self._kept is not None:
            self._kept[: self.rows.count] -= self.rest
        self._origin, self.offset = self._origin + self.rest, np.zeros(self.rows.n_features)

    def _correct(self) -> None:
        """Add to the mean what the rows' mean still is, and take it off them."""
        self._set_mean(self._origin + _mean((part for _, part in self), self.rows.count, self.rows.n_features))
        self._centre_exactly()

    def _look(self) -> None:
        """See whether all rows are the same, and choose the unit by their extent."""
        low, high = np.full(self.rows.n_features, np.inf), np.full(self.rows.n_features, -np.inf)
        for part in self._read_all():
            np.minimum(low, part.min(axis=0), out=low)
            np.maximum(high, part.max(axis=0), out=high)
        extent = float(np.max(high / 2 - low / 2))
        self.constant = extent == 0.0
        if not (self.constant or 2.0**-20 < extent < 2.0**20):
            # Of denormal numbers the unit is the smallest one whose inverse is a number.
            self.unit = max(float(2.0 ** np.ceil(np.log2(extent))), float(np.finfo(self.dtype).tiny))
        self._load()
        if self.constant:
            self.mean = low.astype(self.dtype)


def kept_bytes(count: int, features: int, dtype: np.dtype[Any]) -> int:
    """Return how much memory a class of `count` rows takes while it is fitted: 0 where its rows are not kept."""
    return block_count(count) * ROWS * features * dtype.itemsize if count * features <= _KEEP else 0


def whole_blocks(n: int, features: int, dtype: np.dtype[Any]) -> Array:
    """Return room for n rows, filled up with zeros to whole blocks: (blocks · ROWS, D)."""
    out = np.empty((block_count(n) * ROWS, features), dtype)
    out[n:] = 0
    return out


def centre(h: Array, mean: Array, unit: float) -> None:
    """Turn h (n, D) into (h − mean) / unit."""
    h -= mean
    if unit != 1.0:
        h *= mean.dtype.type(1.0 / unit)


def _mean(parts: Iterable[Array], count: int, features: int) -> Array:
    """Return the sum of the parts' rows, (m, D) each, divided by `count`: (D,)."""
    mean = np.zeros(features)
    for part in parts:
        mean += np.full(len(part), 1 / count, part.dtype) @ part
    return mean


def _shift(part: Array, point: Array, weight: float, total: Array) -> None:
    """Take the point (D,) off the rows (m, D), and add what they then are, times the weight, to `total` (D,)."""
    if kernel.takes(part):
        kernel.compiled.shift(part, point, weight, total)
    else:
        part -= point
        total += np.full(len(part), weight, part.dtype) @ part

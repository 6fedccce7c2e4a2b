"""The canonical block: the unit of all work on rows, so that no answer depends on how the rows arrive.

A class's rows, in order of their ids, are cut into blocks of ``ROWS`` rows, the last one padded with zeros; ``SEGMENT``
consecutive blocks are one segment.  Every product is taken over whole blocks and every sum over pieces of the class
that depend on its size alone, in order.  How many rows are read at once, how files are split, how many classes are
worked on together or by how many threads then cannot change a single bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pdac_cli.arrays import Array

ROWS = 128  # large enough for BLAS, small enough that padding a class of 500 rows wastes 2 %
SEGMENT = 16  # 2,048 rows: what is read at once of a class too large to keep
SEGMENT_ROWS = ROWS * SEGMENT

Allocate = Callable[[tuple[int, ...]], Array]  # zeros of this shape, wherever there is room


class ClassRows(Protocol):
    """The rows of one class, in order of their ids, wherever they are kept."""

    @property
    def label(self) -> int:
        """The class."""

    @property
    def count(self) -> int:
        """How many rows there are."""

    @property
    def n_features(self) -> int:
        """The number of features D."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the rows are stored as: float16, float32 or float64."""

    def read_into(self, start: int, out: Array) -> None:
        """Lay the rows from `start` on into out (m, D), as its dtype."""


def work_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return what rows of this dtype are computed in: float32 for float16 and float32, float64 for float64."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def segments(count: int) -> Iterator[tuple[int, int]]:
    """Yield the (start, stop) of each segment of a class of `count` rows."""
    for start in range(0, count, SEGMENT_ROWS):
        yield start, min(start + SEGMENT_ROWS, count)


def block_count(count: int) -> int:
    """Return how many blocks hold `count` rows."""
    return -(-count // ROWS)


@dataclass(frozen=True)
class Blocks:
    """The projected rows of C classes, block by block, class after class."""

    xi: Array  # (B, d, R), 0 beyond d_y and beyond the class's rows
    starts: Array  # (C + 1,) the first block of each class
    counts: Array  # (C,) rows of each class


def empty_blocks(counts: Sequence[int], dim: int, allocate: Allocate = np.zeros) -> Blocks:
    """Return blocks for classes of these sizes, to be filled by `fill`."""
    starts = np.concatenate([[0], np.cumsum([block_count(n) for n in counts])])
    return Blocks(allocate((int(starts[-1]), dim, ROWS)), starts, np.array(counts))


def fill(blocks: Blocks, c: int, at: int, xi: Array) -> None:
    """Lay projected rows of class c, from its row `at` (the first of a block) on, into their blocks.

    xi (blocks, d_y, ROWS) has zeros after the class's last row.
    """
    first = blocks.starts[c] + at // ROWS
    blocks.xi[first : first + len(xi), : xi.shape[1]] = xi

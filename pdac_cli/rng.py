"""Named random streams: every random number is a function of (seed, purpose, key) and of nothing else.

No number depends on loop position, chunk, file or worker.  Per-row numbers come from a keyed hash of the row id, so any
part of the rows can be drawn anywhere, in any order, and be merged.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


class Purpose(IntEnum):
    """What a stream is for; the numbers are part of the file formats' promise 'same seed, same answer'."""

    INIT_MEANS = 1
    INIT_SUBSPACE = 2
    DRAW = 3
    EVICT = 4
    SAMPLE_DATA = 5
    ADMIT = 20  # into the stream's buffer
    REPLACE = 21  # which row of it
    KEEP = 22  # what else a streaming method draws when a batch arrives
    CALIBRATE = 23  # which rows of a stream its density is calibrated on
    CLASS_ORDER = 40
    IMBALANCE = 41  # which rows of a class are left
    HOLD_OUT = 42  # rows to test on, where there are none
    NETWORK = 43  # first weights
    BATCHES = 44  # order of the rows in an epoch
    REPLAY = 45  # rows of the buffer beside a batch
    AUGMENT = 46
    POOL = 50  # which rows a seed of a head-to-head may choose from
    CORRUPT = 51  # which labels are replaced
    WRONG_LABEL = 52  # by which
    LIFT = 53  # weights of random features
    SEEDING = 30  # k-means++
    FILL = 31  # places a method has left over
    BATCH = 32  # dealing rows into mini-batches
    MASK = 33
    CANDIDATE = 34
    SMOOTH = 35
    HEAD = 36
    CODES = 37  # signs that stand for classes
    DIRECTIONS = 38  # signs and places of features, where they are many


def generator(seed: int, purpose: Purpose, *key: int) -> np.random.Generator:
    """Return NumPy's generator for (seed, purpose, key)."""
    return np.random.default_rng(_sequence(seed, purpose, *key))


def row_uniforms(seed: int, purpose: Purpose, rows: NDArray[np.integer], *key: int) -> NDArray[np.float64]:
    """Return one uniform number in (0, 1) per row id: rows (n,) -> (n,).

    SplitMix64 (Steele, Lea and Flood 2014) of the row id, twice, under a 128-bit key from (seed, purpose, key).
    """
    first, second = _sequence(seed, purpose, *key).generate_state(2, np.uint64)
    with np.errstate(over="ignore"):
        z = _mix(first + (np.asarray(rows).astype(np.uint64) + np.uint64(1)) * _GOLDEN)
        z = _mix(z ^ second)
    return ((z >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def row_gumbels(seed: int, purpose: Purpose, rows: NDArray[np.integer], *key: int) -> NDArray[np.float64]:
    """Return one standard Gumbel number per row id: rows (n,) -> (n,)."""
    return -np.log(-np.log(row_uniforms(seed, purpose, rows, *key)))


def _sequence(seed: int, purpose: Purpose, *key: int) -> np.random.SeedSequence:
    # The key goes into spawn_key: SeedSequence([1]) and SeedSequence([1, 0]) are the same sequence.  The length stands
    # first so that no key is another's beginning.
    return np.random.SeedSequence(seed, spawn_key=(int(purpose), len(key), *key))


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))

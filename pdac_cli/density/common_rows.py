"""Rows as the space that all classes share takes them: of unit length, Eq. (22), in fewer directions where D is large.

A covariance of D features is D × D numbers, and its inverse takes D³ multiplications.  Beyond `MOST_FEATURES` the rows
are therefore given as `DIRECTIONS` sums of features with random signs, each feature in one of the sums.  Such sums keep
lengths, angles and means of rows to about 1 / √DIRECTIONS (Charikar, Chen and Farach-Colton 2002).  Which sum and which
sign is a function of the feature's place and of D alone: chunks, files, workers, tasks and streams all agree.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.rng import Purpose, generator

MOST_FEATURES = 2048  # that are taken as they are
DIRECTIONS = 1024  # where there are more
_AT_ONCE = 1 << 21  # numbers gathered at a time


def unit_rows(h: Array) -> Array:
    """Return rows divided by their length, Eq. (22); rows of zeros stay: (n, D) -> (n, D), float32 or float64."""
    h = h.astype(np.result_type(h, np.float32), copy=False)
    largest = np.abs(h).max(axis=1, keepdims=True, initial=0)
    h = np.divide(h, largest, out=np.zeros_like(h), where=largest > 0)  # squares of no row overflow
    length = np.sqrt(np.einsum("nd,nd->n", h, h, dtype=np.float64))[:, None].astype(h.dtype)
    unit: Array = np.divide(h, length, out=h, where=length > 0)
    return unit


def common_width(n_features: int) -> int:
    """Return in how many directions rows of D features are given."""
    return DIRECTIONS if n_features > MOST_FEATURES else n_features


def common_rows(h: Array) -> Array:
    """Return the rows as they are, or in fewer directions: (n, D) -> (n, common_width(D)), float32 or float64."""
    h = h.astype(np.result_type(h, np.float32), copy=False)
    return h if h.shape[1] <= MOST_FEATURES else signed_sums(h, DIRECTIONS)


def signed_sums(h: Array, width: int) -> Array:
    """Return sums of features with random signs: (n, D) -> (n, width)."""
    order, signs = _sums(h.shape[1], width)
    out = np.empty((len(h), width), h.dtype)
    step, largest = max(1, _AT_ONCE // len(order)), np.finfo(h.dtype).max
    for start in range(0, len(h), step):
        part = h[start : start + step, order] * signs.astype(h.dtype)
        with np.errstate(over="ignore"):
            total = part.reshape(len(part), -1, width).sum(axis=1)
        np.clip(total, -largest, largest, out=out[start : start + step])
    return out


@lru_cache(maxsize=4)
def _sums(n_features: int, width: int) -> tuple[Array, Array]:
    """Return the features of each sum and their signs, sum after sum, as many to each, 0 where there is none left."""
    rng = generator(0, Purpose.DIRECTIONS)
    each = -(-n_features // width)
    order, signs = np.zeros(each * width, np.int64), np.zeros(each * width)
    order[:n_features], signs[:n_features] = rng.permutation(n_features), rng.choice([-1.0, 1.0], n_features)
    return order, signs

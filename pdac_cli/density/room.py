"""Memory that is used again and again."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from pdac_cli.density.blocks import Array


class Room:
    """A thread's memory for large temporary arrays: the system need not give it anew, and clear it, for every class."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def take(self, use: str, shape: tuple[int, ...], dtype: np.dtype[Any] | type = np.float64) -> Array:
        """Return room for an array; what was there for the same use is lost."""
        size = prod(shape) * np.dtype(dtype).itemsize
        if use not in self._arrays or len(self._arrays[use]) < size:
            self._arrays[use] = np.empty(size, np.uint8)
        return self._arrays[use][:size].view(dtype).reshape(shape)

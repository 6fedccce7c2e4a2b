"""Where the products are taken: NumPy or torch, a library with NumPy's names; and memory that is used again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from pdac_cli.arrays import Array


@dataclass(frozen=True)
class Device:
    """The few functions the hot loops need; `xp` has NumPy's names, arguments are passed by position."""

    xp: Any
    move: Callable[[Array], Any]  # from NumPy to the device
    host: Callable[[Any], Array]  # and back

    @property
    def is_numpy(self) -> bool:
        """Whether arrays stay where they are."""
        return self.xp is np


NUMPY = Device(np, np.asarray, np.asarray)


class Workspace:
    """A thread's memory for large temporary arrays: the system need not give it anew, and clear it, for every class."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def take(self, use: str, shape: tuple[int, ...], dtype: np.dtype[Any] | type = np.float64) -> Array:
        """Return room for an array; what was there for the same use is lost."""
        size = prod(shape) * np.dtype(dtype).itemsize
        if use not in self._arrays or len(self._arrays[use]) < size:
            self._arrays[use] = np.empty(size, np.uint8)
        return self._arrays[use][:size].view(dtype).reshape(shape)

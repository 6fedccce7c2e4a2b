"""Where the products are taken: NumPy, or a device of another array library with NumPy's names (torch)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdac_cli.density.blocks import Array


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

"""The inner loops that are written in C, where they could be compiled; whoever uses them can do without."""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array

try:
    from pdac_cli.density.kernel import _kernel as compiled
except ImportError:  # there was no C compiler when this was installed
    compiled = None  # type: ignore[assignment]

__all__ = ["compiled", "takes"]


def takes(array: Array) -> bool:
    """Whether there are loops for this array, where they are written for single precision only."""
    return compiled is not None and array.dtype == np.float32

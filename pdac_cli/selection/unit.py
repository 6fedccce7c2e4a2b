"""Rows of length one."""

from __future__ import annotations

import numpy as np

from pdac_cli.selection.budget import Array


def unit_rows(h: Array) -> Array:
    """Return rows divided by their length, rows of zeros as they are: (n, D) -> (n, D), float32 or float64."""
    h = h.astype(np.result_type(h, np.float32), copy=False)
    largest = np.abs(h).max(axis=1, keepdims=True, initial=0)
    h = np.divide(h, largest, out=np.zeros_like(h), where=largest > 0)  # squares of no row overflow
    length = np.sqrt(np.einsum("nd,nd->n", h, h, dtype=np.float64))[:, None].astype(h.dtype)
    unit: Array = np.divide(h, length, out=h, where=length > 0)
    return unit

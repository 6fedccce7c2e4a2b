"""How long a fit will take, told before it starts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdac_cli.density.blocks import SEGMENT_ROWS, Array
from pdac_cli.density.device import Device
from pdac_cli.density.model import fit_classes
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.source import Classes, Plan, Source
from pdac_cli.options.shared import DensityOptions

WORTH_ESTIMATING = 1 << 26  # numbers in the data: below this a fit takes about as long as the estimate


@dataclass(frozen=True)
class _Random:
    """A class of random rows."""

    label: int
    rows: Array

    @property
    def count(self) -> int:
        return len(self.rows)

    @property
    def dim(self) -> int:
        return int(self.rows.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.rows.dtype

    def read_into(self, start: int, out: Array) -> None:
        out[...] = self.rows[start : start + len(out)]


def fit_seconds(source: Source, classes: Classes, options: DensityOptions, plan: Plan, device: Device) -> float:
    """Estimate the seconds of a fit: one chunk is read and one class of the usual size fitted, both on the clock."""
    start = time.perf_counter()
    rows = len(next(iter(source.chunks(plan.chunk_rows))).ids)
    reading = (time.perf_counter() - start) / max(rows, 1) * source.n
    # A scratch file is written and read again.
    moving = reading if plan.in_memory else 3 * reading
    size = int(min(max(np.median(classes.counts), 1), SEGMENT_ROWS))
    sample = _Random(0, np.random.default_rng(0).standard_normal((size, source.dim)).astype(source.dtype))
    with one_blas_thread():
        fit_classes([sample], options, 0, device)  # the first call also loads what it needs
        start = time.perf_counter()
        fit_classes([sample], options, 0, device)
        fitting = (time.perf_counter() - start) / size * float(classes.counts.sum()) / plan.jobs
    return moving + fitting

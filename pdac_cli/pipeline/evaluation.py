"""What a selection is worth: class coverage, density, coverage radius, and a linear head trained on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import Array, Pool, Source
from pdac_cli.console import Console
from pdac_cli.engine.plan import Classes, Plan
from pdac_cli.pipeline.fitting import DensitySetup
from pdac_cli.pipeline.row_access import SourceRows
from pdac_cli.pipeline.stored_pools import LogitColumns
from pdac_cli.pipeline.trained_head import train_head
from pdac_cli.selection.interface import gather

_TEST_ROWS = 4096  # whose logits are computed at once


@dataclass(frozen=True)
class Measures:
    """What one selection is worth."""

    coverage: float  # share of the classes with at least one row
    mean_log_density: float
    radius: float  # the largest distance of any row to the nearest chosen one
    accuracy: float | None  # on the test rows, of a linear head trained on the chosen ones


@dataclass(frozen=True)
class Evaluator:
    """All rows, by which selections of them are measured."""

    pool: Pool
    labels: Array  # (C,)
    log_p: Array  # (n,) of every row of the pool
    mean: Array  # (D,) of all rows
    std: Array  # (D,)
    test: Source | None

    def measure(self, ids: Array) -> Measures:
        """Measure the rows of these global ids: (m,)."""
        places = np.searchsorted(self.pool.ids, ids)
        h, codes = gather(self.pool.read, places), self.pool.codes[places]
        return Measures(
            len(np.unique(codes)) / len(self.labels),
            float(self.log_p[places].mean()),
            self._radius(h),
            self._accuracy(h, self.labels[codes]),
        )

    def _radius(self, chosen: Array) -> float:
        """Return max over all rows of the distance to the nearest of `chosen` (m, D)."""
        c = (chosen - self.mean).astype(self.pool.dtype)
        squares = np.einsum("md,md->m", c, c, dtype=np.float64)

        def farthest(start: int, stop: int) -> float:
            h = (self.pool.read(start, stop) - self.mean).astype(self.pool.dtype)
            nearest = (squares - 2 * (h @ c.T)).min(axis=1) + np.einsum("nd,nd->n", h, h, dtype=np.float64)
            return float(nearest.max())

        return float(np.sqrt(max(0.0, *self.pool.map(farthest))))

    def _accuracy(self, h: Array, y: Array) -> float | None:
        if self.test is None:
            return None
        head = train_head(h, y, self.mean, self.std)
        right = rows = 0.0
        for chunk in self.test.chunks(_TEST_ROWS):
            right += head.accuracy(chunk.h, chunk.y) * len(chunk.y)
            rows += len(chunk.y)
        return right / rows


@contextmanager
def evaluator(
    source: Source, classes: Classes, test: Source | None, density: DensitySetup, plan: Plan, console: Console
) -> Iterator[Evaluator]:
    """Read the rows, fit their densities, and measure by them."""
    rows = SourceRows(source, classes, LogitColumns(0, classes.labels), density, plan, console)
    with rows.pools(joint=True) as pools:
        (pool,) = pools
        mean = np.sum(pool.map(lambda a, b: pool.read(a, b).sum(axis=0, dtype=np.float64)), axis=0) / pool.count
        squares = np.sum(pool.map(lambda a, b: np.square(pool.read(a, b) - mean).sum(axis=0)), axis=0)
        log_p = np.empty(pool.count)
        for some in rows.scored():
            log_p[np.searchsorted(pool.ids, some.ids)] = some.log_p
        yield Evaluator(pool, classes.labels, log_p, mean, np.sqrt(squares / pool.count), test)

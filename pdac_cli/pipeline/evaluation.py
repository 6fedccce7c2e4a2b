"""What a selection is worth: coverage, density, radius, means, suspect labels, and a head trained on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from pdac_cli.arrays import Array, Chunk, Pool, Source
from pdac_cli.console import Console
from pdac_cli.engine.plan import Classes, Plan
from pdac_cli.options.heads import Classifier
from pdac_cli.pipeline.fitting import DensitySetup
from pdac_cli.pipeline.heads.classifiers import FeatureScale, accuracies, train_classifier
from pdac_cli.pipeline.row_access import SourceRows
from pdac_cli.pipeline.stored_pools import LogitColumns
from pdac_cli.selection.interface import gather
from pdac_cli.selection.judging import Doubtful, RelativeDensity, common_space

_TEST_ROWS = 4096  # whose answers are computed at once


@dataclass(frozen=True)
class Measures:
    """What one selection is worth."""

    coverage: float  # share of the classes with at least one row
    mean_log_density: float
    radius: float  # the largest distance of any row to the nearest chosen one
    mean_distance: float  # squared distance of the chosen rows' mean from their class's, in units of its variance
    suspects: float  # share of the chosen rows whose label is more likely wrong than right, Eq. (26)
    accuracy: float | None  # on the test rows, of a linear head trained on the chosen ones


@dataclass(frozen=True)
class AllRows:
    """All rows that selections are made from, and those that heads trained on a selection are tested on."""

    pool: Pool
    labels: Array  # (C,)
    scale: FeatureScale
    test: Source | None

    def chosen(self, ids: Array) -> tuple[Array, Array]:
        """Return features and class positions of the rows of these global ids: (m, D), (m,)."""
        places = np.searchsorted(self.pool.ids, ids)
        return gather(self.pool.read, places), self.pool.codes[places]

    def accuracies(self, kind: Classifier, selections: Sequence[Array]) -> list[float]:
        """Return the accuracy of a head trained on each selection, given by the ids of its rows."""
        heads = []
        for ids in selections:
            h, codes = self.chosen(ids)
            heads.append(train_classifier(kind, h, self.labels[codes], self.scale))
        tested = [] if self.test is None else _known(self.test.chunks(_TEST_ROWS), self.labels)
        return accuracies(heads, tested, self.scale)


@dataclass(frozen=True)
class Evaluator:
    """What is known of all rows, by which selections of them are measured."""

    rows: AllRows
    log_p: Array  # (n,) of every row of the pool
    suspect: Array  # (n,) bool
    means: Array  # (C, D) of the classes
    variances: Array  # (C,) mean squared distances from them

    def measure(self, ids: Array) -> Measures:
        """Measure the rows of these global ids: (m,)."""
        places = np.searchsorted(self.rows.pool.ids, ids)
        h, codes = self.rows.chosen(ids)
        return Measures(
            len(np.unique(codes)) / len(self.rows.labels),
            float(self.log_p[places].mean()),
            self._radius(h),
            self._mean_distance(h, codes),
            float(self.suspect[places].mean()),
            None if self.rows.test is None else self.rows.accuracies(Classifier.LOGISTIC, [ids])[0],
        )

    def _mean_distance(self, h: Array, codes: Array) -> float:
        """Return the mean over the classes that have rows; a class whose rows are all the same counts as met."""
        found = []
        for code in np.unique(codes):
            apart = h[codes == code].mean(axis=0, dtype=np.float64) - self.means[code]
            variance = float(self.variances[code])
            found.append(float(apart @ apart) / variance if variance > 0 else 0.0)
        return float(np.mean(found))

    def _radius(self, chosen: Array) -> float:
        """Return max over all rows of the distance to the nearest of `chosen` (m, D)."""
        pool, mean = self.rows.pool, self.rows.scale.mean
        c = (chosen - mean).astype(pool.dtype)
        squares = np.einsum("md,md->m", c, c, dtype=np.float64)

        def farthest(start: int, stop: int) -> float:
            h = (pool.read(start, stop) - mean).astype(pool.dtype)
            nearest = (squares - 2 * (h @ c.T)).min(axis=1) + np.einsum("nd,nd->n", h, h, dtype=np.float64)
            return float(nearest.max())

        return float(np.sqrt(max(0.0, *pool.map(farthest))))


@contextmanager
def all_rows(
    source: Source, classes: Classes, test: Source | None, plan: Plan, console: Console
) -> Iterator[tuple[AllRows, SourceRows]]:
    """Read the rows, to be looked at again and again."""
    rows = SourceRows(source, classes, LogitColumns(0, classes.labels), DensitySetup(), plan, console)
    with rows.pools(joint=True) as pools:
        (pool,) = pools
        mean = np.sum(pool.map(lambda a, b: pool.read(a, b).sum(axis=0, dtype=np.float64)), axis=0) / pool.count
        squares = np.sum(pool.map(lambda a, b: np.square(pool.read(a, b) - mean).sum(axis=0)), axis=0)
        std = np.sqrt(squares / pool.count)
        yield AllRows(pool, classes.labels, FeatureScale(mean, np.where(std > 0, std, 1.0)), test), rows


def evaluator(every: AllRows, rows: SourceRows, density: DensitySetup) -> Evaluator:
    """Fit densities to the rows, and judge their labels by those of the other classes."""
    pool = every.pool
    log_p, suspect = np.empty(pool.count), np.zeros(pool.count, bool)
    for some in replace(rows, density=density).scored():
        log_p[np.searchsorted(pool.ids, some.ids)] = some.log_p
    with replace(rows, narrow=True).pools(joint=False) as classes:
        judge = RelativeDensity(common_space(classes, density.options.normalize))
        for code, one in enumerate(classes):
            doubtful = Doubtful.of(one.ids, judge.judged(one, code, None))
            suspect[np.searchsorted(pool.ids, doubtful.ids)] = True
    return Evaluator(every, log_p, suspect, *_class_moments(pool, len(every.labels)))


def _class_moments(pool: Pool, classes: int) -> tuple[Array, Array]:
    """Return the classes' means and their mean squared distances from them: (C, D), (C,)."""
    sums, squares = np.zeros((classes, pool.n_features)), np.zeros(classes)
    counts = np.maximum(np.bincount(pool.codes, minlength=classes), 1)

    def part(start: int, stop: int) -> tuple[Array, Array, Array]:
        h, codes = pool.read(start, stop).astype(np.float64), pool.codes[start:stop]
        found, inverse = np.unique(codes, return_inverse=True)
        onehot = np.eye(len(found))[inverse]
        return found, onehot.T @ h, onehot.T @ np.einsum("nd,nd->n", h, h)

    for found, total, squared in pool.map(part):
        sums[found] += total
        squares[found] += squared
    means = sums / counts[:, None]
    return means, np.maximum(squares / counts - np.einsum("cd,cd->c", means, means), 0.0)


def _known(chunks: Iterator[Chunk], labels: Array) -> Iterator[Chunk]:
    """Yield the rows of the classes that there are to learn."""
    for chunk in chunks:
        known = np.isin(chunk.y, labels)
        if known.all():
            yield chunk
        elif known.any():
            yield replace(chunk, ids=chunk.ids[known], h=chunk.h[known], y=chunk.y[known], logits=None)

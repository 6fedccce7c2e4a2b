"""The relative density of all rows of a set, class by class, and the rows that may be drawn, Eqs. (22) and (23).

Rows are gone through twice: once for the moments, once to be judged.  Each class is worked on by itself, in blocks of
fixed size and summed in order, so that neither threads nor memory change a bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.density.relative import Calibration, ClassMoments, CommonSpace, Judged, calibrate, judge
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.selection.budget import places
from pdac_cli.selection.interface import BLOCK, Request, Suspects, blocks
from pdac_cli.selection.sampling import Ranking, keys

T = TypeVar("T")
_CALIBRATION_ROWS = 20_000  # that τ and ε are fitted to,
_CALIBRATION_SCORES = 4_000_000  # or fewer, where there are many classes,
_LEAST_ROWS = 2_000  # but so many
_SCORES = 1 << 21  # computed at once: 16 MB


class RowDensity(Protocol):
    """Judges the rows of a class, and says what a row is to the density."""

    def judged(self, pool: Pool, code: int) -> Judged:
        """Judge all rows of a class."""

    def rows(self, h: Array) -> Array:
        """Return rows as the density takes them: (n, D) -> (n, D)."""


class ClassDensity:
    """Rows by the density of their own class alone, Eq. (9)."""

    def __init__(self, rows: Rows, classes: int, normalize: bool) -> None:
        self._normalize = normalize
        found: list[list[Array]] = [[] for _ in range(classes)]
        for some in rows.scored():
            if some.log_p is None:
                raise ValueError("given without densities")
            for code in np.unique(some.codes):
                found[code].append(np.stack([some.ids, some.log_p])[:, some.codes == code])
        self._log_p = [np.concatenate(parts, axis=1) if parts else np.empty((2, 0)) for parts in found]

    def judged(self, pool: Pool, code: int) -> Judged:
        """Give all rows of a class their log-density; none is suspect, and all count alike."""
        ids, log_p = self._log_p[code]
        log_p = log_p[np.argsort(ids, kind="stable")]
        ones = np.ones(pool.count)
        return Judged(log_p - log_p.max(initial=0.0), ones, np.full(pool.count, code), log_p, ones)

    def rows(self, h: Array) -> Array:
        """Return rows as the density takes them."""
        return unit_rows(h) if self._normalize else h


class RelativeDensity:
    """Judges the rows of a class by the other classes."""

    def __init__(self, space: CommonSpace) -> None:
        self.rows, self._space, self._gaussian = space.rows, space, space.gaussian

    def judged(self, pool: Pool, code: int) -> Judged:
        """Judge all rows of a class."""
        counts = self._gaussian.counts
        if self._space.counted and counts[code] < 2:
            return Judged.of_one_row(pool.count, code, self._gaussian.log_scale + self._gaussian.excess / 2)
        parts = []
        for start, stop in _cuts(pool.count, len(counts)):
            scores = self._space.scores(self.rows(pool.read(start, stop)), code)
            parts.append(judge(scores, code, counts, self._space.calibration))
        return Judged.joined(parts)


def common_space(pools: Sequence[Pool], normalize: bool, jobs: int) -> CommonSpace:
    """Gather the moments of the classes' rows and fit τ and ε to a part of them."""
    moments = ClassMoments.empty(len(pools), pools[0].n_features)
    counts, mean = moments.counts, moments.mean
    found = CommonSpace(moments, Calibration(), normalize)
    for code, (own, scatter) in enumerate(in_order(lambda c: _moments(pools[c], found.rows), len(pools), jobs)):
        counts[code], mean[code] = pools[code].count, own
        moments.scatter[...] += scatter
    return replace(found, calibration=_calibration(pools, found))


def in_order(work: Callable[[int], T], count: int, jobs: int) -> Iterator[T]:
    """Yield work(0), work(1), …, a few of them worked on at the same time and few held."""
    if jobs < 2:
        yield from map(work, range(count))
        return
    with ThreadPoolExecutor(jobs) as workers:
        waiting: deque[Future[T]] = deque()
        for k in range(count):
            waiting.append(workers.submit(work, k))
            if len(waiting) > 2 * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@dataclass(frozen=True)
class ClassDraw:
    """The rows of one class that may be drawn, with what is known of them."""

    code: int
    places: Array  # (n,) positions in the pool, ascending
    ids: Array  # (n,)
    log_w: Array  # (n,) T log r
    log_r: Array  # (n,)
    log_p: Array  # (n,)


def narrowed(pool: Pool, code: int, judged: Judged, limit: int, request: Request) -> ClassDraw:
    """Return the rows of a class that may be drawn: all, or where they are more than `limit`, so many drawn ∝ r^T."""
    log_w, at = request.temperature * judged.log_r, np.arange(pool.count)
    if pool.count > limit:
        at = np.sort(np.argsort(-keys(log_w, pool.ids, request.seed), kind="stable")[:limit])
    return ClassDraw(code, at, pool.ids[at], log_w[at], judged.log_r[at], judged.log_p[at])


def joined(chosen: Sequence[tuple[ClassDraw, Array]]) -> Ranking:
    """Return the classes' lists as one, so that every beginning has the classes in proportion."""
    drawn = [(draw, order) for draw, order in chosen if len(order)]
    where = np.concatenate([places(len(order)) for _, order in drawn])
    ids, log_p, log_r = (
        np.concatenate([getattr(draw, name)[order] for draw, order in drawn]) for name in ("ids", "log_p", "log_r")
    )
    codes = np.concatenate([np.full(len(order), draw.code) for draw, order in drawn])
    order = np.lexsort((ids, where))
    return Ranking(ids[order], codes[order], log_p=log_p[order], score=np.exp(log_r[order]))


class SuspectLabels:
    """Rows whose label is more likely wrong than right, Eq. (26), gathered class by class."""

    def __init__(self, classes: int) -> None:
        self.rows, self.wrong = 0, 0.0  # all rows judged, and how many labels are expected to be wrong
        self.counts = np.zeros(classes, np.int64)
        self._ids: list[Array] = []
        self._codes: list[Array] = []
        self._likely: list[Array] = []

    def add(self, ids: Array, judged: Judged, code: int) -> None:
        """Take in the rows of a class."""
        doubtful = np.flatnonzero(judged.right < 0.5)
        self.rows += len(ids)
        self.wrong += float(np.sum(1 - judged.right))
        self.counts[code] += len(doubtful)
        self._ids.append(ids[doubtful])
        self._codes.append(np.full(len(doubtful), code))
        self._likely.append(judged.likely[doubtful])

    def found(self) -> Suspects:
        """Return them, in order of their ids."""
        ids = np.concatenate(self._ids)
        order = np.argsort(ids, kind="stable")
        codes, likely = np.concatenate(self._codes)[order], np.concatenate(self._likely)[order]
        return Suspects(ids[order], codes, likely, self.wrong / max(self.rows, 1))


def _moments(pool: Pool, rows: Callable[[Array], Array]) -> tuple[Array, Array]:
    """Return the mean and the scatter of a class's rows: (D,), (D, D)."""
    total, second = np.zeros(pool.n_features), np.zeros((pool.n_features, pool.n_features))
    near: Array | None = None  # a point near the mean, so that no digits are lost
    for start, stop in blocks(pool.count):
        u = rows(pool.read(start, stop))
        near = u.mean(axis=0, dtype=np.float64).astype(u.dtype) if near is None else near
        v = u - near
        total += v.sum(axis=0, dtype=np.float64)
        second += v.T @ v
    if near is None:
        return total, second
    shift = total / pool.count
    return near + shift, second - pool.count * np.outer(shift, shift)


def _calibration(pools: Sequence[Pool], space: CommonSpace) -> Calibration:
    """Fit τ and ε to rows chosen by their ids alone."""
    judged = [code for code, pool in enumerate(pools) if pool.count > 1]
    rows = sum(pools[code].count for code in judged)
    if np.count_nonzero(space.moments.counts) < 2 or rows < 2:
        return Calibration()
    wanted = max(_LEAST_ROWS, min(_CALIBRATION_ROWS, _CALIBRATION_SCORES // len(pools)))
    scores, codes = [], []
    for code in judged:
        some = row_uniforms(0, Purpose.CANDIDATE, pools[code].ids) < wanted / rows
        for start, stop in blocks(pools[code].count):
            if some[start:stop].any():
                u = space.rows(pools[code].read(start, stop)[some[start:stop]])
                scores.append(space.scores(u, code))
                codes.append(np.full(len(u), code))
    return calibrate(np.concatenate(scores), np.concatenate(codes)) if scores else Calibration()


def _cuts(count: int, classes: int) -> Iterator[tuple[int, int]]:
    """Yield the (start, stop) of pieces whose scores take little memory."""
    step = max(1, min(BLOCK, _SCORES // classes))
    for start in range(0, count, step):
        yield start, min(start + step, count)

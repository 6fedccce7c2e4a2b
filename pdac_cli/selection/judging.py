"""The relative density of all rows of a set, class by class, and the rows that may be drawn, Eqs. (22) and (23).

Rows are gone through twice: once for the moments, once to be judged.  Each class is worked on by itself, in blocks of
fixed size and summed in order, so that neither threads nor memory change a bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np

from pdac_cli.arrays import Array, Pool, Pools, PoolUnit, Rows
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.density.relative import Calibration, ClassMoments, CommonSpace, Judged, calibrate, judge
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.selection.budget import places
from pdac_cli.selection.interface import BLOCK, Request, Suspects, blocks, class_groups, gather
from pdac_cli.selection.sampling import EffectiveSize, Ranking, keys

_CALIBRATION_ROWS = 20_000  # that τ and ε are fitted to,
_CALIBRATION_SCORES = 4_000_000  # or fewer, where there are many classes,
_LEAST_ROWS = 2_000  # but so many
_SCORES = 1 << 21  # computed at once: 16 MB
_SPARSE = 64  # of a block fewer rows than one in so many are read one by one


class RowDensity(Protocol):
    """Judges the rows of a class, and says what a row is to the density."""

    def judged(self, pool: Pool, code: int, own: Array | None) -> Judged:
        """Judge all rows of a class, given what is known of these rows alone."""

    def own(self, code: int) -> Array | None:
        """Return what is known of the rows of one class alone: where its rows are sent, that goes with them."""

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

    def own(self, code: int) -> Array:
        """Return ids and log-densities of the rows of a class: (2, n)."""
        return self._log_p[code]

    def __reduce__(self) -> tuple[object, ...]:
        """Be sent without the densities, which go with the rows."""
        return _no_densities, (self._normalize,)

    def judged(self, pool: Pool, code: int, own: Array | None) -> Judged:
        """Give all rows of a class their log-density; none is suspect, and all count alike."""
        ids, log_p = self._log_p[code] if own is None else own
        log_p = log_p[np.argsort(ids, kind="stable")]
        ones = np.ones(pool.count)
        return Judged(log_p - log_p.max(initial=0.0), ones, np.full(pool.count, code), log_p, ones)

    def rows(self, h: Array) -> Array:
        """Return rows as the density takes them."""
        return unit_rows(h) if self._normalize else h


def _no_densities(normalize: bool) -> ClassDensity:
    density = ClassDensity.__new__(ClassDensity)
    density._normalize, density._log_p = normalize, []
    return density


class RelativeDensity:
    """Judges the rows of a class by the other classes."""

    def __init__(self, space: CommonSpace) -> None:
        self.rows, self._space, self._gaussian = space.rows, space, space.gaussian

    def own(self, code: int) -> None:
        """Return nothing: rows are judged by what all classes share."""

    def judged(self, pool: Pool, code: int, own: Array | None) -> Judged:  # noqa: ARG002
        """Judge all rows of a class."""
        counts = self._gaussian.counts
        if self._space.counted and counts[code] < 2:
            return Judged.of_one_row(pool.count, code, self._gaussian.log_scale + self._gaussian.excess / 2)
        parts = []
        for start, stop in _cuts(pool.count, len(counts)):
            scores = self._space.scores(self.rows(pool.read(start, stop)), code)
            parts.append(judge(scores, code, counts, self._space.calibration))
        return Judged.joined(parts)


def common_space(pools: Pools, normalize: bool) -> CommonSpace:
    """Gather the moments of the classes' rows and fit τ and ε to a part of them."""
    moments = ClassMoments.empty(len(pools), pools[0].n_features)
    found = CommonSpace(moments, Calibration(), normalize)
    moments.counts[:] = [pool.count for pool in pools]
    groups = [PoolUnit(group) for group in class_groups(moments.counts)]
    for unit, (means, scatter) in zip(groups, pools.each(partial(_moments, normalize), groups), strict=True):
        moments.mean[list(unit.numbers)] = means
        moments.scatter[...] += scatter
    return replace(found, calibration=_calibration(pools, found))


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


@dataclass(frozen=True)
class Doubtful:
    """Rows of one class whose label is more likely wrong than right, Eq. (26)."""

    rows: int  # of the class
    wrong: float  # how many labels are expected to be wrong
    ids: Array  # (s,)
    likely: Array  # (s,) the likeliest other class

    @classmethod
    def of(cls, ids: Array, judged: Judged) -> Doubtful:
        """Find them among the rows of a class."""
        at = np.flatnonzero(judged.right < 0.5)
        return cls(len(ids), float(np.sum(1 - judged.right)), ids[at], judged.likely[at])


class SuspectLabels:
    """Rows whose label is more likely wrong than right, Eq. (26), gathered class by class."""

    def __init__(self, classes: int) -> None:
        self.rows, self.wrong = 0, 0.0  # all rows judged, and how many labels are expected to be wrong
        self.counts = np.zeros(classes, np.int64)
        self._ids: list[Array] = []
        self._codes: list[Array] = []
        self._likely: list[Array] = []

    def add(self, found: Doubtful, code: int) -> None:
        """Take in those of a class."""
        self.rows += found.rows
        self.wrong += found.wrong
        self.counts[code] += len(found.ids)
        self._ids.append(found.ids)
        self._codes.append(np.full(len(found.ids), code))
        self._likely.append(found.likely)

    def found(self) -> Suspects:
        """Return them, in order of their ids."""
        ids = np.concatenate(self._ids)
        order = np.argsort(ids, kind="stable")
        codes, likely = np.concatenate(self._codes)[order], np.concatenate(self._likely)[order]
        return Suspects(ids[order], codes, likely, self.wrong / max(self.rows, 1))


@dataclass(frozen=True)
class JudgedClass:
    """What is left of the rows of one class when they have been judged."""

    code: int
    size: EffectiveSize  # of this class alone
    doubtful: Doubtful

    @classmethod
    def of(cls, pool: Pool, code: int, judged: Judged, request: Request) -> JudgedClass:
        """Sum up the rows of a class."""
        size = EffectiveSize(1)
        size.add(request.temperature * judged.log_r, np.zeros(pool.count, np.int64))
        return cls(code, size, Doubtful.of(pool.ids, judged))


def _moments(normalize: bool, pools: Sequence[Pool], _unit: PoolUnit) -> tuple[Array, Array]:
    """Return the means of some classes, and the sum of their scatters: (g, D), (D, D)."""
    means, scatter = [], np.zeros((pools[0].n_features, pools[0].n_features))
    for pool in pools:
        mean, own = _class_moments(pool, unit_rows if normalize else _as_they_are)
        means.append(mean)
        scatter += own
    return np.stack(means), scatter


def _as_they_are(h: Array) -> Array:
    return h


def _class_moments(pool: Pool, rows: Callable[[Array], Array]) -> tuple[Array, Array]:
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


def _calibration(pools: Pools, space: CommonSpace) -> Calibration:
    """Fit τ and ε to rows chosen by their ids alone."""
    counts = space.moments.counts
    rows = int(counts[counts > 1].sum())
    if np.count_nonzero(counts) < 2 or rows < 2:
        return Calibration()
    wanted = max(_LEAST_ROWS, min(_CALIBRATION_ROWS, _CALIBRATION_SCORES // len(pools)))
    groups = [tuple(k for k in group if counts[k] > 1) for group in class_groups(counts)]
    units = [PoolUnit(group) for group in groups if group]
    _ = space.gaussian  # once, here
    found = [part for parts in pools.each(partial(_scores, space, wanted / rows), units) for part in parts]
    if not found:
        return Calibration()
    scores, codes = zip(*found, strict=True)
    return calibrate(np.concatenate(scores), np.concatenate(codes))


def _scores(space: CommonSpace, share: float, pools: Sequence[Pool], unit: PoolUnit) -> list[tuple[Array, Array]]:
    """Return the scores of a share of the rows of some classes, and their classes, block by block."""
    found = []
    for pool, code in zip(pools, unit.numbers, strict=True):
        some = row_uniforms(0, Purpose.CANDIDATE, pool.ids) < share
        for start, stop in blocks(pool.count):
            at = np.flatnonzero(some[start:stop])
            if len(at):
                few = len(at) * _SPARSE < stop - start
                h = gather(pool.read, start + at) if few else pool.read(start, stop)[at]
                found.append((space.scores(space.rows(h), code), np.full(len(at), code)))
    return found


def _cuts(count: int, classes: int) -> Iterator[tuple[int, int]]:
    """Yield the (start, stop) of pieces whose scores take little memory."""
    step = max(1, min(BLOCK, _SCORES // classes))
    for start in range(0, count, step):
        yield start, min(start + step, count)

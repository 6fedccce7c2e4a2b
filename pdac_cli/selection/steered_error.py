"""The steered draw where all classes are there at once: g is the fall of a ridge classifier's error, Eq. (24).

The classifier sees what a head to come will see, the standardised features, not rows of unit length.  The density it is
to err little on is that of the rows weighted by r, every class alike.  Beside the error stands the distance of the kept
rows' mean from the class's, as in herding, which counts most for the first rows of a class: one row tells a classifier
little.  Their sum is measured in standard deviations over the class's candidates, so that β means the same at every
step and for every set.

Two approximations keep the work in bounds for many classes and rows: the error is computed in the leading directions
of the features, what lies outside acting as ridge; and more than 128 classes are told apart by 128 random signs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from pdac_cli.arrays import Array, Pool, Pools, PoolUnit
from pdac_cli.rng import Purpose, generator, row_gumbels
from pdac_cli.selection.interface import BLOCK, Answer, ProgressSteps, Request, blocks, class_groups
from pdac_cli.selection.judging import ClassDraw, JudgedClass, RowDensity, SuspectLabels, joined, narrowed
from pdac_cli.selection.moments import Standardizer, WeightedMoments
from pdac_cli.selection.ridge_error import ErrorGains, RidgeError, dot
from pdac_cli.selection.sampling import EffectiveSize

RIDGE = 1.0  # in mean squared lengths of a row
MEAN, FIRST = 1.0, 15.0  # what the distance of the means counts for, and how much more for a class's first row
LEAST_CANDIDATES, CANDIDATES_PER_ROW = 150, 10  # of a class; 50 for 5 rows cost 1.5 points of accuracy, 150 none
ALL_CANDIDATES = 20_000  # shared among the classes, where that is more
WORK = 4e11  # multiplications that the gains may cost
CODES = 128  # columns that stand for the classes where there are more
_DIRECTIONS = (512, 256, 128)


@dataclass
class _ClassState:
    """The candidates of one class and what is kept of them."""

    drawn: ClassDraw
    gains: ErrorGains
    inverse: Array  # (n,) 1 / |x|, without the constant
    mean: Array  # (D + 1,) of the class's rows, each of length 1; 0 for the constant
    spread: float
    total: Array  # (D + 1,) of the rows kept
    free: Array  # (n,) bool
    order: list[int] = field(default_factory=list)


def choose_by_error(pools: Pools, density: RowDensity, quotas: Array, request: Request) -> Answer:
    """Draw one row after the other, the classes in turn."""
    size, suspects = EffectiveSize(len(pools)), SuspectLabels(len(pools))
    counts = np.array([pool.count for pool in pools])
    limits, weights = _limits(counts, quotas), (counts > 0) / np.count_nonzero(counts)
    largest = pools[int(np.argmax(counts))]
    moments = WeightedMoments.of(largest.read(0, min(largest.count, BLOCK)), weights)
    groups = class_groups(counts)
    units = [PoolUnit(group, [(int(limits[code]), density.own(code)) for code in group]) for group in groups]
    draws, right = list[ClassDraw](), list[Array]()
    for unit, found in zip(units, pools.each(partial(_judge, density, moments.empty(), request), units), strict=True):
        for judged, drawn, probability in found.classes:
            size.put(judged.code, judged.size)
            suspects.add(judged.doubtful, judged.code)
            draws.append(drawn)
            right.append(probability)
        moments.merge(found.moments, unit.numbers)
    directions = _directions(pools[0].n_features, quotas, limits)
    features = _Features.of(*moments.standardised(), weights, directions)
    targets = _targets(len(pools))
    error = RidgeError(features.second, features.first @ targets, targets, RIDGE + features.outside)
    units = [PoolUnit(group, [(draws[code].places, right[code]) for code in group]) for group in groups]
    seen = [one for several in pools.each(partial(_last_look, features), units) for one in several]
    states = [_state(drawn, mean, x, error) for drawn, (mean, x) in zip(draws, seen, strict=True)]
    _draw_in_turns(states, error, quotas, request)
    chosen = [(state.drawn, np.array(state.order, np.int64)) for state in states]
    return Answer(joined(chosen), size.sizes(), size.total(), suspects.found())


@dataclass(frozen=True)
class _JudgedGroup:
    """Some classes, judged: what is left of each, with the probability of every label, and their moments together."""

    classes: list[tuple[JudgedClass, ClassDraw, Array]]
    moments: WeightedMoments


def _judge(
    density: RowDensity, empty: WeightedMoments, request: Request, pools: Sequence[Pool], unit: PoolUnit
) -> _JudgedGroup:
    """Judge the rows of some classes, and sum up their moments weighted by r."""
    moments, out = empty.of_classes(unit.numbers), []
    for k, (pool, code, (limit, own)) in enumerate(zip(pools, unit.numbers, unit.argument, strict=True)):
        judged = density.judged(pool, code, own)
        drawn = narrowed(pool, code, judged, limit, request)
        out.append((JudgedClass.of(pool, code, judged, request), drawn, judged.right.astype(np.float32)))
        weight = judged.weight * (moments.weights[k] / max(float(judged.weight.sum()), 1e-300))
        for start, stop in blocks(pool.count):
            moments.add(pool.read(start, stop), np.full(stop - start, k), weight[start:stop])
    return _JudgedGroup(out, moments)


def _limits(counts: Array, quotas: Array) -> Array:
    """Return how many rows of each class may be drawn: (C,)."""
    each = max(LEAST_CANDIDATES, -(-ALL_CANDIDATES // len(counts)))
    return np.where(quotas > 0, np.minimum(counts, np.maximum(CANDIDATES_PER_ROW * quotas, each)), 0)


def _directions(n_features: int, quotas: Array, limits: Array) -> int:
    """Return in how many directions the error is computed: all, or as many as the work allows."""
    width = min(len(quotas), CODES)
    for directions in (n_features, *_DIRECTIONS):
        columns = 2 * width + 2 * min(len(quotas), directions)
        if directions <= n_features and float(quotas @ limits) * directions * columns <= WORK:
            return directions
    return min(n_features, _DIRECTIONS[-1])


def _targets(classes: int) -> Array:
    """Return what the classifier is to answer for each class: (C, K)."""
    if classes <= CODES:
        return np.eye(classes)
    signs: Array = generator(0, Purpose.CODES).choice([-1.0, 1.0], (classes, CODES)) / np.sqrt(CODES)
    return signs


@dataclass(frozen=True)
class _Features:
    """What the classifier sees: standardised features of mean squared length 1, in their leading directions."""

    scale: Standardizer
    length: float  # by which standardised rows are divided
    directions: Array | None  # (D, d); None: all
    second: Array  # (d + 1, d + 1) E[x xᵀ], the last place the constant's
    first: Array  # (d + 1, C) E[x onehot(y)ᵀ]
    outside: float  # the part of the squared length outside the directions

    @classmethod
    def of(cls, scale: Standardizer, first: Array, second: Array, weights: Array, directions: int) -> _Features:
        """Take the moments of standardised rows: first (D, C), second (D, D), the classes' weights (C,)."""
        squared = scale.length
        first, second, chosen = first / np.sqrt(squared), second / squared, None
        outside = 0.0
        if directions < len(second):
            values, vectors = np.linalg.eigh(second)
            chosen = np.ascontiguousarray(vectors[:, ::-1][:, :directions])
            first, second = chosen.T @ first, np.diag(values[::-1][:directions])
            outside = max(0.0, 1.0 - float(np.trace(second)))
        whole = np.zeros((len(second) + 1, len(second) + 1))
        whole[:-1, :-1], whole[-1, -1] = second, 1.0  # standardised features have mean 0: nothing with the constant
        return cls(scale, float(np.sqrt(squared)), chosen, whole, np.vstack([first, weights]), outside)

    def __call__(self, h: Array) -> Array:
        """Return what the classifier sees of rows: (n, D) -> (n, d + 1)."""
        x = self.scale(h) / h.dtype.type(self.length)
        x = x if self.directions is None else x @ self.directions.astype(h.dtype)
        return np.column_stack([x, np.ones(len(h), h.dtype)])


def _last_look(features: _Features, pools: Sequence[Pool], unit: PoolUnit) -> list[tuple[Array, Array]]:
    """Return of some classes the mean direction (D + 1,) of the rows and the candidates (n, d + 1)."""
    out = []
    for pool, (places, right) in zip(pools, unit.argument, strict=True):
        sums, rows = zip(*pool.map(partial(_last_look_at, pool, features, places, right)), strict=True)
        mean = np.append(np.sum(sums, axis=0) / max(float(right.sum(dtype=np.float64)), 1e-12), 0.0)
        out.append((mean, np.concatenate(rows)))
    return out


def _last_look_at(
    pool: Pool, features: _Features, places: Array, right: Array, start: int, stop: int
) -> tuple[Array, Array]:
    x = features(pool.read(start, stop))
    here = slice(*np.searchsorted(places, (start, stop)))
    return (right[start:stop] * _inverse_lengths(x)) @ x[:, :-1].astype(np.float64), x[places[here] - start]


def _state(drawn: ClassDraw, mean: Array, x: Array, error: RidgeError) -> _ClassState:
    """Return a class of which no row is kept yet."""
    spread = max(1.0 - float(mean @ mean), 1e-6)
    gains = ErrorGains.of(x, error)
    return _ClassState(drawn, gains, _inverse_lengths(x), mean, spread, np.zeros_like(mean), np.ones(len(x), bool))


def _inverse_lengths(x: Array) -> Array:
    length = np.sqrt(dot(x[:, :-1], x[:, :-1]))
    return np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)


def _draw_in_turns(states: Sequence[_ClassState], error: RidgeError, quotas: Array, request: Request) -> None:
    """Draw a row of every class, then a second one of every class, and so on."""
    steps = ProgressSteps(request.tick, int(quotas.sum()), int(quotas.sum()))
    present = sum(len(state.free) > 0 for state in states)
    for t in range(int(quotas.max(initial=0))):
        for state in states:
            if t < quotas[state.drawn.code]:
                _draw_one(state, error, t, 1.0 / present, request)
                steps.step()


def _draw_one(state: _ClassState, error: RidgeError, t: int, share: float, request: Request) -> None:
    """Draw the next row of a class; `share` is what the class counts for."""
    drawn, free = state.drawn, state.free
    lacking = (t + 1) * state.mean - state.total
    fall, along = state.gains.gains(error, drawn.code, lacking)
    weight = share * (MEAN + FIRST / (t + 1) ** 3) / state.spread / (t + 1) ** 2
    fall = fall + weight * (2 * state.inverse * along - (state.inverse > 0))
    g = (fall - fall[free].mean()) / (fall[free].std() + 1e-30)
    key = drawn.log_w + request.draw.beta * g + row_gumbels(request.seed, Purpose.DRAW, drawn.ids, t)
    place = int(np.argmax(np.where(free, key, -np.inf)))
    x = state.gains.x[place].astype(np.float64)
    free[place] = False
    state.order.append(place)
    state.total[:-1] += state.inverse[place] * x[:-1]
    error.add(x, drawn.code)

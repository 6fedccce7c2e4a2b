"""PDAC: rows drawn in proportion to their density, steered by the rows kept already, Eqs. (22)–(24).

One row after another, each class its share:

    π_t(z) ∝ r(z)^T · exp(β g_t(z)),

where r is the density of the row relative to the other classes and g_t(z) says how much the row helps beside the t rows
of its class kept so far.  The draw is Gumbel-max: the largest of T log r + β g + noise, the noise a function of the
seed, the row and the step.  β = 0 is drawing ∝ r^T, and a large β the greedy choice of the best.

Two forms of g, chosen by what the caller knows:

- mean: minus the squared distance of what the class mean still lacks from the row, in units of the class's spread.  It
  looks at one class alone, so it serves classes that come task by task.  The mean is that of all rows weighted by r.
- error: how much the row lowers the error of a ridge classifier of all classes trained on the rows kept, in standard
  deviations over the candidates.  It serves where all classes are there at once.

With β > 0 a row's probability of being kept is not proportional to r: it is that of the sequence of draws above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pdac_cli.arrays import Array, Pool, Pools, PoolUnit, Rows
from pdac_cli.density.relative import Judged
from pdac_cli.options.select import Allocation
from pdac_cli.rng import Purpose, row_gumbels
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.interface import Answer, Method, ProblemSize, ProgressSteps, Request, class_groups
from pdac_cli.selection.judging import (
    ClassDensity,
    ClassDraw,
    JudgedClass,
    RelativeDensity,
    RowDensity,
    SuspectLabels,
    common_space,
    joined,
    narrowed,
)
from pdac_cli.selection.sampling import EffectiveSize, Ranking, TopK, keys
from pdac_cli.selection.steered_error import choose_by_error
from pdac_cli.selection.topk import draw

LARGEST_CLASS, CANDIDATES_PER_ROW = 20_000, 10  # rows of a class that are drawn from, at least so many for each kept
_LEAST_SPREAD = 1e-6
_OF_ROWS = ("places", "ids", "log_w", "log_r", "log_p")  # what is known of the rows of a class that are drawn


def steered(rows: Rows, request: Request) -> Answer:
    """Draw each class's share of the budget, steered by the rows kept already."""
    rule, quotas = request.draw, request.quotas()
    own = None if rule.relative else ClassDensity(rows, len(request.counts), rule.normalize)
    with rows.pools(joint=False) as pools:
        density = own or RelativeDensity(rule.space or common_space(pools, rule.normalize))
        choose = choose_by_error if rule.by_error else _choose_by_mean
        answer = choose(pools, density, quotas, request)
    return answer if rule.relative else replace(answer, suspects=None)


def _choose_by_mean(pools: Pools, density: RowDensity, quotas: Array, request: Request) -> Answer:
    size, suspects = EffectiveSize(len(pools)), SuspectLabels(len(pools))
    steps = ProgressSteps(request.tick, int(quotas.sum()), int(quotas.sum()))
    chosen: list[tuple[ClassDraw, Array]] = []
    units = [
        PoolUnit(group, [(int(quotas[code]), density.own(code)) for code in group])
        for group in class_groups(request.counts)
    ]
    for found in pools.each(partial(_by_mean, density, request), units):
        for judged, drawn, order in found:
            size.put(judged.code, judged.size)
            suspects.add(judged.doubtful, judged.code)
            chosen.append((drawn, order))
            for _ in order:
                steps.step()
    return Answer(joined(chosen), size.sizes(), size.total(), suspects.found())


def _by_mean(
    density: RowDensity, request: Request, pools: Sequence[Pool], unit: PoolUnit
) -> list[tuple[JudgedClass, ClassDraw, Array]]:
    """Judge the rows of some classes and draw from them."""
    out = []
    for pool, code, (quota, own) in zip(pools, unit.numbers, unit.argument, strict=True):
        judged = density.judged(pool, code, own)
        drawn = narrowed(pool, code, judged, max(LARGEST_CLASS, CANDIDATES_PER_ROW * quota), request)
        order = _draw_one_class(pool, density, judged, drawn, quota, request)
        only = replace(drawn, **{name: getattr(drawn, name)[order] for name in _OF_ROWS})
        out.append((JudgedClass.of(pool, code, judged, request), only, np.arange(len(order))))
    return out


def _draw_one_class(
    pool: Pool, density: RowDensity, judged: Judged, drawn: ClassDraw, quota: int, request: Request
) -> Array:
    """Return positions among the candidates, in the order they are drawn, g being the mean's: (quota,)."""
    if quota == 0:
        return np.empty(0, np.int64)
    mean = weighted_mean(pool, density, judged.weight)
    u = read_places(pool, density, drawn.places)
    squares = np.einsum("nd,nd->n", u, u, dtype=np.float64)
    spread = max(float(squares.mean() - mean @ mean), _LEAST_SPREAD * float(squares.mean())) or 1.0
    total, free, order = np.zeros(len(mean)), np.ones(len(u), bool), []
    for t in range(quota):
        lacking = (t + 1) * mean - total
        g = (2 * (u @ lacking.astype(u.dtype)).astype(np.float64) - squares) / spread
        key = drawn.log_w + request.draw.beta * g + row_gumbels(request.seed, Purpose.DRAW, drawn.ids, t)
        place = int(np.argmax(np.where(free, key, -np.inf)))
        free[place] = False
        order.append(place)
        total += u[place]
    return np.array(order, np.int64)


def weighted_mean(pool: Pool, density: RowDensity, weight: Array) -> Array:
    """Return the mean of a class's rows, weighted: weight (n,) -> (D,), float64."""
    sums = pool.map(lambda a, b: weight[a:b] @ density.rows(pool.read(a, b)).astype(np.float64))
    mean: Array = np.sum(sums, axis=0) / weight.sum()
    return mean


def read_places(pool: Pool, density: RowDensity, at: Array) -> Array:
    """Return the rows at ascending places of a pool as the density takes them: (k,) -> (k, D)."""

    def part(start: int, stop: int) -> Array:
        first, last = np.searchsorted(at, (start, stop))
        return density.rows(pool.read(start, stop)[at[first:last] - start])

    return np.concatenate(pool.map(part))


def pdac(rows: Rows, request: Request) -> Answer:
    """Draw rows by their density: steered, Eq. (24), or independently, Eq. (10)."""
    if request.draw.beta > 0 and not request.joint:
        return steered(rows, request)
    return draw_relative(rows, request) if request.draw.relative else draw(rows.scored(), request)


def draw_relative(rows: Rows, request: Request) -> Answer:
    """Draw rows ∝ r^T without replacement, within each class or over all."""
    quotas, classes = request.quotas(), len(request.counts)
    top, size, suspects = TopK(quotas), EffectiveSize(classes), SuspectLabels(classes)
    with rows.pools(joint=False) as pools:
        density = RelativeDensity(request.draw.space or common_space(pools, request.draw.normalize))
        limits = np.broadcast_to(quotas, classes)  # of one pool, which any class may fill, or of every class
        units = [PoolUnit(group, limits[list(group)].tolist()) for group in class_groups(request.counts)]
        for found in pools.each(partial(_drawn_alone, density, request), units):
            for judged, best, key in found:
                size.put(judged.code, judged.size)
                suspects.add(judged.doubtful, judged.code)
                top.add(key, request.pools(best.codes), best.ids, best.codes, log_p=best.log_p, score=best.score)
    return Answer(top.ranking(), size.sizes(), size.total(), suspects.found())


def _drawn_alone(
    density: RelativeDensity, request: Request, pools: Sequence[Pool], unit: PoolUnit
) -> list[tuple[JudgedClass, Ranking, Array]]:
    """Judge the rows of some classes, and return those of the largest keys of each, with their keys."""
    out = []
    for pool, code, limit in zip(pools, unit.numbers, unit.argument, strict=True):
        judged = density.judged(pool, code, None)
        key = keys(request.temperature * judged.log_r, pool.ids, request.seed)
        at = np.sort(np.argsort(-key, kind="stable")[:limit])
        codes = np.full(len(at), code)
        best = Ranking(pool.ids[at], codes, log_p=judged.log_p[at], score=np.exp(judged.log_r[at]))
        out.append((JudgedClass.of(pool, code, judged, request), best, key[at]))
    return out


def _work(size: ProblemSize) -> float:
    return size.n * size.n_features * (2 * size.n_features + size.n_logits)


PDAC = Method(
    pdac, Allocation.BALANCED, Evict.DENSITY, _work, needs_density=True, squares_features=True, distributed=True
)

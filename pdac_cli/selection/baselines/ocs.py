"""Online Coreset Selection (Yoon et al. 2022): rows whose gradients agree with the mean and differ from each other.

As paper (the default) it follows section 3 and algorithm 1: of every mini-batch the rows of the best scores, classes
alike.  As code it follows `select_coreset` and `classwise_fair_selection` of `core/train_methods_cifar.py`: of every
batch of 50 rows the ten of the best scores are candidates, 250 of them drawn at random, and these fill the classes in
random order, for the scores that the code then computes are not used.  Departs in both: last-layer gradients stand for
those of the whole network; the network is the one after the task, not the one each batch meets on its way; mini-batches
of 256 as paper, whose size it leaves open; τ is 10 where classes are imbalanced, as in its experiments; as code there
are more candidates where the budget is larger, and a class short of them takes any of its rows.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.options.methods import Version
from pdac_cli.options.select import Allocation
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.selection.budget import apportion
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.gradients import along, gram, residuals, total_gradient
from pdac_cli.selection.interface import (
    Answer,
    Method,
    ProblemSize,
    ProgressSteps,
    Reference,
    Request,
    best_of_pool,
    gather,
)

BATCH = 256  # rows that are scored against each other
CODE_BATCH, OF_BATCH, CANDIDATES = 50, 10, 250  # as code: rows of a batch, of these kept, and drawn from all that are
TAU, TAU_IMBALANCED = 1000.0, 10.0  # weight of the agreement with the stored rows
_IMBALANCED = 2  # the largest class has more than so many times the rows of the smallest


def ocs(rows: Rows, request: Request) -> Answer:
    """Score rows in mini-batches and keep the best of each."""
    choose = drawn_from_best if request.own.ocs.version is Version.CODE else best_of_batches
    with rows.pools(joint=True) as (pool,):
        return choose(pool, request)


def drawn_from_best(pool: Pool, request: Request) -> Answer:
    """Draw from the best of every batch at random, each class its share, as the published code does."""
    m = min(request.budget, pool.count)
    batches, tau = _dealt(pool, CODE_BATCH, request), _tau(request)
    progress = ProgressSteps(request.tick, m, len(batches))
    kept, each = [], max(OF_BATCH, -(-m // len(batches)))
    for batch in batches:
        kept.append(batch[np.argsort(-_scores_of(pool, batch, request.reference, tau), kind="stable")[:each]])
        progress.step()
    found = np.concatenate(kept)
    noise = row_uniforms(request.seed, Purpose.CANDIDATE, pool.ids)
    candidates = found[np.argsort(noise[found], kind="stable")[: max(CANDIDATES, m)]]
    score = np.zeros(pool.count)
    score[candidates] = 1.0
    return best_of_pool(pool, 2 * score + noise, score, request)


def best_of_batches(pool: Pool, request: Request) -> Answer:
    """Deal the rows into mini-batches at random, keep the best scores of each, and rank what is kept by score.

    Every class gives its share of each mini-batch; under joint allocation classes do not matter.  The scores, which may
    be negative, are moved and scaled to reach from 0 to 1.
    """
    batches, tau, quotas = _dealt(pool, BATCH, request), _tau(request), request.quotas()
    kind = request.pools(pool.codes)
    sizes = np.array([np.bincount(kind[batch], minlength=len(quotas)) for batch in batches])
    shares = np.array([apportion(q, column, column) for q, column in zip(quotas.tolist(), sizes.T, strict=True)]).T
    progress = ProgressSteps(request.tick, int(quotas.sum()), len(batches))
    score, kept = np.empty(pool.count), np.zeros(pool.count, bool)
    for batch, share in zip(batches, shares, strict=True):
        score[batch] = _scores_of(pool, batch, request.reference, tau)
        for k in np.flatnonzero(share):
            members = batch[kind[batch] == k]
            kept[members[np.argsort(-score[members], kind="stable")[: share[k]]]] = True
        progress.step()
    extent = np.ptp(score)
    relative = (score - score.min()) / extent if extent > 0 else np.ones(pool.count)
    return best_of_pool(pool, relative + 2.0 * kept, relative, request)


def _dealt(pool: Pool, size: int, request: Request) -> list[Array]:
    """Deal the rows of a pool into batches at random, each ascending."""
    order = np.argsort(row_uniforms(request.seed, Purpose.BATCH, pool.ids, *pool.key), kind="stable")
    return [np.sort(batch) for batch in np.array_split(order, -(-pool.count // size))]


def _tau(request: Request) -> float:
    counts = request.counts[request.counts > 0]
    return TAU_IMBALANCED if counts.max() > _IMBALANCED * counts.min() else TAU


def _scores_of(pool: Pool, batch: Array, reference: Reference | None, tau: float) -> Array:
    h = gather(pool.read, batch).astype(np.float64)
    return scores(h, residuals(gather(pool.logits, batch), pool.targets[batch]), reference, tau)


def scores(h: Array, e: Array, reference: Reference | None, tau: float) -> Array:
    """Return cos(g_i, ḡ) − mean_{j≠i} cos(g_i, g_j) + τ cos(g_i, g_ref) of a mini-batch: (n, D), (n, K) -> (n,).

    ḡ is the batch's mean gradient, g_ref that of the stored rows; without any the last term is left out.
    """
    products = gram(h, e, h, e)
    length = np.sqrt(np.diag(products))
    inverse = _inverse(length)
    agreement = products.mean(axis=1) * inverse * _inverse(np.sqrt(max(products.mean(), 0.0)))
    cosines = products * inverse[:, None] * inverse
    alike = (cosines.sum(axis=1) - np.diag(cosines)) / max(len(h) - 1, 1)
    found: Array = agreement - alike
    if reference is not None:
        mean = total_gradient(reference.h, reference.residuals) / len(reference.h)
        found += tau * along(h, e, mean) * inverse * _inverse(float(np.linalg.norm(mean)))
    return found


def _inverse(length: Array | float) -> Array:
    """Return 1/length, 0 where a gradient vanishes."""
    given = np.asarray(length, np.float64)
    return np.divide(1.0, given, out=np.zeros_like(given), where=given > 0)


def _work(size: ProblemSize) -> float:
    return BATCH * size.n * (size.n_features + size.n_logits) * 2


OCS = Method(ocs, Allocation.BALANCED, Evict.SCORE, _work, needs_logits=True, uses_stored=True, needs_classes=True)

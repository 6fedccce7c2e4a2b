"""Online Coreset Selection (Yoon et al. 2022): rows whose gradients agree with the mean and differ from each other."""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Pool, Rows
from pdac_cli.options.select import Allocation
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.selection.budget import apportion
from pdac_cli.selection.eviction import Evict
from pdac_cli.selection.gradients import along, gram, residuals, total_gradient
from pdac_cli.selection.interface import (
    Answer,
    Method,
    Picked,
    ProblemSize,
    ProgressSteps,
    Reference,
    Request,
    gather,
    within_pools,
)

BATCH = 256  # rows that are scored against each other
TAU, TAU_IMBALANCED = 1000.0, 10.0  # weight of the agreement with the stored rows
_IMBALANCED = 2  # the largest class has more than so many times the rows of the smallest


def ocs(rows: Rows, request: Request) -> Answer:
    """Score rows in mini-batches and keep the best of each."""
    return within_pools(best_of_batches, rows, request)


def best_of_batches(pool: Pool, quota: int, request: Request) -> Picked:
    """Deal the rows into mini-batches at random, keep the best scores of each, and rank what is kept by score.

    The scores, which may be negative, are moved and scaled to reach from 0 to 1 over the pool.
    """
    order = np.argsort(row_uniforms(request.seed, Purpose.BATCH, pool.ids, *pool.key), kind="stable")
    batches = np.array_split(order, -(-pool.count // BATCH))
    sizes = np.array([len(batch) for batch in batches])
    shares, progress = apportion(quota, sizes, sizes), ProgressSteps(request.tick, quota, len(batches))
    counts = request.counts[request.counts > 0]
    tau = TAU_IMBALANCED if counts.max() > _IMBALANCED * counts.min() else TAU
    score, kept = np.empty(pool.count), []
    for batch, share in zip(batches, shares, strict=True):
        batch = np.sort(batch)
        h = gather(pool.read, batch).astype(np.float64)
        e = residuals(gather(pool.logits, batch), pool.targets[batch])
        score[batch] = scores(h, e, request.reference, tau)
        kept.append(batch[np.argsort(-score[batch], kind="stable")[:share]])
        progress.step()
    places = np.concatenate(kept)
    places = places[np.lexsort((places, -score[places]))]
    extent = np.ptp(score)
    relative = (score[places] - score.min()) / extent if extent > 0 else np.ones(quota)
    return Picked(places, relative)


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


OCS = Method(ocs, Allocation.JOINT, Evict.SCORE, _work, needs_logits=True, uses_stored=True)

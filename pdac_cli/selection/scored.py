"""Methods that need one pass: every row gets a key of its own, and the largest keys are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pdac_cli.selection.budget import Array
from pdac_cli.selection.rows import Answer, Offer, Request, Rows
from pdac_cli.selection.sampling import EffectiveSize, TopK, keys


def draw(rows: Rows, request: Request) -> Answer:
    """Draw rows ∝ p̂^T without replacement, Eq. (10), within each class or over all; uniformly without a density."""
    top, size = TopK(request.quotas()), EffectiveSize(len(request.counts))
    for offer in rows.offers():
        log_p = np.full(len(offer.ids), np.nan) if offer.log_p is None else offer.log_p
        log_w = np.zeros(len(offer.ids)) if offer.log_p is None else request.temperature * log_p
        size.offer(log_w, offer.codes)
        extra = np.stack([offer.codes.astype(np.float64), log_p], axis=1)
        top.offer(keys(log_w, offer.ids, request.seed), _pools(offer, request), offer.ids, extra)
    return Answer(top.ranking(), size.sizes(), size.total())


def hardest(rows: Rows, request: Request) -> Answer:
    """Keep the rows of largest cross-entropy −log p_y; the score is the cross-entropy."""
    return _largest(rows, request, hard=True)


def highest_prob(rows: Rows, request: Request) -> Answer:
    """Keep the rows of largest probability p_y of the true class; the score is that probability."""
    return _largest(rows, request, hard=False)


def _largest(rows: Rows, request: Request, *, hard: bool) -> Answer:
    top = TopK(request.quotas())
    for offer in rows.offers():
        if offer.logits is None or offer.targets is None:
            raise ValueError("offered without logits")
        log_q = log_softmax(offer.logits)[np.arange(len(offer.ids)), offer.targets]
        key = -log_q if hard else log_q
        extra = np.stack([offer.codes.astype(np.float64), key if hard else np.exp(log_q)], axis=1)
        top.offer(key, _pools(offer, request), offer.ids, extra)
    found = top.ranking()
    return Answer(replace(found, log_p=np.full(len(found.ids), np.nan), score=found.log_p))


def _pools(offer: Offer, request: Request) -> Array:
    return np.zeros(len(offer.ids), np.int64) if request.joint else offer.codes


def log_softmax(z: Array) -> Array:
    """Return log softmax of every row in float64: (n, K) -> (n, K)."""
    shifted = z.astype(np.float64) - z.max(axis=1, keepdims=True)
    log_q: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return log_q

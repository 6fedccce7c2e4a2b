"""GSS, gradient-based sample selection, the greedy form (Aljundi et al. 2019): keep rows whose gradients differ.

Follows algorithm 2 of the paper and `gss_greedy_update.py` of the code that ASER's authors publish it in.  Departs:
last-layer gradients stand in for those of the whole network (see `selection.gradients`).
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.selection.gradients import along, residuals, total_gradient
from pdac_cli.selection.streams.er import replay
from pdac_cli.selection.streams.interface import Batch, KeepContext, StreamingMethod

_BATCH_ROWS = 10  # of a gradient batch, as in the original
_FIRST = 0.1  # score of rows that come before there are others to compare with, as in the original


def keep(context: KeepContext, batch: Batch) -> None:
    """Fill the buffer; then, when a batch's gradient is against all of some drawn ones, replace rows like the others.

    A row's score c is the largest cosine of its gradient with those of a few drawn batches of stored rows.
    """
    if batch.logits is None:
        raise ValueError("given without logits")
    buffer, rng = context.buffer, context.rng()
    buffer.seen += len(batch)
    e = residuals(batch.logits, batch.y)
    drawn = _drawn_gradients(context, rng)
    score = cosines(batch.h, e, drawn).max(axis=1) if len(drawn) else np.full(len(batch), _FIRST)
    rows = {**batch.columns, "score": score}
    room = buffer.fill(rows)
    rest = np.arange(room, len(batch))
    if not len(rest) or not len(drawn) or batch_cosine(batch.h[rest], e[rest], drawn) >= 0:
        return
    victims = drawn_for_removal(buffer.columns["score"], len(rest), rng)
    rest = rest[: len(victims)]
    enter = rng.random(len(rest)) < replacement_probability(buffer.columns["score"][victims], score[rest])
    buffer.put(victims[enter], rows, rest[enter])


def cosines(h: Array, e: Array, gradients: Array) -> Array:
    """Return the cosine of every row's gradient with each of some gradients: (n, D), (n, K), (G, K, D + 1) -> (n, G).

    A gradient that is 0 has the cosine 0 with any.
    """
    h = h.astype(np.float64)
    products = np.stack([along(h, e, gradient) for gradient in gradients], axis=1)
    norms = np.linalg.norm(e, axis=1) * np.sqrt(np.einsum("nd,nd->n", h, h) + 1)
    scale = norms[:, None] * np.linalg.norm(gradients, axis=(1, 2))
    cosine: Array = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    return cosine


def batch_cosine(h: Array, e: Array, gradients: Array) -> float:
    """Return the largest cosine of the rows' summed gradient with some gradients: (n, D), (n, K), (G, K, D + 1)."""
    own = total_gradient(h.astype(np.float64), e)
    scale = np.linalg.norm(own) * np.linalg.norm(gradients, axis=(1, 2))
    products = np.einsum("kd,gkd->g", own, gradients)
    return float(np.divide(products, scale, out=np.zeros_like(products), where=scale > 0).max())


def drawn_for_removal(score: Array, count: int, rng: np.random.Generator) -> Array:
    """Draw slots ∝ min-max scaled scores without replacement; those of weight 0 never: (m,) -> at most (count,)."""
    weight = score - score.min()
    likely = np.flatnonzero(weight)
    gumbel = rng.gumbel(size=len(likely))
    order = np.argsort(-(np.log(weight[likely]) + gumbel), kind="stable")
    return likely[order[:count]]


def replacement_probability(old: Array, new: Array) -> Array:
    """Return (c_old + 1) / ((c_old + 1) + (c_new + 1)), ½ where both are −1: (n,), (n,) -> (n,)."""
    ours, total = old + 1, old + new + 2
    probability: Array = np.divide(ours, total, out=np.full_like(total, 0.5), where=total > 0)
    return probability


def _drawn_gradients(context: KeepContext, rng: np.random.Generator) -> Array:
    """Return the summed gradients of disjoint random batches of stored rows: (G, K, D + 1)."""
    size = context.buffer.size
    if size == 0:
        return np.empty(0)
    rows = min(_BATCH_ROWS, size)
    count = min(context.settings.gss.gradient_batches, size // rows)
    slots = rng.permutation(size)[: count * rows]
    h, logits = context.look(slots)
    e = residuals(logits, context.buffer.columns["label"][slots])
    parts = [slice(k * rows, (k + 1) * rows) for k in range(count)]
    return np.stack([total_gradient(h[part].astype(np.float64), e[part]) for part in parts])


GSS = StreamingMethod(
    keep,
    replay,
    needs_features=True,
    needs_logits=True,
    looks_at_stored=True,
    columns=("score",),
)

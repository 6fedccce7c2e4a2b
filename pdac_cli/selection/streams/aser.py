"""ASER, adversarial Shapley value experience replay (Shim et al. 2021), by K-nearest-neighbour Shapley values.

Follows algorithms 1 and 2 of the paper in its mean form (ASER_mu) and `aser_update.py`, `aser_retrieve.py` and
`aser_utils.py` of its code: new rows of a class whose share of the buffer is below one random part of 1/C join the
judges, C all classes of the data.  Departs: C are the columns of the logits, or the classes seen where there are none;
judges and candidates are 128 rows, where the code takes a few of every class; a buffer that is too small for both is
replayed uniformly.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.selection.budget import apportion
from pdac_cli.selection.streams import er
from pdac_cli.selection.streams.interface import Batch, KeepContext, Step, StreamingMethod


def keep(context: KeepContext, batch: Batch) -> None:
    """Fill the buffer; then keep, of some stored rows and the new ones, those of the largest values.

    A row's value is summed over a class-balanced sample of other stored rows and the new rows of rare classes, which
    would otherwise have nothing that speaks for them.
    """
    buffer, settings, rng = context.buffer, context.settings.aser, context.rng()
    buffer.seen += len(batch)
    rest = np.arange(buffer.fill(batch.columns), len(batch))
    if not len(rest):
        return
    labels = buffer.columns["label"]
    judges = balanced(labels, min(settings.candidates, buffer.size // 2), rng)
    others = np.setdiff1d(np.arange(buffer.size), judges)
    slots = rng.choice(others, min(settings.candidates, len(others)), replace=False)
    rare = rest[_is_rare(batch, rest, labels, rng)]
    h, _ = context.look(np.concatenate([judges, slots]))
    value = shapley(
        np.concatenate([h[: len(judges)], batch.h[rare]]),
        np.concatenate([labels[judges], batch.y[rare]]),
        np.concatenate([h[len(judges) :], batch.h[rest]]),
        np.concatenate([labels[slots], batch.y[rest]]),
        settings.neighbours,
    ).sum(axis=0)
    stay = np.zeros(len(value), bool)
    stay[np.argsort(-value, kind="stable")[: len(slots)]] = True
    buffer.put(slots[~stay[: len(slots)]], batch.columns, rest[stay[len(slots) :]])


def replay(step: Step) -> Array:
    """Take the rows of most value to other stored rows and of least value to the new rows."""
    total = len(step.stored)
    count = max(min(step.settings.aser.candidates, total // 2), step.count)
    if count >= total or step.count == 0:
        return er.replay(step)
    y, k = step.y[step.stored], step.settings.aser.neighbours
    slots = balanced(y, count, step.rng)
    others = np.setdiff1d(np.arange(total), slots)
    judges = others[balanced(y[others], count, step.rng)]
    rows = step.stored[slots]
    h, _ = step.network.look(np.concatenate([rows, step.stored[judges], step.new]))
    mine, old, new = np.split(h, [len(slots), len(slots) + len(judges)])
    value = shapley(old, y[judges], mine, y[slots], k).mean(axis=0)
    value -= shapley(new, step.y[step.new], mine, y[slots], k).mean(axis=0)
    return rows[np.argsort(-value, kind="stable")[: step.count]]


def shapley(h_judge: Array, y_judge: Array, h: Array, y: Array, k: int) -> Array:
    """Return the Shapley value of every row in classifying each judge by its k nearest rows: (j, D), (n, D) -> (j, n).

    The worth of a set of rows is the share of the judge's class among the k of it that are nearest, as a part of k.
    With the rows sorted by distance, s(a_n) = 1[y] min(k, n)/(k n) and
    s(a_i) = s(a_{i+1}) + (1_i − 1_{i+1})/k · min(k, i)/i (Jia et al. 2019).
    """
    n = len(h)
    order = np.argsort(_distances(h_judge, h), axis=1, kind="stable")
    same = (y[order] == y_judge[:, None]).astype(np.float64)
    place = np.arange(1, n + 1)
    share = np.minimum(k, place) / (k * place)
    gain = np.concatenate([(same[:, :-1] - same[:, 1:]) * share[:-1], same[:, -1:] * share[-1]], axis=1)
    value = np.empty_like(gain)
    np.put_along_axis(value, order, np.cumsum(gain[:, ::-1], axis=1)[:, ::-1], axis=1)
    return value


def balanced(y: Array, count: int, rng: np.random.Generator) -> Array:
    """Draw `count` of the rows, the classes as even as can be: y (n,) -> (min(count, n),), ascending."""
    _, codes, sizes = np.unique(y, return_inverse=True, return_counts=True)
    quota = apportion(count, np.ones(len(sizes), np.int64), sizes)
    drawn = [rng.choice(np.flatnonzero(codes == c), q, replace=False) for c, q in enumerate(quota)]
    return np.sort(np.concatenate([np.empty(0, np.int64), *drawn]))


def _is_rare(batch: Batch, rest: Array, stored: Array, rng: np.random.Generator) -> Array:
    """Return which of the new rows are of a class whose share of the buffer is below a random part of 1/C: (k,)."""
    y = batch.y[rest]
    known = 0 if batch.logits is None else batch.logits.shape[1]
    classes = max(known, len(np.unique(np.concatenate([y, stored]))))
    share = (stored[None, :] == y[:, None]).mean(axis=1)
    rare: Array = share < rng.uniform(0, 1 / classes)
    return rare


def _distances(a: Array, b: Array) -> Array:
    """Return squared Euclidean distances: (j, D), (n, D) -> (j, n)."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    centre = b.mean(axis=0)  # far from the origin the differences would be lost to rounding
    a, b = a - centre, b - centre
    squares: Array = (a**2).sum(axis=1)[:, None] - 2 * a @ b.T + (b**2).sum(axis=1)
    return squares


ASER = StreamingMethod(keep, replay, needs_features=True, looks_at_stored=True)

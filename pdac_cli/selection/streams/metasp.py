"""MetaSP, example influence (Sun et al. 2022): weigh rows by what they do to old and new tasks, keep the most helpful.

Follows section 4 of the paper and `oursRehSel.py` and `min_norm_solvers.py` of its code: both influences scaled to the
length of their loss, the shortest mix of the two, at most 0.999 of either, weights 1 − I divided by their sum, negative
ones too.  Departs: weights are used from the first step on, the code waits for epoch 45 of 50 and the second task;
weights that do not add up to anything positive are replaced by equal ones.

The original chooses at the end of a task among all its rows, with influences of its last epochs.  A stream cannot: here
the clusters are those of a k-means that follows the batches, and a row's influence is that of the step it comes in.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.selection.streams.er import replay
from pdac_cli.selection.streams.interface import Batch, Influence, KeepContext, Step, StreamingMethod, Weights

_END = 0.001  # of the other influence there is so much at least
_EARLIER = -1.0  # cluster of rows of earlier tasks


def weigh(step: Step, rows: Array) -> Weights:
    """Weigh rows by 1 − I, I the shortest mix of their influences on rows of earlier tasks and of this one.

    While the buffer has no row of this task, the new rows stand in for them; in the first task there are no earlier.
    """
    old, current = step.stored[step.earlier], step.stored[~step.earlier]
    sets = [_validation(part, step) for part in (old, current if len(current) else step.new) if len(part)]
    found = [scaled(influence) for influence in step.network.influences(rows, sets)]
    influence = found[0] if len(found) == 1 else shortest_mix(found[0], found[1])
    weight = 1 - influence
    total = weight.sum()
    return Weights(weight / total if total > 0 else np.full(len(rows), 1 / len(rows)), influence)


def scaled(influence: Influence) -> Array:
    """Return the influences with the loss for their length, as in the original: their own depends on the step's."""
    length = np.linalg.norm(influence.slope)
    vector: Array = influence.slope * (influence.loss / length if length > 0 else 0.0)
    return vector


def shortest_mix(a: Array, b: Array) -> Array:
    """Return the shortest vector of the segment between two: γ a + (1 − γ) b, (n,)."""
    between = a - b
    squared = between @ between
    gamma = np.clip(-(b @ between) / squared, _END, 1 - _END) if squared > 0 else _END
    mix: Array = b + gamma * between
    return mix


def keep(context: KeepContext, batch: Batch) -> None:
    """Keep the row of least influence of each of N/t clusters of the t-th task; earlier tasks give up their worst."""
    buffer, memo = context.buffer, context.memo
    buffer.seen += len(batch)
    _turn_to_task(context, batch)
    limit = max(1, buffer.budget // int(memo["tasks"][0]))
    begun = min(limit - len(memo["centres"]), len(batch))
    memo["centres"] = np.concatenate([memo["centres"], batch.h[:begun].astype(np.float64)])
    memo["sizes"] = np.concatenate([memo["sizes"], np.ones(begun)])
    cluster = np.arange(len(memo["centres"]) - begun, len(memo["centres"]), dtype=np.float64)
    rows = {**batch.columns, "cluster": np.concatenate([cluster, np.zeros(len(batch) - begun)])}
    filled = buffer.fill({name: column[:begun] for name, column in rows.items()})
    for k in range(filled, begun):
        buffer.put(np.array([_worst_of_largest(context)]), rows, np.array([k]))
    rest = np.arange(begun, len(batch))
    if len(rest):
        rows["cluster"][rest] = nearest = _nearest(memo, batch.h[rest])
        _move(memo, batch.h[rest], nearest)
        _challenge(context, rows, rest)


def _validation(rows: Array, step: Step) -> Array:
    """Draw rows to see an influence on; two at least, for a batch to have a variance."""
    drawn = step.rng.choice(rows, min(max(step.count, 2), len(rows)), replace=False)
    return np.resize(drawn, max(2, len(drawn)))


def _turn_to_task(context: KeepContext, batch: Batch) -> None:
    """Begin anew with clusters when rows of another source come."""
    memo, source = context.memo, batch.columns["source"][0]
    if "source" in memo and memo["source"][0] == source:
        return
    memo["tasks"] = memo.get("tasks", np.zeros(1, np.int64)) + 1
    memo["source"] = np.array([source])
    memo["centres"], memo["sizes"] = np.empty((0, batch.h.shape[1])), np.empty(0)
    context.buffer.columns["cluster"][:] = _EARLIER


def _worst_of_largest(context: KeepContext) -> int:
    """Return the slot of the row of most influence of the earlier task that has most rows."""
    columns = context.buffer.columns
    earlier = np.flatnonzero(columns["cluster"] == _EARLIER)
    tasks, counts = np.unique(columns["source"][earlier], return_counts=True)
    own = earlier[columns["source"][earlier] == tasks[np.argmax(counts)]]
    return int(own[np.argmax(columns["score"][own])])


def _nearest(memo: dict[str, Array], h: Array) -> Array:
    """Return the nearest centre of every row: (n, D) -> (n,)."""
    h, centres = h.astype(np.float64), memo["centres"]
    squares = (centres**2).sum(axis=1) - 2 * h @ centres.T  # but for what all centres of a row have in common
    nearest: Array = np.argmin(squares, axis=1)
    return nearest


def _move(memo: dict[str, Array], h: Array, nearest: Array) -> None:
    """Let every centre be the mean of the rows it has been nearest to: (n, D), (n,)."""
    clusters, codes, counts = np.unique(nearest, return_inverse=True, return_counts=True)
    sums = np.zeros((len(clusters), h.shape[1]))
    np.add.at(sums, codes, h.astype(np.float64))
    memo["sizes"][clusters] += counts
    centres = memo["centres"]
    centres[clusters] += (sums - counts[:, None] * centres[clusters]) / memo["sizes"][clusters, None]


def _challenge(context: KeepContext, rows: dict[str, Array], rest: Array) -> None:
    """Let each of the rows take the place of its cluster's, if its influence is less."""
    columns = context.buffer.columns
    for k in rest[np.argsort(-rows["score"][rest], kind="stable")]:  # the last one of a cluster is its best
        slot = np.flatnonzero(columns["cluster"] == rows["cluster"][k])
        if len(slot) and rows["score"][k] < columns["score"][slot[0]]:
            context.buffer.put(slot[:1], rows, np.array([k]))


METASP = StreamingMethod(
    keep,
    replay,
    weigh,
    needs_features=True,
    columns=("score", "cluster"),
    needs_network="the influence of each row on the losses of others",
)

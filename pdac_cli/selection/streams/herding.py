"""Herding in a stream: a row takes a stored one's place where that brings the class's stored mean nearer to its mean.

The mean is that of all rows of the class seen so far, each divided by its length.  Classes share the buffer evenly: one
with less than its share takes a place of the class with most rows, the one that this class can best do without.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.selection.streams.er import replay
from pdac_cli.selection.streams.interface import Batch, KeepContext, StreamingMethod

_GAIN = 1 - 1e-6  # of the squared distance must be left at most: less is rounding


def keep(context: KeepContext, batch: Batch) -> None:
    """Offer the rows one by one."""
    means, buffer = _Means(context, batch.h.shape[1]), context.buffer
    rows = unit_rows(batch.h.astype(np.float64)).astype(np.float32)
    for i, (label, row) in enumerate(zip(batch.y.tolist(), rows, strict=True)):
        buffer.seen += 1
        means.see(label, row)
        held = buffer.slot_of(int(batch.columns["source"][i]), int(batch.columns["row"][i])) if context.again else None
        if held is not None:  # the row as the network has it now
            means.drop(held)
            means.store(held, label, row)
            continue
        if buffer.fill({name: column[i : i + 1] for name, column in batch.columns.items()}):
            means.store(buffer.size - 1, label, row)
            continue
        slot = means.slot(label, row)
        if slot is not None:
            means.drop(slot)
            buffer.put(np.array([slot]), batch.columns, np.array([i]))
            means.store(slot, label, row)


class _Means:
    """Of each class the sum of all rows seen and of those stored; its arrays are the method's memory."""

    def __init__(self, context: KeepContext, n_features: int) -> None:
        self.buffer, self.memo = context.buffer, context.memo
        if not self.memo:
            self.memo |= {"label": np.empty(0, np.int64), "count": np.empty(0, np.int64)}
            self.memo |= {"seen": np.empty((0, n_features)), "stored": np.empty((0, n_features))}
            self.memo["unit"] = np.zeros((self.buffer.budget, n_features), np.float32)  # the stored rows
        self.places = {label: c for c, label in enumerate(self.memo["label"].tolist())}

    def see(self, label: int, row: Array) -> None:
        """Count a row of a class."""
        if label not in self.places:
            self.places[label] = len(self.places)
            for name in ("label", "count", "seen", "stored"):
                column = self.memo[name]
                self.memo[name] = np.concatenate([column, np.zeros((1, *column.shape[1:]), column.dtype)])
            self.memo["label"][-1] = label
        place = self.places[label]
        self.memo["count"][place] += 1
        self.memo["seen"][place] += row

    def store(self, slot: int, label: int, row: Array) -> None:
        """Note that a row is stored."""
        self.memo["unit"][slot] = row
        self.memo["stored"][self.places[label]] += row

    def drop(self, slot: int) -> None:
        """Note that the row of a slot goes."""
        self.memo["stored"][self.places[int(self.buffer.columns["label"][slot])]] -= self.memo["unit"][slot]

    def slot(self, label: int, row: Array) -> int | None:
        """Return whose place a row of a class takes, if any."""
        labels = self.buffer.columns["label"]
        mine = np.flatnonzero(labels == label)
        if len(mine) < self.buffer.budget // len(self.places):
            present, sizes = np.unique(labels, return_counts=True)
            largest = int(present[np.argmax(sizes)])
            others = np.flatnonzero(labels == largest)
            slot, _ = self._dispensable(others, self._lack(largest, len(others) - 1))
            return slot
        if not len(mine):
            return None
        lack = self._lack(label, len(mine))
        slot, after = self._dispensable(mine, lack - row)
        return slot if after < _GAIN * (lack @ lack) else None

    def _lack(self, label: int, size: int) -> Array:
        """Return what the sum of a class's stored rows lacks to be `size` times its mean: (D,)."""
        place = self.places[label]
        lack: Array = self.memo["seen"][place] * (size / self.memo["count"][place]) - self.memo["stored"][place]
        return lack

    def _dispensable(self, slots: Array, lack: Array) -> tuple[int, float]:
        """Return the slot without which |lack + row|² is least, and that: slots (m,)."""
        rows = self.memo["unit"][slots]
        squares = np.einsum("md,md->m", rows, rows, dtype=np.float64)
        after = (rows @ lack.astype(np.float32)).astype(np.float64) * 2 + squares
        best = int(np.argmin(after))
        return int(slots[best]), float(after[best] + lack @ lack)


HERDING = StreamingMethod(keep, replay, needs_features=True, knows_stored=True)

"""The stream at work: batches to densities, ε and the buffer (the paper's Algorithm 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pdac_cli.density.blocks import Array
from pdac_cli.density.streaming import StreamedClass, add_rows, new_class, score
from pdac_cli.options.stream import StreamAllocation, StreamMethod, StreamOptions
from pdac_cli.selection.reservoir import Reservoir, latest, relative_to_batch, relative_to_latest

Groups = list[tuple[int, Array]]  # each label of a batch and the positions of its rows


@dataclass
class Stream:
    """All that is known after some rows; the next batch's outcome depends on this and on nothing else."""

    options: StreamOptions
    features: int  # D
    reservoir: Reservoir
    rows: dict[int, int] = field(default_factory=dict)  # n_y of each class, in order of appearance
    classes: dict[int, StreamedClass] = field(default_factory=dict)  # those with a density to follow
    recent: dict[int, Array] = field(default_factory=dict)  # T·log p(ξ|y) of each class's latest rows, (m,) each

    @classmethod
    def begin(cls, options: StreamOptions, features: int) -> Stream:
        """Return the stream before its first row."""
        return cls(options, features, Reservoir.empty(options.budget, options.acceptance, options.seed))

    def take(self, source: int, ids: Array, h: Array, y: Array) -> None:
        """Take in one batch of a source: ids (n,), h (n, D), y (n,)."""
        groups = list(_by_class(y))
        for label, rows in groups:
            self.rows[label] = self.rows.get(label, 0) + len(rows)
        if self.options.method is StreamMethod.ER:
            log_p, epsilon = np.full(len(y), np.nan), np.ones(len(y))
        else:
            log_p = self._log_conditional(h, groups)
            epsilon = self._within_class(log_p, groups)
            for label, rows in groups:
                log_p[rows] += np.log(self.rows[label] / (self.reservoir.seen + len(y)))  # Eq. (9)
            if self.options.allocation is StreamAllocation.JOINT:
                epsilon = relative_to_batch(self.options.temperature * log_p)
        columns = {"source": np.full(len(y), source), "row": ids, "label": y, "log_density": log_p}
        self.reservoir.offer(columns, epsilon)

    def _log_conditional(self, h: Array, groups: Groups) -> Array:
        """Update the classes of the batch and return log p(ξ|y) of its rows, NaN without a density: (n,)."""
        for label, rows in groups:
            if label not in self.classes:
                self.classes[label] = new_class(label, self.features, self.options.density)
                self.recent[label] = np.empty(0)
            add_rows(self.classes[label], h[rows], self.options.density, self.options.seed)
        return score([(self.classes[label], rows) for label, rows in groups], h.astype(np.float64))

    def _within_class(self, log_p: Array, groups: Groups) -> Array:
        """Return ε of the batch's rows among those of their class, Eq. (18), 1 without a density: (n,)."""
        window, log_w = self.options.window, self.options.temperature * log_p
        known = [(label, rows) for label, rows in groups if not np.isnan(log_p[rows[0]])]  # all of a class or none
        if window == 0:
            epsilon = np.ones(len(log_p))
            for _, rows in known:
                epsilon[rows] = relative_to_batch(log_w[rows])
            return epsilon
        last = np.zeros((len(log_p), window))
        for label, rows in known:
            last[rows] = latest(self.recent[label], log_w[rows], window)
            self.recent[label] = np.concatenate([self.recent[label], log_w[rows]])[-window:]
        return np.where(np.isnan(log_w), 1.0, relative_to_latest(log_w, last))


def _by_class(y: Array) -> Iterator[tuple[int, Array]]:
    """Yield each label and the positions of its rows, ascending: y (n,)."""
    order = np.argsort(y, kind="stable")
    labels, starts = np.unique(y[order], return_index=True)
    for label, rows in zip(labels, np.split(order, starts[1:]), strict=True):
        yield int(label), rows

"""The densities of a stream's classes, as they follow its batches, and ε by them (the paper's Algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.streaming import StreamedClass, add_rows, new_class, score
from pdac_cli.options.stream import StreamAllocation, StreamRule
from pdac_cli.selection.streams.reservoir import latest, relative_to_batch, relative_to_latest

Groups = list[tuple[int, Array]]  # each label of a batch and the positions of its rows


@dataclass
class Densities:
    """What is known of each class's density."""

    options: StreamRule
    n_features: int  # D
    classes: dict[int, StreamedClass] = field(default_factory=dict)
    recent: dict[int, Array] = field(default_factory=dict)  # T·log p(ξ|y) of each class's latest rows, (m,) each

    def take(self, h: Array, groups: Groups, counts: Mapping[int, int]) -> tuple[Array, Array]:
        """Follow a batch h (n, D); return log p̂(z), Eq. (9), and ε, Eq. (18): (n,) each.

        `counts` are n_y with this batch.  Rows of a class without a density have NaN and 1.
        """
        log_p = self._log_conditional(h, groups)
        epsilon = self._within_class(log_p, groups)
        total = sum(counts.values())
        for label, rows in groups:
            log_p[rows] += np.log(counts[label] / total)
        if self.options.allocation is StreamAllocation.JOINT:
            epsilon = relative_to_batch(self.options.temperature * log_p)
        return log_p, epsilon

    def _log_conditional(self, h: Array, groups: Groups) -> Array:
        """Update the classes of the batch and return log p(ξ|y) of its rows, NaN without a density: (n,)."""
        for label, rows in groups:
            if label not in self.classes:
                self.classes[label] = new_class(label, self.n_features, self.options.density)
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

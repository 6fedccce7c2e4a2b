"""The stream at work: batches to the buffer, by the rule of a method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.streaming import StreamedClass
from pdac_cli.engine.stream.densities import Densities
from pdac_cli.options.stream import StreamRule
from pdac_cli.selection.streams.buffer import Buffer
from pdac_cli.selection.streams.interface import Batch, KeepContext, Look, StreamingMethod


@dataclass
class Stream:
    """All that is known after some rows; the next batch's outcome depends on this and on nothing else."""

    options: StreamRule
    method: StreamingMethod  # what is kept by which rule
    n_features: int  # D
    buffer: Buffer
    densities: Densities
    rows: dict[int, int] = field(default_factory=dict)  # n_y of each class, in order of appearance
    memo: dict[str, Array] = field(default_factory=dict)  # what the method remembers beside the buffer

    @classmethod
    def begin(cls, options: StreamRule, method: StreamingMethod, n_features: int, network: bool = False) -> Stream:
        """Return the stream before its first row.

        Methods that look at stored rows ask the network; where there is none, their features and logits are stored.
        """
        more = {name: np.empty(0) for name in method.columns}
        if method.looks_at_stored and not network:
            more |= {name: np.empty((0, 0), np.float32) for name in ("h", "logits")}
        return cls(options, method, n_features, Buffer.empty(options.budget, more), Densities(options, n_features))

    @property
    def n_logits(self) -> int | None:
        """K of the stored rows, where they are stored with logits."""
        return int(self.buffer.columns["logits"].shape[1]) if self.method.needs_logits and self.buffer.size else None

    @property
    def score(self) -> Array | None:
        """What the method has to say of each stored row, (m,): a score of its own, or the relative density."""
        columns = self.buffer.columns
        return np.exp(columns["log_r"]) if "log_r" in columns else columns.get("score")

    @property
    def classes(self) -> dict[int, StreamedClass]:
        """The classes with a density to follow."""
        return self.densities.classes

    def take(
        self,
        source: int,
        ids: Array,
        h: Array,
        y: Array,
        logits: Array | None = None,
        score: Array | None = None,
        look: Look | None = None,
        again: bool = False,
    ) -> None:
        """Take in one batch of a source: ids (n,), h (n, D), y (n,), logits (n, K), the method's own score (n,).

        `look` shows stored rows, by their slots, as a network has them now.  `again` says that these rows
        have come before: counts and densities follow them anew, but a row that is stored takes no second place.
        """
        groups = list(_by_class(y))
        for label, rows in groups:
            self.rows[label] = self.rows.get(label, 0) + len(rows)
        log_p, epsilon = np.full(len(y), np.nan), None
        if self.method.needs_density:
            log_p, epsilon = self.densities.take(h, groups, self.rows)
        columns = {"source": np.full(len(y), source), "row": ids, "label": y, "log_density": log_p, "h": h}
        columns["logits"] = np.empty((len(y), 0)) if logits is None else logits
        columns |= {name: np.full(len(y), np.nan) for name in self.method.columns}
        if score is not None:
            columns["score"] = score
        seed, acceptance, settings = self.options.seed, self.options.acceptance, self.options.settings
        context = KeepContext(self.buffer, seed, look or self._stored, acceptance, settings, self.memo)
        context.temperature, context.steer = self.options.temperature, self.options.steer
        context.again = again
        batch = Batch(columns, h, logits, epsilon)
        if not again or self.method.knows_stored:
            self.method.keep(context, batch)
            return
        stored = np.isin(ids, self.buffer.columns["row"][self.buffer.columns["source"] == source])
        if not stored.all():
            self.method.keep(context, batch.of(~stored))
        self.buffer.seen += int(stored.sum())

    def _stored(self, slots: Array) -> tuple[Array, Array]:
        return self.buffer.columns["h"][slots], self.buffer.columns["logits"][slots]


def _by_class(y: Array) -> Iterator[tuple[int, Array]]:
    """Yield each label and the positions of its rows, ascending: y (n,)."""
    order = np.argsort(y, kind="stable")
    labels, starts = np.unique(y[order], return_index=True)
    for label, rows in zip(labels, np.split(order, starts[1:]), strict=True):
        yield int(label), rows

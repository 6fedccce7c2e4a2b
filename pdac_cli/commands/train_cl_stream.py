"""The replay buffer of a continual run, kept along the stream of its batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pdac_cli.commands.train_cl_memory import Kept, Silent
from pdac_cli.density.blocks import Array
from pdac_cli.engine.packing import pack, unpack
from pdac_cli.engine.streaming import Stream
from pdac_cli.files.index import Index, Source, write_index
from pdac_cli.learning.memory import Outputs, Stored
from pdac_cli.learning.tasks import Task
from pdac_cli.options.stream import MethodOptions, StreamOptions
from pdac_cli.selection.streams.interface import StreamingMethod


@dataclass
class StreamMemory(Kept):
    """Keeps rows by a streaming method: each batch of a task's first epoch is offered once."""

    options: StreamOptions
    dim: int
    tasks: list[Task]  # of the whole run
    streams: bool = True
    console: Silent = field(default_factory=Silent)

    def __post_init__(self) -> None:
        """Begin with no rows."""
        self.stream = Stream.begin(self.options, self.dim, network=True)
        self._current: Stored | None = None

    @property
    def method(self) -> StreamingMethod:
        """The method's functions."""
        return self.stream.method

    @property
    def settings(self) -> MethodOptions:
        """The method's options."""
        return self.options.settings

    def stored(self) -> Stored:
        """Return the training rows to replay from."""
        if self._current is None:
            columns = self.stream.buffer.columns
            self._current = Stored.of(self.places(columns["row"]), columns["source"] + 1)
        return self._current

    def offer(self, task: Task, rows: Array, h: Array | None, score: Array | None, outputs: Outputs) -> None:
        """Offer a batch to the buffer."""
        features, logits = np.zeros((len(rows), 1), np.float32) if h is None else h, None
        if self.method.looks_at_stored:
            features, logits = self.by_label(rows, outputs)

        def look(slots: Array) -> tuple[Array, Array]:
            return self.by_label(self.places(self.stream.buffer.columns["row"][slots]), outputs)

        buffer = self.stream.buffer
        before = (buffer.size, buffer.replaced)
        ids = self.samples.origin.rows[rows]
        self.stream.take(task.number - 1, ids, features, self.labels(rows), logits, score, look)
        if before != (buffer.size, buffer.replaced):
            self._current = None

    def end_task(self, task: Task, outputs: Outputs) -> None:  # noqa: ARG002
        """Write the buffer as it is after the task."""
        if self.first:
            write_index(self._index(self.tasks[: task.number]), self.folder.buffer(task.number), force=True)

    def state(self) -> dict[str, Array]:
        """Return all that the stream knows."""
        return pack(self.stream)

    def restore(self, tasks_done: int, state: dict[str, Array]) -> None:  # noqa: ARG002
        """Go back to a state."""
        self.stream = unpack(state, self.options, self.dim, network=True)
        self._current = None

    def _index(self, seen: list[Task]) -> Index:
        columns, origin = self.stream.buffer.columns, self.samples.origin
        return Index(
            row=columns["row"],
            source=columns["source"],
            task=columns["source"] + 1,
            label=columns["label"],
            log_density=columns["log_density"],
            sources=tuple(Source(self.fingerprint(task), origin.files, origin.total, task.number) for task in seen),
            method=self.options.method.value,
            budget=self.options.budget,
            seed=self.options.seed,
            options={
                "acceptance": self.options.acceptance.value,
                "temperature": self.options.temperature,
                **{name: getattr(self.settings, name) for name in self.method.settings},
            },
            label_names=self.samples.label_names,
            score=columns.get("score"),
        )

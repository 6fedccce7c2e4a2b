"""The replay buffer of a continual run, kept along the stream of its batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.commands.train_cl.offline_memory import RunMemory
from pdac_cli.console import Silent
from pdac_cli.engine.stream.packing import pack, unpack
from pdac_cli.engine.stream.running import Stream
from pdac_cli.files.index.index_file import Index, IndexSource, write_index
from pdac_cli.learning.data.tasks import Task
from pdac_cli.learning.memory import Stored
from pdac_cli.options.methods import MethodOptions
from pdac_cli.options.stream import StreamRule
from pdac_cli.options.train_cl import Feed
from pdac_cli.selection.streams.interface import Look, StreamingMethod


@dataclass
class StreamMemory(RunMemory):
    """Keeps rows by a streaming method: every batch is offered, or those of a task's first epoch."""

    options: StreamRule
    method: StreamingMethod
    n_features: int
    tasks: list[Task]  # of the whole run
    feed: Feed = Feed.ALL
    streams: bool = True
    console: Silent = field(default_factory=Silent)

    def __post_init__(self) -> None:
        """Begin with no rows."""
        self.stream = Stream.begin(self.options, self.method, self.n_features, network=True)
        self._current: Stored | None = None

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

    def feeds(self, epoch: int) -> bool:
        """Whether the rows of a task's epoch, from 0, are offered."""
        return epoch == 0 or self.feed is Feed.ALL

    def offer(self, task: Task, epoch: int, rows: Array, h: Array | None, score: Array | None, outputs: Look) -> None:
        """Offer a batch to the buffer."""
        features, logits = np.zeros((len(rows), 1), np.float32) if h is None else h, None
        if self.method.looks_at_stored:
            features, logits = self.by_label(rows, outputs)

        def look(slots: Array) -> tuple[Array, Array]:
            return self.by_label(self.places(self.stream.buffer.columns["row"][slots]), outputs)

        buffer = self.stream.buffer
        before = (buffer.size, buffer.replaced)
        ids = self.samples.origin.rows[rows]
        self.stream.take(task.number - 1, ids, features, self.labels(rows), logits, score, look, again=epoch > 0)
        if before != (buffer.size, buffer.replaced):
            self._current = None

    def end_epoch(self, task: Task, epoch: int, outputs: Look) -> None:
        """Do nothing."""

    def end_task(self, task: Task, outputs: Look) -> None:  # noqa: ARG002
        """Write the buffer as it is after the task."""
        if self.first:
            write_index(self._index(self.tasks[: task.number]), self.folder.buffer(task.number), force=True)

    def state(self) -> dict[str, Array]:
        """Return all that the stream knows."""
        return pack(self.stream)

    def restore(self, tasks_done: int, state: dict[str, Array]) -> None:  # noqa: ARG002
        """Go back to a state."""
        self.stream = unpack(state, self.options, self.method, self.n_features, network=True)
        self._current = None

    def _index(self, seen: list[Task]) -> Index:
        columns, origin, options = self.stream.buffer.columns, self.samples.origin, self.options
        steered = {"density": options.density_kind.value, "steer": options.steer} if self.method.is_steered else {}
        return Index(
            row=columns["row"],
            source=columns["source"],
            task=columns["source"] + 1,
            label=columns["label"],
            log_density=columns["log_density"],
            sources=tuple(
                IndexSource(self.fingerprint(task), origin.files, origin.total, task.number) for task in seen
            ),
            method=self.options.method.value,
            budget=self.options.budget,
            seed=self.options.seed,
            options={
                "acceptance": self.options.acceptance.value,
                "temperature": self.options.temperature,
                **steered,
                **self.settings.of(self.options.method),
            },
            label_names=self.samples.label_names,
            score=self.stream.score,
        )

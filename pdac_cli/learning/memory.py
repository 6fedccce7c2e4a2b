"""What the loop of a continual run asks of a replay buffer, however it is chosen."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.learning.data.tasks import Task
from pdac_cli.options.methods import MethodOptions
from pdac_cli.selection.streams.interface import Look, StreamingMethod


class Stored(NamedTuple):
    """The buffer's rows, ascending."""

    rows: Array  # (m,) positions among the training samples
    tasks: Array  # (m,) their numbers

    @classmethod
    def of(cls, rows: Array, tasks: Array) -> Stored:
        """Put rows (m,) and tasks (m,) in order."""
        order = np.argsort(rows, kind="stable")
        return cls(rows[order], tasks[order])


NOTHING = Stored(np.empty(0, np.int64), np.empty(0, np.int64))


class Memory(Protocol):
    """The replay buffer, however it is chosen."""

    @property
    def streams(self) -> bool:
        """Whether rows are offered as they come."""

    def feeds(self, epoch: int) -> bool:
        """Whether the rows of a task's epoch, from 0, are offered."""

    @property
    def method(self) -> StreamingMethod:
        """What is replayed and how the rows of a step are weighed; what is kept, too, where rows are offered."""

    @property
    def settings(self) -> MethodOptions:
        """The options of the method."""

    def stored(self) -> Stored:
        """Training rows to replay from."""

    def offer(self, task: Task, epoch: int, rows: Array, h: Array | None, score: Array | None, outputs: Look) -> None:
        """Be told of a batch: rows (b,), their features h (b, D) in the step and their score (b,) by its weights.

        `outputs` is what the network makes of any rows now, after the step.
        """

    def end_epoch(self, task: Task, epoch: int, outputs: Look) -> None:
        """Be told that a task's epoch, from 1, is over."""

    def end_task(self, task: Task, outputs: Look) -> None:
        """Choose what to keep after a task."""

    def state(self) -> dict[str, Array]:
        """What there is to know beyond the buffer after the last task, as arrays."""

    def restore(self, tasks_done: int, state: dict[str, Array]) -> None:
        """Go back to a state."""

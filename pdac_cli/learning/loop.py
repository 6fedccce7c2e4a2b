"""The continual run of one seed, read from top to bottom: tasks, epochs, steps, selection, accuracy.

Every random choice is a function of (seed, task, epoch, step), so that a run goes on from any step with nothing but the
network, the buffer and its place.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdac_cli.errors import DataError, Stopped
from pdac_cli.learning.learner import Learner
from pdac_cli.learning.tasks import Task
from pdac_cli.rng import Purpose, generator

Array = NDArray[Any]
Outputs = Callable[[Array], tuple[Array, Array]]  # training rows (n,) to features (n, D) and logits (n, C)
STAGES = ("training", "extraction", "selection", "evaluation")
_SAVE_SECONDS = 1.0  # epochs shorter than this are not all worth a checkpoint


class Memory(Protocol):
    """The replay buffer, however it is chosen."""

    @property
    def streams(self) -> bool:
        """Whether rows are offered as they come, in a task's first epoch."""

    @property
    def scores(self) -> bool:
        """Whether the features of offered rows are looked at."""

    def rows(self) -> Array:
        """Training rows to replay from: (m,)."""

    def offer(self, task: Task, rows: Array, h: Array | None) -> None:
        """Be told of a batch: rows (b,), features h (b, D)."""

    def end_task(self, task: Task, outputs: Outputs) -> None:
        """Choose what to keep after a task."""

    def state(self) -> dict[str, Array]:
        """What there is to know beyond the buffer after the last task, as arrays."""

    def restore(self, tasks_done: int, state: dict[str, Array]) -> None:
        """Go back to a state."""


@dataclass
class Progress:
    """How far a run is, and what it has come to so far."""

    task: int = 0  # finished
    epoch: int = 0  # finished of the task under way
    step: int = 0  # made of the epoch under way
    loss: float = 0.0  # sum over these steps
    losses: list[list[float]] = field(default_factory=list)  # mean loss of each epoch, by task
    accuracy: list[list[float]] = field(default_factory=list)  # A_{t,j}, j ≤ t
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    _running: list[str] = field(default_factory=list)
    _since: float = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of a block as that of a stage; a stage within another is not counted twice."""
        self.mark()
        self._running.append(name)
        try:
            yield
        finally:
            self.mark()
            self._running.pop()

    def mark(self) -> None:
        """Count the time up to now."""
        now = time.perf_counter()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def matrix(self) -> Array:
        """Return the accuracies as (T, T), NaN above the diagonal."""
        size = len(self.accuracy)
        out = np.full((size, size), np.nan)
        for t, row in enumerate(self.accuracy):
            out[t, : len(row)] = row
        return out


@dataclass(frozen=True)
class Schedule:
    """What is done when; `stopping` tells whether the run is to end early, `save` keeps a checkpoint."""

    seed: int
    epochs: int
    save: Callable[[bytes], None]
    stopping: Callable[[], bool]
    tick: Callable[[int], None]  # told of steps made


def learn(learner: Learner, tasks: Sequence[Task], memory: Memory, schedule: Schedule, progress: Progress) -> None:
    """Learn the tasks one after the other with replay, from where `progress` stands."""
    options, seed = learner.options, schedule.seed
    saved = time.monotonic()

    def save() -> None:
        nonlocal saved
        if learner.ranks.first:
            schedule.save(packed(learner, memory, progress))
        saved = time.monotonic()

    for task in tasks[progress.task :]:
        if len(progress.losses) < task.number:
            progress.losses.append([])
        bounds = batch_bounds(len(task.train), options.batch)
        while progress.epoch < schedule.epochs:
            epoch = progress.epoch
            feeding = memory.streams and epoch == 0
            order = generator(seed, Purpose.BATCHES, task.number, epoch).permutation(task.train)
            with progress.stage("training"):
                total = torch.tensor(progress.loss, dtype=torch.float64, device=learner.device)
                for step in range(progress.step, len(bounds) - 1):
                    key = (task.number, epoch, step)
                    new = order[bounds[step] : bounds[step + 1]]
                    old = replayed(memory.rows(), options.replay_batch, generator(seed, Purpose.REPLAY, *key))
                    wanted = len(new) if feeding and memory.scores else 0
                    loss, h = learner.step(np.concatenate([new, old]), generator(seed, Purpose.AUGMENT, *key), wanted)
                    total += loss
                    if feeding:
                        with progress.stage("selection"):
                            memory.offer(task, new, h)
                    progress.step = step + 1
                    schedule.tick(1)
                    # Processes that learn as one must stop at one place, and agreeing on it at every step is slow.
                    if learner.ranks.world == 1 and schedule.stopping():
                        progress.loss = float(total)
                        save()
                        raise stopped(task, epoch)
            progress.losses[-1].append(_mean_loss(total, len(bounds) - 1))
            progress.epoch, progress.step, progress.loss = epoch + 1, 0, 0.0
            asked = learner.ranks.agreed(schedule.stopping())
            if asked or time.monotonic() - saved > _SAVE_SECONDS:
                save()
            if asked:
                raise stopped(task, epoch)
        with progress.stage("selection"):
            memory.end_task(task, _timed(learner, progress))
            learner.ranks.check_same(memory.rows())
        with progress.stage("evaluation"):
            progress.accuracy.append(accuracies(learner, tasks[: task.number]))
        progress.task, progress.epoch = task.number, 0
    progress.step = 0


def batch_bounds(rows: int, batch: int) -> list[int]:
    """Return where batches begin and end; a last one of a single row joins the one before, for it has no variance."""
    bounds = [*range(0, rows, batch), rows]
    if len(bounds) > 2 and bounds[-1] - bounds[-2] == 1:
        del bounds[-2]
    return bounds


def replayed(rows: Array, count: int, rng: np.random.Generator) -> Array:
    """Draw rows of the buffer (m,), each at most once: (min(count, m),)."""
    if len(rows) == 0 or count == 0:
        return np.empty(0, np.int64)
    return rng.choice(rows, min(count, len(rows)), replace=False)


def accuracies(learner: Learner, tasks: Sequence[Task]) -> list[float]:
    """Return the accuracy on each task's test rows, A_{t,1} … A_{t,t}, the class being sought among all classes."""
    correct = learner.correct(np.concatenate([task.test for task in tasks]))
    ends = np.cumsum([len(task.test) for task in tasks])
    return [float(part.mean()) for part in np.split(correct, ends[:-1])]


def packed(learner: Learner, memory: Memory, progress: Progress) -> bytes:
    """Return a checkpoint: all that the rest of the run depends on."""
    arrays = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in memory.state().items()}
    progress.mark()
    fields = {name: getattr(progress, name) for name in _FIELDS}
    stream = io.BytesIO()
    torch.save({"learner": learner.state(), "memory": arrays, "progress": fields}, stream)
    return stream.getvalue()


def unpacked(data: bytes, learner: Learner, memory: Memory) -> Progress:
    """Put learner and memory back to where a checkpoint was made, and return the place."""
    found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    progress = Progress(**found["progress"])
    learner.restore(found["learner"])
    memory.restore(progress.task, {name: value.numpy() for name, value in found["memory"].items()})
    return progress


_FIELDS = ("task", "epoch", "step", "loss", "losses", "accuracy", "seconds")


def stopped(task: Task, epoch: int) -> Stopped:
    """Return what is raised when a run ends early."""
    return Stopped(f"stopped in task {task.number}, epoch {epoch + 1}; all steps are kept; add --resume to go on")


def _timed(learner: Learner, progress: Progress) -> Outputs:
    def outputs(rows: Array) -> tuple[Array, Array]:
        with progress.stage("extraction"):
            return learner.outputs(rows)

    return outputs


def _mean_loss(total: Tensor, steps: int) -> float:
    mean = float(total) / steps
    if not np.isfinite(mean):
        raise DataError(f"the loss is {mean}; expected a finite one; lower --lr, or leave --amp out")
    return mean

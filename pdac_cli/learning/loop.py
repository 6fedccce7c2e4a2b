"""The continual run of one seed, read from top to bottom: tasks, epochs, steps, selection, accuracy.

Every random choice is a function of (seed, task, epoch, step), so that a run goes on from any step with nothing but the
network, the buffer and its place.
"""

from __future__ import annotations

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pdac_cli.arrays import Array
from pdac_cli.errors import DataError, Stopped
from pdac_cli.learning.data.tasks import Task
from pdac_cli.learning.learner import Learner
from pdac_cli.learning.lookahead import Lookahead
from pdac_cli.learning.memory import Memory
from pdac_cli.learning.progress import RunProgress
from pdac_cli.rng import Purpose, generator
from pdac_cli.selection.streams.interface import Look, Step, StreamingMethod

_SAVE_SECONDS = 1.0  # epochs shorter than this are not all worth a checkpoint


class Supervisor(Protocol):
    """Whoever runs the loop, handed down to it: the loop knows neither files nor signals."""

    def save(self, checkpoint: bytes, /) -> None:
        """Keep a checkpoint."""

    def stopping(self) -> bool:
        """Return whether the run is to end early."""

    def tick(self, steps: int, /) -> None:
        """Be told of steps made."""


@dataclass(frozen=True)
class Schedule:
    """How long to learn, with which random numbers, and for whom."""

    seed: int
    epochs: int
    supervisor: Supervisor


def learn(learner: Learner, tasks: Sequence[Task], memory: Memory, schedule: Schedule, progress: RunProgress) -> None:
    """Learn the tasks one after the other with replay, from where `progress` stands."""
    options, seed, supervisor = learner.options, schedule.seed, schedule.supervisor
    saved = time.monotonic()

    def save() -> None:
        nonlocal saved
        if learner.ranks.first:
            supervisor.save(packed(learner, memory, progress))
        saved = time.monotonic()

    for task in tasks[progress.task :]:
        if len(progress.losses) < task.number:
            progress.losses.append([])
        bounds = batch_bounds(len(task.train), options.batch)
        while progress.epoch < schedule.epochs:
            epoch = progress.epoch
            feeding = memory.feeds(epoch)
            order = generator(seed, Purpose.BATCHES, task.number, epoch).permutation(task.train)
            with progress.stage("training"):
                total = torch.tensor(progress.loss, dtype=torch.float64, device=learner.device)
                for step in range(progress.step, len(bounds) - 1):
                    key = (task.number, epoch, step)
                    new = order[bounds[step] : bounds[step + 1]]
                    coming = _step(learner, memory, task, new, seed, key)
                    with progress.stage("retrieval"):
                        rows = np.concatenate([new, memory.method.replay(coming)])
                    weight, score = None, None
                    if memory.method.weigh is not None and memory.streams:
                        with progress.stage("weighting"):
                            weight, score = memory.method.weigh(coming, rows)
                    wanted = len(new) if feeding and features_of_pass(memory.method) else 0
                    loss, h = learner.step(rows, generator(seed, Purpose.AUGMENT, *key), wanted, weight)
                    total += loss
                    if feeding:
                        with progress.stage("selection"):
                            new_score = None if score is None else score[: len(new)]
                            memory.offer(task, epoch, new, h, new_score, _timed(learner.look, progress))
                    progress.step = step + 1
                    supervisor.tick(1)
                    # Processes that learn as one must stop at one place, and agreeing on it at every step is slow.
                    if learner.ranks.world == 1 and supervisor.stopping():
                        progress.loss = float(total)
                        save()
                        raise stopped(task, epoch)
            progress.losses[-1].append(_mean_loss(total, len(bounds) - 1))
            with progress.stage("selection"):
                memory.end_epoch(task, epoch + 1, _timed(learner.outputs, progress))
            progress.epoch, progress.step, progress.loss = epoch + 1, 0, 0.0
            asked = learner.ranks.agreed(supervisor.stopping())
            if asked or time.monotonic() - saved > _SAVE_SECONDS:
                save()
            if asked:
                raise stopped(task, epoch)
        with progress.stage("selection"):
            memory.end_task(task, _timed(learner.outputs, progress))
            learner.ranks.check_same(memory.stored().rows)
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


def features_of_pass(method: StreamingMethod) -> bool:
    """Whether the method wants the features that the step itself computes, which cost nothing.

    One that compares new rows with stored ones has both from the network as it is after the step.
    """
    return method.needs_features and not method.looks_at_stored


def _step(learner: Learner, memory: Memory, task: Task, new: Array, seed: int, key: tuple[int, ...]) -> Step:
    """Return what a method may know of the step that is coming."""
    stored = memory.stored()
    return Step(
        new,
        stored.rows,
        stored.tasks < task.number,
        learner.classes,
        learner.options.replay_batch,
        generator(seed, Purpose.REPLAY, *key),
        Lookahead(learner, lambda: generator(seed, Purpose.AUGMENT, *key)),
        memory.settings,
    )


def accuracies(learner: Learner, tasks: Sequence[Task]) -> list[float]:
    """Return the accuracy on each task's test rows, A_{t,1} … A_{t,t}, the class being sought among all classes."""
    correct = learner.correct(np.concatenate([task.test for task in tasks]))
    ends = np.cumsum([len(task.test) for task in tasks])
    return [float(part.mean()) for part in np.split(correct, ends[:-1])]


def packed(learner: Learner, memory: Memory, progress: RunProgress) -> bytes:
    """Return a checkpoint: all that the rest of the run depends on."""
    arrays = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in memory.state().items()}
    progress.mark()
    fields = {name: getattr(progress, name) for name in PROGRESS_FIELDS}
    stream = io.BytesIO()
    torch.save({"learner": learner.state(), "memory": arrays, "progress": fields}, stream)
    return stream.getvalue()


def torch_contents(data: bytes) -> Any:
    """Return what torch reads from the bytes of a checkpoint, without running code of it."""
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def is_arrays(found: Any) -> bool:
    """Whether this is what `packed` keeps of a memory: plain tensors by name."""
    return isinstance(found, dict) and all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in found.items()
    )


def unpacked(found: Mapping[str, Any], learner: Learner, memory: Memory) -> RunProgress:
    """Put learner and memory back to where a checkpoint was made, and return the place."""
    progress = RunProgress(**found["progress"])
    learner.restore(found["learner"])
    memory.restore(progress.task, {name: value.numpy() for name, value in found["memory"].items()})
    return progress


PROGRESS_FIELDS = ("task", "epoch", "step", "loss", "losses", "accuracy", "seconds")


def stopped(task: Task, epoch: int) -> Stopped:
    """Return what is raised when a run ends early."""
    return Stopped(f"stopped in task {task.number}, epoch {epoch + 1}; all steps are kept; add --resume to go on")


def _timed(pass_: Look, progress: RunProgress) -> Look:
    def outputs(rows: Array) -> tuple[Array, Array]:
        with progress.stage("extraction"):
            return pass_(rows)

    return outputs


def _mean_loss(total: Tensor, steps: int) -> float:
    mean = float(total) / steps
    if not np.isfinite(mean):
        raise DataError(f"the loss is {mean}; expected a finite one; lower --lr, or leave --amp out")
    return mean

"""Heads that learn the tasks without a buffer: in closed form from a stream of batches, or from all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.learning.data.samples import Samples
from pdac_cli.learning.data.tasks import Task
from pdac_cli.learning.progress import RunProgress
from pdac_cli.options.train_cl import TrainOptions
from pdac_cli.pipeline.heads.classifiers import FeatureScale, logistic
from pdac_cli.pipeline.heads.closed_form import STREAMED, StreamedHead
from pdac_cli.rng import Purpose, generator


class _Supervisor(Protocol):
    def stopping(self) -> bool: ...

    def tick(self, steps: int, /) -> None: ...


class AllRowsHead:
    """The upper bound: a logistic regression on all rows of all tasks so far."""

    def __init__(self) -> None:
        self._h: list[Array] = []
        self._codes: list[Array] = []

    def add(self, h: Array, codes: Array, ids: Array) -> None:  # noqa: ARG002
        """Keep rows."""
        self._h.append(h)
        self._codes.append(codes)

    def classifier(self) -> Callable[[Array], Array]:
        """Train on what is kept."""
        h = np.concatenate(self._h)
        scale = FeatureScale.of(h)
        answer = logistic(scale.standardized(h), np.concatenate(self._codes))
        return lambda g: answer(scale.standardized(g))

    def size(self) -> int:
        """Return the bytes of the rows and their classes."""
        return sum(part.nbytes for part in (*self._h, *self._codes))


def learn_closed_form(
    name: str, options: TrainOptions, samples: Samples, tasks: Sequence[Task], seed: int, supervisor: _Supervisor
) -> tuple[RunProgress, int]:
    """Learn the tasks one after the other, one pass, batch by batch; return the accuracies and the bytes kept."""
    x, y = samples.x.cpu().numpy(), samples.y.cpu().numpy()
    x_test, y_test = samples.x_test.cpu().numpy(), samples.y_test.cpu().numpy()
    head: StreamedHead = AllRowsHead()
    if name in STREAMED:
        head = STREAMED[name](x.shape[1], len(samples.labels), options.random_features, seed)
    progress, batch = RunProgress(), options.learning.batch
    for task in tasks:
        with progress.stage("training"):
            rows = task.train[generator(seed, Purpose.BATCHES, task.number).permutation(len(task.train))]
            for start in range(0, len(rows), batch):
                some = rows[start : start + batch]
                head.add(x[some], y[some], some)
                supervisor.tick(1)
            answer = head.classifier()
        with progress.stage("evaluation"):
            found = [float(np.mean(answer(x_test[one.test]) == y_test[one.test])) for one in tasks[: task.number]]
        progress.accuracy.append(found)
        progress.losses.append([])
    return progress, head.size()

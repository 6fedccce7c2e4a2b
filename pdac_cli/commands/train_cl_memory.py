"""The replay buffer of a continual run, chosen after each task; or none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from pdac_cli.commands.choose import choose
from pdac_cli.commands.fit import device_of, fit_model, grouped_rows
from pdac_cli.commands.train_cl_source import TaskSource
from pdac_cli.console import Console
from pdac_cli.density.blocks import Array
from pdac_cli.density.model import Scorer
from pdac_cli.engine.source import count_classes, make_plan
from pdac_cli.engine.unit import measured_rows
from pdac_cli.files.index import Index, read_index, write_index
from pdac_cli.files.model import StoredModel, read_model, write_model
from pdac_cli.files.runs import SeedFolder
from pdac_cli.learning.memory import NOTHING, Memory, Outputs, Stored
from pdac_cli.learning.samples import Samples
from pdac_cli.learning.tasks import Task
from pdac_cli.options.select import SelectOptions
from pdac_cli.options.stream import MethodOptions
from pdac_cli.selection.gradients import residuals
from pdac_cli.selection.methods import method_named
from pdac_cli.selection.rows import Reference
from pdac_cli.selection.streams.er import ER
from pdac_cli.selection.streams.interface import StreamingMethod
from pdac_cli.selection.unit import unit_rows

_BLIND = ("uniform",)  # methods that look at no row
_IMPOSSIBLE = -1e9  # logit of a label that no row has


@dataclass
class Silent(Console):
    """Keeps warnings for the end: a run makes the same ones after every task."""

    quiet: bool = True

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.warnings.append(text)


class SpeakingMemory(Memory, Protocol):
    """A memory, with the warnings made on its way."""

    console: Silent


@dataclass
class Kept:
    """What all buffers share: the samples, the folder, and the numbers of rows in the data."""

    samples: Samples
    folder: SeedFolder
    shared: Callable[[Any], Any]  # the first process's value in all of them
    first: bool  # whether this process writes

    def fingerprint(self, task: Task) -> str:
        """Return what identifies a task's rows: the data and which of its rows they are."""
        rows = self.samples.origin.rows[task.train]
        digest = hashlib.blake2b(self.samples.origin.fingerprint.encode(), digest_size=16)
        digest.update(np.ascontiguousarray(rows, "<i8").tobytes())
        return digest.hexdigest()

    def places(self, rows: Array) -> Array:
        """Return the positions among the training samples of rows of the data: (m,) -> (m,)."""
        return np.searchsorted(self.samples.origin.rows, rows)

    def labels(self, rows: Array) -> Array:
        """Return the labels of training samples: (m,) -> (m,)."""
        labels: Array = self.samples.labels[self.samples.y.cpu().numpy()[rows]]
        return labels

    def by_label(self, rows: Array, outputs: Outputs) -> tuple[Array, Array]:
        """Return features and logits of training samples, a column for every label: (m,) -> (m, D), (m, K)."""
        h, found = outputs(rows)
        logits = np.full((len(h), int(self.samples.labels[-1]) + 1), _IMPOSSIBLE, np.float32)
        logits[:, self.samples.labels] = found
        return h, logits


@dataclass
class ChosenMemory(Kept):
    """The paper's Algorithm 1: rows are chosen after each task, and earlier tasks give up some."""

    options: SelectOptions
    rescore: bool
    console: Silent = field(default_factory=Silent)
    index: Index | None = None
    streams: bool = False
    method: StreamingMethod = ER
    settings: MethodOptions = field(default_factory=MethodOptions)
    _stored: Stored = NOTHING

    def stored(self) -> Stored:
        """Return the training rows to replay from, in the data's order, whatever the order they were chosen in."""
        return self._stored

    def offer(self, task: Task, rows: Array, h: Array | None, score: Array | None, outputs: Outputs) -> None:
        """Take no notice: rows are chosen after the task."""

    def end_task(self, task: Task, outputs: Outputs) -> None:
        """Choose rows of the task and shrink the earlier ones."""
        method = method_named(self.options.method)
        source = self._source(task, outputs)
        options, before = self.options, self.index
        if self.rescore and method.needs_density:
            if self.first:
                self._fit(source, task.number)
            before = self._rescored(outputs)
            options = replace(options, model=self.folder.model(task.number) if self.first else None)
        reference = self._reference(outputs) if method.uses_stored and self.index is not None else None
        # The others would choose the same; but for a network whose last bits differ from machine to machine.
        chosen = choose(source, before, options, self.console, reference).index if self.first else None
        self._set(self.shared(chosen))
        if self.first and self.index is not None:
            write_index(self.index, self.folder.buffer(task.number), force=True)

    def state(self) -> dict[str, Array]:
        """Return nothing: the buffer after the last task is a file."""
        return {}

    def restore(self, tasks_done: int, state: dict[str, Array]) -> None:  # noqa: ARG002
        """Go back to the buffer after a task."""
        self._set(read_index(self.folder.buffer(tasks_done)) if tasks_done else None)

    def _set(self, index: Index | None) -> None:
        self.index = index
        self._stored = NOTHING if index is None else Stored.of(self.places(index.row), index.task)

    def _source(self, task: Task, outputs: Outputs) -> TaskSource:
        """Return the task's rows with what the network makes of them."""
        if self.options.method in _BLIND:
            h, logits = np.zeros((len(task.train), 1), np.float32), np.zeros((len(task.train), 1), np.float32)
        else:
            h, logits = self.by_label(task.train, outputs)
        origin = self.samples.origin
        return TaskSource(
            origin.rows[task.train], h, self.labels(task.train), logits, origin.total, self.fingerprint(task),
            origin.files, self.samples.label_names,
        )  # fmt: skip

    def _reference(self, outputs: Outputs) -> Reference:
        """Return the stored rows as the network has them now, for the methods that compare new rows with them."""
        h, logits = self.by_label(self._stored.rows, outputs)
        return Reference(h.astype(np.float64), residuals(logits, self.labels(self._stored.rows)))

    def _fit(self, source: TaskSource, task: int) -> None:
        """Fit and store the densities of the task's classes."""
        plan = make_plan(source, self.options.input, self.options.run)
        classes = count_classes(source, plan, self.options.input)
        rows = measured_rows(source, self.options.density.normalize)
        with grouped_rows(rows, classes, plan, self.console) as stored:
            device = device_of(self.options.run)
            model = fit_model(stored, self.options.density, self.options.seed, plan, device, self.console)
        made = StoredModel(
            model, source.fingerprint, source.label_names, asdict(self.options.density), self.options.seed
        )
        write_model(made, self.folder.model(task), force=True)

    def _rescored(self, outputs: Outputs) -> Index | None:
        """Return the buffer with its densities as the current network and each task's stored model have them."""
        if self.index is None or not self.first:
            return self.index
        log_p = self.index.log_density.copy()
        for task in np.unique(self.index.task).tolist():
            model = read_model(self.folder.model(task)).model
            scorer = Scorer.of(model)
            for c, label in enumerate(model.labels.tolist()):
                members = np.flatnonzero((self.index.task == task) & (self.index.label == label))
                if len(members):
                    h, _ = outputs(np.searchsorted(self.samples.origin.rows, self.index.row[members]))
                    h = unit_rows(h) if self.options.density.normalize else h
                    log_p[members] = scorer.log_conditional(h, c) + model.log_prior[c]
        return replace(self.index, log_density=log_p)


@dataclass
class NoMemory:
    """A budget of 0: plain fine-tuning."""

    console: Silent = field(default_factory=Silent)
    streams: bool = False
    method: StreamingMethod = ER
    settings: MethodOptions = field(default_factory=MethodOptions)

    def stored(self) -> Stored:
        """Return no rows."""
        return NOTHING

    def offer(self, task: Task, rows: Array, h: Array | None, score: Array | None, outputs: Outputs) -> None:
        """Take no notice."""

    def end_task(self, task: Task, outputs: Outputs) -> None:
        """Keep nothing."""

    def state(self) -> dict[str, Array]:
        """Return nothing."""
        return {}

    def restore(self, tasks_done: int, state: dict[str, Array]) -> None:
        """Do nothing."""

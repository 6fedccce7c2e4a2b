"""The replay buffer of a continual run, chosen after each task; or none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.commands.train_cl.probe import EPOCHS, margins, probe
from pdac_cli.console import Silent
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.density.model import Scorer
from pdac_cli.engine.plan import Plan, count_classes
from pdac_cli.engine.sources import MemorySource
from pdac_cli.files.index.index_file import Index, read_index, write_index
from pdac_cli.files.results.model import StoredModel, read_model, write_model
from pdac_cli.files.results.runs import SeedFolder, write_json
from pdac_cli.learning.data.samples import Samples
from pdac_cli.learning.data.tasks import Task
from pdac_cli.learning.memory import NOTHING, Memory, Stored
from pdac_cli.options.methods import MethodOptions
from pdac_cli.options.select import SelectOptions
from pdac_cli.pipeline.fitting import DensitySetup, device_of, fit_source
from pdac_cli.pipeline.selecting import choose
from pdac_cli.selection.gradients import residuals
from pdac_cli.selection.interface import Method, Reference
from pdac_cli.selection.streams.er import ER
from pdac_cli.selection.streams.interface import Look, StreamingMethod

_IMPOSSIBLE = -1e9  # logit of a label that no row has


class MemoryWithWarnings(Memory, Protocol):
    """A memory, with the warnings made on its way."""

    console: Silent


@dataclass
class RunMemory:
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

    def by_label(self, rows: Array, outputs: Look) -> tuple[Array, Array]:
        """Return features and logits of training samples, a column for every label: (m,) -> (m, D), (m, K)."""
        h, found = outputs(rows)
        logits = np.full((len(h), int(self.samples.labels[-1]) + 1), _IMPOSSIBLE, np.float32)
        logits[:, self.samples.labels] = found
        return h, logits


@dataclass
class ChosenMemory(RunMemory):
    """The paper's Algorithm 1: rows are chosen after each task, and earlier tasks give up some."""

    options: SelectOptions
    selection: Method
    plan: Plan
    rescore: bool
    of_inputs: bool = False  # methods that are defined on raw inputs, too, get these
    probing: bool = False
    console: Silent = field(default_factory=Silent)
    index: Index | None = None
    streams: bool = False
    method: StreamingMethod = ER
    settings: MethodOptions = field(default_factory=MethodOptions)
    _stored: Stored = NOTHING

    def stored(self) -> Stored:
        """Return the training rows to replay from, in the data's order, whatever the order they were chosen in."""
        return self._stored

    def feeds(self, epoch: int) -> bool:  # noqa: ARG002
        """Return that no batch is offered."""
        return False

    def offer(self, task: Task, epoch: int, rows: Array, h: Array | None, score: Array | None, outputs: Look) -> None:
        """Take no notice: rows are chosen after the task."""

    def end_epoch(self, task: Task, epoch: int, outputs: Look) -> None:
        """Look how densities and margins go together, where that is asked for."""
        if self.probing and epoch in EPOCHS:
            source, logits = self._source(task, outputs, looking=True), outputs(task.train)[1]
            found = margins(logits, self.samples.y.cpu().numpy()[task.train])
            rows = probe(task.number, epoch, source, found, self.options, self.plan)
            if self.first:
                write_json(self.folder.probe(task.number, epoch), {"probes": rows})

    def end_task(self, task: Task, outputs: Look) -> None:
        """Choose rows of the task and shrink the earlier ones."""
        source = self._source(task, outputs, self.selection.looks_at_rows)
        options, before = self.options, self.index
        if self.rescore and self.selection.needs_density:
            if self.first:
                self._fit(source, task.number)
            before = self._rescored(outputs)
            options = replace(options, model=self.folder.model(task.number) if self.first else None)
        reference = self._reference(outputs) if self.selection.uses_stored and self.index is not None else None
        index = None
        if self.first:
            # The others would choose the same; but for a network whose last bits differ from machine to machine.
            index = choose(source, before, options, self.selection, self.plan, self.console, reference).index
        self._set(self.shared(index))
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

    def _source(self, task: Task, outputs: Look, looking: bool) -> MemorySource:
        """Return the task's rows, with what the network makes of them if that is looked at."""
        if looking:
            h, logits = self.by_label(task.train, outputs)
        else:
            h, logits = np.zeros((len(task.train), 1), np.float32), np.zeros((len(task.train), 1), np.float32)
        if self.of_inputs and self.selection.takes_inputs:
            h = self.samples.inputs(task.train)
        origin = self.samples.origin
        return MemorySource(
            h,
            self.labels(task.train),
            logits,
            row_ids=origin.rows[task.train],
            total=origin.total,
            fingerprint=self.fingerprint(task),
            files=origin.files,
            label_names=self.samples.label_names,
        )

    def _reference(self, outputs: Look) -> Reference:
        """Return the stored rows as the network has them now, for the methods that compare new rows with them."""
        h, logits = self.by_label(self._stored.rows, outputs)
        return Reference(h.astype(np.float64), residuals(logits, self.labels(self._stored.rows)))

    def _fit(self, source: MemorySource, task: int) -> None:
        """Fit and store the densities of the task's classes."""
        setup = DensitySetup(self.options.density, self.options.seed, device_of(self.options.run))
        classes = count_classes(source, self.plan, self.options.input)
        model = fit_source(source, classes, setup, self.plan, self.console)
        made = StoredModel(
            model, source.fingerprint, source.label_names, asdict(self.options.density), self.options.seed
        )
        write_model(made, self.folder.model(task), force=True)

    def _rescored(self, outputs: Look) -> Index | None:
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

    def feeds(self, epoch: int) -> bool:  # noqa: ARG002
        """Return that no batch is offered."""
        return False

    def offer(self, task: Task, epoch: int, rows: Array, h: Array | None, score: Array | None, outputs: Look) -> None:
        """Take no notice."""

    def end_epoch(self, task: Task, epoch: int, outputs: Look) -> None:
        """Do nothing."""

    def end_task(self, task: Task, outputs: Look) -> None:
        """Keep nothing."""

    def state(self) -> dict[str, Array]:
        """Return nothing."""
        return {}

    def restore(self, tasks_done: int, state: dict[str, Array]) -> None:
        """Do nothing."""

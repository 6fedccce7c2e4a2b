"""The replay buffer from one task to the next: budgets (12) and eviction (11) of Algorithm 1, its rows read again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdac_cli.arrays import Array, Chunk, Source
from pdac_cli.console import Console
from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.features import open_features
from pdac_cli.files.index.index_file import Index, IndexSource
from pdac_cli.options.select import Allocation, Eviction, SelectOptions
from pdac_cli.options.shared import InputOptions
from pdac_cli.selection.budget import task_budgets
from pdac_cli.selection.eviction import Evict, keep_after_eviction, keep_beginning
from pdac_cli.selection.gradients import residuals
from pdac_cli.selection.interface import Reference

_COLUMNS = ("row", "source", "task", "label", "log_density")


@dataclass(frozen=True)
class ShrunkBuffer:
    """What is left of the earlier tasks, and how many rows the new one may add."""

    task: int  # the new task
    budget: int  # N_{t,t}
    earlier: Index | None  # the rows that stay

    def labels_of(self, labels: Array, names: tuple[str, ...] | None) -> tuple[Array, tuple[str, ...] | None]:
        """Return the new rows' labels (m,) and the label names in the buffer's numbering, which new names extend."""
        known = self.earlier.label_names if self.earlier else None
        if self.earlier is None or (known is None and names is None):
            return labels, names
        if known is None or names is None:
            raise DataError(
                f"the buffer's classes are {'numbers' if known is None else 'names'}, "
                f"this file's are {'numbers' if names is None else 'names'}; expected one kind in all tasks"
            )
        merged = (*known, *(name for name in names if name not in known))
        return np.array([merged.index(names[label]) for label in labels], np.int64), merged


def shrink_buffer(
    before: Index | None, options: SelectOptions, evict: Evict, allocation: Allocation, fingerprint: str, rows: int
) -> ShrunkBuffer:
    """Shrink the earlier tasks to their budgets for the arrival of a task of `rows` rows."""
    task = _next_task(before, options, fingerprint)
    if before is None:
        return ShrunkBuffer(task, min(options.budget, rows), None)
    earlier, stored = np.unique(before.task, return_counts=True)
    *budgets, budget = task_budgets(options.budget, np.append(stored, rows)).tolist()
    stay = []
    # Among the rows it took, the steered draw takes them in the same order: the last ones are given up, Eq. (25).
    steered = evict is Evict.DENSITY and options.eviction is Eviction.STEERED and options.draw.steer > 0
    for t, keep in zip(earlier, budgets, strict=True):
        members = np.flatnonzero(before.task == t)
        if evict is Evict.ORDER or steered:
            kept = keep_beginning(before.label[members], keep, allocation)
        else:
            kept = keep_after_eviction(
                before.row[members],
                before.label[members],
                np.clip(_log_score(before, evict)[members], -1e300, 1e300),  # infinite ones have no difference
                keep,
                rule=options.eviction,
                allocation=allocation,
                seed=options.seed,
                key=(task, int(t)),
            )
        stay.append(members[kept])
    return ShrunkBuffer(task, budget, _take(before, np.concatenate([np.empty(0, np.int64), *stay])))


def shortened(index: Index, budget: int, allocation: Allocation) -> Index:
    """Return a buffer that is to be smaller without a new task: each task keeps the beginning of its list, Eq. (12)."""
    tasks, stored = np.unique(index.task, return_counts=True)
    stay = []
    for task, keep in zip(tasks, task_budgets(budget, stored).tolist(), strict=True):
        members = np.flatnonzero(index.task == task)
        stay.append(members[keep_beginning(index.label[members], keep, allocation)])
    return _take(index, np.concatenate(stay))


def join(earlier: Index, new: Index) -> Index:
    """Return the buffer with a new task's rows after those that stay; settings are those of the newest call."""
    columns: dict[str, Any] = {name: np.concatenate([getattr(earlier, name), getattr(new, name)]) for name in _COLUMNS}
    columns["source"][len(earlier.row) :] += len(earlier.sources)
    if earlier.score is not None or new.score is not None:
        columns["score"] = np.concatenate([_scores(earlier), _scores(new)])
    if earlier.ids is not None or new.ids is not None:
        columns["ids"] = (*_ids(earlier), *_ids(new))
    return replace(new, sources=(*earlier.sources, *new.sources), **columns)


def stored_rows(
    source: Source, n_logits: int, before: Index, options: SelectOptions, console: Console
) -> Reference | None:
    """Return the stored rows, read again from their files, with what their logits leave unexplained.

    None, with a warning, where that cannot be had.
    """
    left_out = f"--method {options.method} goes on without comparing new rows with the stored ones"
    if source.logit_labels is not None:
        console.warn(f"a head trained on this file knows nothing of the stored rows' classes; {left_out}")
        return None
    found: list[tuple[Array, Array]] = []
    for k, earlier in enumerate(before.sources):
        try:
            chunk = _read(earlier, before.row[before.source == k], options.input)
        except DataError as problem:
            console.warn(f"the stored rows cannot be read ({problem}); {left_out}")
            return None
        if chunk.logits is None or chunk.h.shape[1] != source.n_features or chunk.logits.shape[1] != n_logits:
            console.warn(f"{', '.join(earlier.files)}: its features or logits are of another width; {left_out}")
            return None
        found.append((chunk.h.astype(np.float64), residuals(chunk.logits, chunk.y)))
    h, e = (np.concatenate(part) for part in zip(*found, strict=True))
    return Reference(h, e)


def _read(source: IndexSource, rows: Array, options: InputOptions) -> Chunk:
    with open_features(replace(options, paths=source.files)) as files:
        if files.fingerprint != source.fingerprint:
            raise DataError(f"{', '.join(source.files)}: is not the file it was, by its fingerprint")
        return files.read_rows(rows, logits=True)


def _scores(index: Index) -> Array:
    return np.full(len(index.row), np.nan) if index.score is None else index.score


def _ids(index: Index) -> tuple[str, ...]:
    return ("",) * len(index.row) if index.ids is None else index.ids


def _take(index: Index, positions: Array) -> Index:
    columns: dict[str, Any] = {name: getattr(index, name)[positions] for name in _COLUMNS}
    columns["score"] = None if index.score is None else index.score[positions]
    columns["ids"] = None if index.ids is None else tuple(index.ids[k] for k in positions.tolist())
    return replace(index, **columns)


def _log_score(before: Index, evict: Evict) -> Array:
    """Return what takes the place of log p̂ in Eq. (11), NaN where rows are given up at random: (m,)."""
    if evict is Evict.DENSITY and before.score is None:
        return before.log_density
    if evict is Evict.RANDOM or before.score is None:
        return np.full(len(before.row), np.nan)
    with np.errstate(divide="ignore"):
        return np.log(before.score)


def _next_task(before: Index | None, options: SelectOptions, fingerprint: str) -> int:
    """Return the new task's number; refuse one that the buffer has, or a file it has."""
    if before is None:
        return options.task or 1
    path = options.buffer or Path()
    known = {source.task: source for source in before.sources}
    task = options.task or max(known) + 1
    if task in known and known[task].fingerprint != fingerprint:
        raise DataError(
            f"{path}: its task {task} comes from another feature file ({', '.join(known[task].files)}, "
            f"fingerprint {known[task].fingerprint[:12]}, this one has {fingerprint[:12]}); "
            f"expected a new task; use --task {max(known) + 1} or the buffer from before task {task}"
        )
    for source in before.sources:
        if source.fingerprint == fingerprint:
            raise UsageError(
                f"{path}: has this feature file already, as task {source.task}; expected a new file; "
                f"use the buffer from before task {source.task}"
            )
    return task

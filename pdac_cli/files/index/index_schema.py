"""The content of an index or buffer file: which rows of which feature sets are kept, and what makes that sound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FORMAT, VERSION = "pdac-index", 1
MEANING = "these rows are kept"
INTEGER_COLUMNS = ("source", "row", "task", "label")

Option = str | int | float | bool | None


@dataclass(frozen=True)
class IndexSource:
    """A feature set that rows were kept of."""

    fingerprint: str
    files: tuple[str, ...]
    rows: int  # how many it has
    task: int


@dataclass(frozen=True, eq=False)
class SuspectRows:
    """Rows of the newest source, kept or not, whose label is more likely wrong than right."""

    row: NDArray[np.int64]  # (s,) ascending
    likely: NDArray[np.int64]  # (s,) the label they look like
    share: float  # of all labels, estimated to be wrong


@dataclass(frozen=True, eq=False)
class Index:
    """The m rows that are kept, in ranking order."""

    row: NDArray[np.int64]  # (m,) in its source
    source: NDArray[np.int64]  # (m,) position in sources
    task: NDArray[np.int64]  # (m,) that of its source
    label: NDArray[np.int64]  # (m,)
    log_density: NDArray[np.float64]  # (m,), NaN where the method has none
    sources: tuple[IndexSource, ...]
    method: str
    budget: int
    seed: int
    options: Mapping[str, Option]
    label_names: tuple[str, ...] | None = None
    score: NDArray[np.float64] | None = None  # (m,) the method's own, NaN for rows without one; None: no row has one
    suspects: SuspectRows | None = None  # where labels were judged
    ids: tuple[str, ...] | None = None  # (m,) what the rows are called in their files; "" for one without a name

    @property
    def class_counts(self) -> dict[int, int]:
        """How many rows of each class are kept, by ascending class."""
        classes, counts = np.unique(self.label, return_counts=True)
        return dict(zip(classes.tolist(), counts.tolist(), strict=True))


def find_problem(index: Index) -> str | None:
    """What is impossible about the index, as ``field found; expected``; None if it is sound."""
    lengths = {name: len(getattr(index, name)) for name in (*INTEGER_COLUMNS, "log_density")}
    for name in ("score", "ids"):
        if getattr(index, name) is not None:
            lengths[name] = len(getattr(index, name))
    if len(set(lengths.values())) > 1:
        return f"columns have different lengths {lengths}; expected one value per kept row in each"
    if not index.sources:
        return "'sources' is empty; expected at least one feature set"
    for k, source in enumerate(index.sources):
        if source.rows < 1 or source.task < 0 or not source.fingerprint:
            return (
                f"source {k} has {source.rows} rows, task {source.task}; expected at least 1 and 0, and a fingerprint"
            )
    if index.budget < 0 or index.seed < 0:
        return f"'budget' is {index.budget}, 'seed' is {index.seed}; expected 0 or more"
    return _find_bad_row(index) or (_find_bad_suspect(index, index.suspects) if index.suspects else None)


def _find_bad_suspect(index: Index, suspects: SuspectRows) -> str | None:
    """What is impossible about the suspect rows."""
    rows = index.sources[-1].rows
    sound = len(suspects.row) == len(suspects.likely) and (suspects.row >= 0).all() and (suspects.row < rows).all()
    if not sound or (np.diff(suspects.row) <= 0).any() or (suspects.likely < 0).any() or not 0 <= suspects.share <= 1:
        return f"'suspects' are not rows of the last source; expected rows from 0 to {rows - 1:,}, ascending"
    return None


def _find_bad_row(index: Index) -> str | None:
    """The first kept row that cannot be."""
    k = _first((index.source < 0) | (index.source >= len(index.sources)))
    if k is not None:
        return f"'source' of kept row {k:,} is {index.source[k]}; expected 0 to {len(index.sources) - 1}"
    rows = np.array([source.rows for source in index.sources], np.int64)[index.source]
    k = _first((index.row < 0) | (index.row >= rows))
    if k is not None:
        return f"'row' of kept row {k:,} is {index.row[k]:,}; expected 0 to {rows[k] - 1:,}, the last row of its source"
    k = first_repeat(index.source, index.row)
    if k is not None:
        return f"row {index.row[k]:,} of source {index.source[k]} is listed twice; expected each row once"
    tasks = np.array([source.task for source in index.sources], np.int64)[index.source]
    k = _first(index.task != tasks)
    if k is not None:
        return f"'task' of kept row {k:,} is {index.task[k]}; expected {tasks[k]}, the task of its source"
    last = 2**63 - 1 if index.label_names is None else len(index.label_names) - 1
    k = _first((index.label < 0) | (index.label > last))
    if k is not None:
        limit = "" if index.label_names is None else f" and at most {last}, for so many classes have names"
        return f"'label' of kept row {k:,} is {index.label[k]}; expected 0 or more{limit}"
    return None


def first_repeat(*columns: NDArray[np.int64]) -> int | None:
    """Position of the first entry that repeats an earlier one in all columns (m,); None if all are distinct."""
    order = np.lexsort((np.arange(len(columns[0])), *columns))  # equal entries side by side, earlier ones first
    same = np.ones(max(0, len(order) - 1), bool)
    for column in columns:
        same &= column[order][1:] == column[order][:-1]
    repeats = order[1:][same]
    return int(repeats.min()) if len(repeats) else None


def _first(bad: NDArray[np.bool_]) -> int | None:
    return int(np.argmax(bad)) if bad.any() else None

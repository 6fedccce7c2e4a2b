"""Classes in an order, cut into tasks; imbalanced tasks; rows held out for testing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.errors import DataError, UsageError
from pdac_cli.rng import Purpose, generator

NATURAL, RANDOM = "natural", "random"
_MOST_TASKS = 5  # when their number is not given


@dataclass(frozen=True)
class Task:
    """One task: its classes in order, and which rows of the training and test samples are theirs."""

    number: int  # from 1
    classes: Array  # (C_t,) positions among the sorted labels
    train: Array  # (n_t,) ascending
    test: Array  # (m_t,) ascending


def order_classes(labels: Array, text: str, seed: int) -> Array:
    """Return the classes as positions among the sorted `labels` (C,), in the order asked for: (C,)."""
    if text == NATURAL:
        return np.arange(len(labels))
    if text == RANDOM:
        return generator(seed, Purpose.CLASS_ORDER).permutation(len(labels))
    try:
        listed = [int(item) for item in text.split(",")]
    except ValueError:
        raise UsageError(f"--class-order is {text!r}; expected natural, random or labels such as 3,1,4") from None
    if sorted(listed) != labels.tolist():
        raise UsageError(
            f"--class-order lists {len(listed):,} labels; expected each of the {len(labels):,} of the data once"
        )
    return np.searchsorted(labels, listed)


def split_tasks(
    y_train: Array, y_test: Array, order: Array, count: int | None, imbalance: float | None, seed: int
) -> list[Task]:
    """Cut the classes into `count` tasks as even as can be: y (n,) are positions, order (C,) is a permutation.

    Imbalanced, class i (from 0) of a task keeps n·ρ^(i/(C_t−1)) of its n training rows, at least one.
    """
    count = count or min(_MOST_TASKS, max(1, len(order) // 2))
    if count > len(order):
        raise UsageError(f"--tasks is {count} and there are {len(order)} classes; expected a class per task at least")
    missing = np.setdiff1d(order, y_test)
    if len(missing):
        raise DataError(f"{len(missing):,} of {len(order):,} classes have no test rows; expected one each; see --test")
    tasks = []
    for number, classes in enumerate(np.array_split(order, count), 1):
        rows = [np.flatnonzero(y_train == c) for c in classes]
        if imbalance is not None:
            kept = imbalanced_counts([len(part) for part in rows], imbalance)
            rows = [_draw(part, keep, seed, int(c)) for part, keep, c in zip(rows, kept, classes, strict=True)]
        test = np.flatnonzero(np.isin(y_test, classes))
        tasks.append(Task(number, classes, np.sort(np.concatenate(rows)), test))
    return tasks


def imbalanced_counts(counts: list[int], ratio: float) -> list[int]:
    """Return n·ρ^(i/(C−1)) of each class's n rows, rounded down, at least one of any there are."""
    steps = max(1, len(counts) - 1)
    # The small number keeps what is whole but for rounding whole: 100 × 0.05 is 5.
    return [min(n, max(1, int(n * ratio ** (i / steps) + 1e-9))) for i, n in enumerate(counts)]


def hold_out(y: Array, share: float, seed: int) -> Array:
    """Return which rows are for testing, a share of every class and at least one: y (n,) -> (n,) of bool."""
    out = np.zeros(len(y), bool)
    for c in np.unique(y):
        rows = np.flatnonzero(y == c)
        if len(rows) < 2:
            raise DataError(f"class {c} has one row; expected two or more, to train and to test; give --test")
        out[generator(seed, Purpose.HOLD_OUT, int(c)).permutation(rows)[: max(1, round(share * len(rows)))]] = True
    return out


def _draw(rows: Array, keep: int, seed: int, label: int) -> Array:
    return generator(seed, Purpose.IMBALANCE, label).permutation(rows)[:keep]

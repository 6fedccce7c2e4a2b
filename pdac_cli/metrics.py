"""Measures of a continual run, the difference of two methods over seeds, and whether test rows can measure anything."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.errors import DataError


def average_accuracy(accuracy: Array) -> float:
    """Return ACC = (1/T) Σ_t A_{T,t}, Eq. (20): accuracy (T, T), row t after task t."""
    return float(np.mean(accuracy[-1]))


def forgetting(accuracy: Array) -> float | None:
    """Return FM = (1/(T−1)) Σ_{i<T} max_{j<T} (A_{j,i} − A_{T,i}), Eq. (21); None of a single task.

    accuracy (T, T) has NaN above its diagonal: a task is tested from when it has been learned.
    """
    if len(accuracy) == 1:
        return None
    best = np.nanmax(accuracy[:-1, :-1], axis=0)  # (T − 1,)
    return float(np.mean(best - accuracy[-1, :-1]))


def learned(acc: float, fm: float | None, tasks: int) -> float | None:
    """Return S = FM + T/(T−1) · ACC: what was learnt, whatever was forgotten since; None of a single task."""
    return None if fm is None or tasks < 2 else fm + tasks / (tasks - 1) * acc


@dataclass(frozen=True)
class Difference:
    """A mean, as a rule of paired differences, and its confidence interval; None where there are too few for one."""

    pairs: int
    mean: float
    low: float | None
    high: float | None


def paired_difference(first: Array, second: Array, confidence: float = 0.95) -> Difference:
    """Return the mean of first − second over pairs, (n,) each, with Student's t interval."""
    return mean_interval(np.asarray(first, float) - np.asarray(second, float), confidence)


def mean_interval(values: Array, confidence: float = 0.95) -> Difference:
    """Return the mean of independent values (n,) with Student's t interval."""
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Difference(n, mean, None, None)
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, (1 + confidence) / 2) * np.std(values, ddof=1) / np.sqrt(n))
    return Difference(n, mean, mean - half, mean + half)


def check_test_classes(train: Array, test: Array, where: str) -> str:
    """Refuse test rows that lack classes of the training rows; labels (C,), (K,), ascending.

    Returns what to warn of, empty: nothing.  Rows of classes that are not learned are to be left out of the test.
    """
    missing, unknown = np.setdiff1d(train, test), np.setdiff1d(test, train)
    if len(missing):
        shift = int(test[0] - train[0]) if len(test) == len(train) else 0
        shifted = shift != 0 and np.array_equal(test, train + shift)
        hint = f"they look like the same labels counted from {test[0]}, not {train[0]}; " if shifted else ""
        raise DataError(
            f"{where}: has no test rows of {len(missing):,} of the {len(train):,} classes ({_listed(missing)}); "
            f"expected some of each; {hint}test on rows with the labels of the training rows"
        )
    if len(unknown):
        return f"{where}: rows of {_listed(unknown)} are left out of the test; the training rows have no such class"
    return ""


def _listed(labels: Array) -> str:
    more = f" and {len(labels) - 4:,} more" if len(labels) > 4 else ""
    return f"{'class' if len(labels) == 1 else 'classes'} {', '.join(map(str, labels[:4].tolist()))}{more}"

"""The results of continual runs: per seed, over seeds, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdac_cli.console import Console, printable, size_text
from pdac_cli.learning.progress import STAGES, RunProgress
from pdac_cli.metrics import average_accuracy, forgetting, learned, paired_difference
from pdac_cli.reports.table import Table, spread

if TYPE_CHECKING:  # they load torch, which a finished run is shown without
    from pdac_cli.learning.data.samples import Samples
    from pdac_cli.learning.data.tasks import Task

MEASURES = ("acc", "fm", "s")
_MOST_TASKS = 12  # shown of a matrix


@dataclass(frozen=True)
class SeedResult:
    """One method with one seed; accuracies are shares of 1, and S with them."""

    method: str
    seed: int
    acc: float
    fm: float | None
    accuracy: list[list[float]]  # A_{t,j}, j ≤ t
    losses: list[list[float]]  # mean loss of each epoch, by task
    classes: list[list[int]]  # labels, by task
    train_rows: list[int]  # by task
    seconds: dict[str, float]  # by stage
    warnings: list[str]
    bytes_kept: int | None = None  # from task to task: buffer, matrices, network or head; None: not counted then

    @property
    def average_acc(self) -> float:
        """The mean over t of the accuracy after task t on the tasks so far."""
        return float(np.mean([np.mean(row) for row in self.accuracy]))

    @property
    def s(self) -> float | None:
        """S = FM + T/(T−1) · ACC, what was learnt; None of a single task."""
        return learned(self.acc, self.fm, len(self.accuracy))

    def line(self) -> str:
        """Return it for people, in one line."""
        fm = "" if self.fm is None else f", FM {100 * self.fm:.2f}"
        s = "" if self.s is None else f", S {100 * self.s:.2f}"
        took = f"{sum(self.seconds.values()):.1f} s"
        return f"{self.method}, seed {self.seed}: ACC {100 * self.acc:.2f}{fm}{s} ({took})"

    def csv(self) -> str:
        """Return the accuracy matrix: one line per task learned, one column per task tested."""
        count = len(self.accuracy)
        rows = [[t, *row, *[None] * (count - len(row))] for t, row in enumerate(self.accuracy, 1)]
        return Table.of(["after_task", *(f"task_{j}" for j in range(1, count + 1))], rows).csv()


@dataclass(frozen=True)
class MethodResult:
    """One method over its seeds, in hundredths."""

    method: str
    seeds: list[int]
    acc: list[float]
    fm: list[float] | None
    s: list[float] | None  # FM + T/(T−1) · ACC
    average_acc: list[float]
    bytes_kept: int | None
    matrix: list[list[float]]  # mean of A_{t,j}
    seconds: dict[str, float]  # mean per seed


@dataclass(frozen=True)
class TrainSummary:
    """The results of a run."""

    output: str
    methods: list[MethodResult]
    reference: str | None  # the method that the others are compared with
    differences: list[dict[str, Any]]  # of each other method to it, over seeds
    warnings: list[str]

    def text(self) -> str:
        """Return the summary for people."""
        parts = [matrix_table(found) for found in self.methods]
        parts.append(methods_table(self.methods))
        parts += [difference_text(found) for found in self.differences]
        return "\n".join([*parts, f"results in {printable(self.output)}"])


def seed_result(
    method: str,
    seed: int,
    tasks: Sequence[Task],
    samples: Samples,
    progress: RunProgress,
    warnings: list[str],
    bytes_kept: int,
) -> SeedResult:
    """Return the results of a finished seed, Eqs. (20) and (21)."""
    matrix = progress.matrix()
    return SeedResult(
        method,
        seed,
        average_accuracy(matrix),
        forgetting(matrix),
        progress.accuracy,
        progress.losses,
        [samples.labels[task.classes].tolist() for task in tasks],
        [len(task.train) for task in tasks],
        {name: round(value, 4) for name, value in progress.seconds.items()},
        warnings,
        bytes_kept,
    )


def results_of(results: Sequence[SeedResult], config: dict[str, Any], reference: str | None = None) -> dict[str, Any]:
    """Return the content of results.json."""
    methods = by_method(results)
    return {
        "config": config,
        "summary": [asdict(method) for method in methods],
        "reference": reference,
        "differences": differences_of(methods, reference),
        "results": [{**asdict(result), "s": result.s, "average_acc": result.average_acc} for result in results],
    }


def table_of(results: Sequence[SeedResult]) -> str:
    """Return the content of results.csv: one line per method and seed."""
    columns = [
        "method",
        "seed",
        "acc",
        "fm",
        "s",
        "average_acc",
        "bytes_kept",
        *(f"{stage}_seconds" for stage in STAGES),
    ]
    rows = [
        [
            found.method,
            found.seed,
            found.acc,
            found.fm,
            found.s,
            found.average_acc,
            found.bytes_kept,
            *(found.seconds.get(stage, 0.0) for stage in STAGES),
        ]
        for found in results
    ]
    return Table.of(columns, rows).csv()


def by_method(results: Sequence[SeedResult]) -> list[MethodResult]:
    """Gather the seeds of each method, in order."""
    found = []
    for method in dict.fromkeys(result.method for result in results):
        mine = [result for result in results if result.method == method]
        fms = [100 * result.fm for result in mine if result.fm is not None]
        matrices = [RunProgress(accuracy=result.accuracy).matrix() for result in mine]
        seconds = {stage: float(np.mean([result.seconds.get(stage, 0.0) for result in mine])) for stage in STAGES}
        found.append(
            MethodResult(
                method,
                [result.seed for result in mine],
                [100 * result.acc for result in mine],
                fms or None,
                [100 * result.s for result in mine if result.s is not None] or None,
                [100 * result.average_acc for result in mine],
                max((result.bytes_kept for result in mine if result.bytes_kept is not None), default=None),
                [row[: t + 1] for t, row in enumerate((100 * np.mean(matrices, axis=0)).tolist())],
                seconds,
            )
        )
    return found


def summary_of(
    path: Path, results: Sequence[SeedResult], console: Console, reference: str | None = None
) -> TrainSummary:
    """Return the summary; warnings that every task repeats are made once."""
    methods = by_method(results)
    warnings = [text for result in results for text in result.warnings]
    if warnings:
        more = f" (and {len(warnings) - 1:,} more from other tasks, in results.json)" if len(warnings) > 1 else ""
        console.warn(warnings[0] + more)
    return TrainSummary(str(path), methods, reference, differences_of(methods, reference), console.warnings)


def differences_of(methods: Sequence[MethodResult], reference: str | None) -> list[dict[str, Any]]:
    """Compare each method with the reference on the seeds they share."""
    other = next((method for method in methods if method.method == reference), None)
    return [] if other is None else [difference_of(method, other) for method in methods if method is not other]


def difference_of(one: MethodResult, other: MethodResult) -> dict[str, Any]:
    """Return the paired differences of ACC, FM and S over the seeds that both have."""
    shared = [seed for seed in one.seeds if seed in other.seeds]
    out: dict[str, Any] = {"method": one.method, "against": other.method, "seeds": shared}
    for name in MEASURES:
        first, second = getattr(one, name), getattr(other, name)
        if shared and first is not None and second is not None:
            pick = [[values[found.seeds.index(seed)] for seed in shared] for found, values in
                    ((one, first), (other, second))]  # fmt: skip
            out[name] = asdict(paired_difference(np.array(pick[0]), np.array(pick[1])))
    return out


def difference_text(found: dict[str, Any]) -> str:
    """Return a comparison for people."""
    parts = []
    for name in MEASURES:
        if name in found:
            mean, low, high = (found[name][key] for key in ("mean", "low", "high"))
            interval = "" if low is None else f" (95 % interval {low:+.2f} to {high:+.2f})"
            parts.append(f"{name.upper()} {mean:+.2f}{interval}")
    seeds = len(found["seeds"])
    pairs = f"{seeds} paired seed{'' if seeds == 1 else 's'}"
    text = f"{found['method']} minus {found['against']}, {pairs}: {', '.join(parts) or 'no seed in common'}"
    return printable(text)


def matrix_table(found: MethodResult) -> str:
    """Return the mean accuracy matrix."""
    count = min(len(found.matrix), _MOST_TASKS)
    more = f", the first {count} tasks" if count < len(found.matrix) else ""
    rows = [
        [t, *(f"{value:.1f}" for value in row), *[""] * (count - len(row))]
        for t, row in enumerate(found.matrix[:count], 1)
    ]
    columns = ["after task", *(f"on {j + 1}" for j in range(count))]
    return Table.of(columns, rows, f"accuracy of {found.method} in %, mean over seeds{more}").text(ruled=True)


def methods_table(methods: Sequence[MethodResult]) -> str:
    """Return mean ± standard deviation over seeds, and the mean seconds of each stage."""
    stages = [stage for stage in STAGES if any(found.seconds[stage] for found in methods)]
    rows = []
    for found in methods:
        measures = [
            "" if values is None else spread(values) for values in (found.acc, found.average_acc, found.fm, found.s)
        ]
        measures.append("" if found.bytes_kept is None else size_text(found.bytes_kept))
        times = [*(found.seconds[stage] for stage in stages), sum(found.seconds.values())]
        rows.append([found.method, len(found.seeds), *measures, *(f"{each:.2f}" for each in times)])
    columns = ["method", "seeds", "ACC", "average ACC", "FM", "S", "kept", *stages, "in all"]
    title = "mean ± standard deviation over seeds; seconds per seed"
    return Table.of(columns, rows, title, left=["method"]).text(ruled=True)

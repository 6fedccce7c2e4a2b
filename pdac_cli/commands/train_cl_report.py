"""What continual runs came to: per seed, over seeds, for people and for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console as RichConsole
from rich.table import Table

from pdac_cli.console import Console
from pdac_cli.density.blocks import Array
from pdac_cli.learning.metrics import average_accuracy, forgetting, paired_difference
from pdac_cli.learning.progress import STAGES, Progress
from pdac_cli.learning.samples import Samples
from pdac_cli.learning.tasks import Task

_WIDTH = 120
_MOST_TASKS = 12  # shown of a matrix


@dataclass(frozen=True)
class SeedResult:
    """One method with one seed; accuracies are shares of 1."""

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

    def line(self) -> str:
        """Return it for people, in one line."""
        fm = "" if self.fm is None else f", FM {100 * self.fm:.2f}"
        return f"{self.method}, seed {self.seed}: ACC {100 * self.acc:.2f}{fm} ({sum(self.seconds.values()):.1f} s)"

    def csv(self) -> str:
        """Return the accuracy matrix: one line per task learned, one column per task tested."""
        count = len(self.accuracy)
        rows = [["after_task", *(f"task_{j}" for j in range(1, count + 1))]]
        rows += [[str(t), *map(repr, row), *[""] * (count - len(row))] for t, row in enumerate(self.accuracy, 1)]
        return _csv(rows)


@dataclass(frozen=True)
class MethodResult:
    """One method over its seeds, in hundredths."""

    method: str
    seeds: list[int]
    acc: list[float]
    fm: list[float] | None
    matrix: list[list[float]]  # mean of A_{t,j}
    seconds: dict[str, float]  # mean per seed


@dataclass(frozen=True)
class TrainSummary:
    """What a run came to."""

    output: str
    methods: list[MethodResult]
    differences: list[dict[str, Any]]  # of each other method to the last, over seeds
    warnings: list[str]

    def text(self) -> str:
        """Return the summary for people."""
        parts = [matrix_table(found) for found in self.methods]
        parts.append(methods_table(self.methods))
        parts += [difference_text(found) for found in self.differences]
        return "\n".join([*parts, f"results in {self.output}"])


def seed_result(
    method: str, seed: int, tasks: Sequence[Task], samples: Samples, progress: Progress, warnings: list[str]
) -> SeedResult:
    """Return what a finished seed came to, Eqs. (20) and (21)."""
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
    )


def results_of(results: Sequence[SeedResult], config: dict[str, Any]) -> dict[str, Any]:
    """Return the content of results.json."""
    methods = by_method(results)
    return {
        "config": config,
        "summary": [asdict(method) for method in methods],
        "differences": differences_of(methods),
        "results": [asdict(result) for result in results],
    }


def table_of(results: Sequence[SeedResult]) -> str:
    """Return the content of results.csv: one line per method and seed."""
    rows = [["method", "seed", "acc", "fm", *(f"{stage}_seconds" for stage in STAGES)]]
    for result in results:
        fm = "" if result.fm is None else repr(result.fm)
        times = [repr(result.seconds.get(stage, 0.0)) for stage in STAGES]
        rows.append([result.method, str(result.seed), repr(result.acc), fm, *times])
    return _csv(rows)


def by_method(results: Sequence[SeedResult]) -> list[MethodResult]:
    """Gather the seeds of each method, in order."""
    found = []
    for method in dict.fromkeys(result.method for result in results):
        mine = [result for result in results if result.method == method]
        fms = [100 * result.fm for result in mine if result.fm is not None]
        matrices = [Progress(accuracy=result.accuracy).matrix() for result in mine]
        seconds = {stage: float(np.mean([result.seconds.get(stage, 0.0) for result in mine])) for stage in STAGES}
        found.append(
            MethodResult(
                method,
                [result.seed for result in mine],
                [100 * result.acc for result in mine],
                fms or None,
                [row[: t + 1] for t, row in enumerate((100 * np.mean(matrices, axis=0)).tolist())],
                seconds,
            )
        )
    return found


def summary_of(path: Path, results: Sequence[SeedResult], console: Console) -> TrainSummary:
    """Return the summary; warnings that every task repeats are made once."""
    methods = by_method(results)
    warnings = [text for result in results for text in result.warnings]
    if warnings:
        more = f" (and {len(warnings) - 1:,} more from other tasks, in results.json)" if len(warnings) > 1 else ""
        console.warn(warnings[0] + more)
    return TrainSummary(str(path), methods, differences_of(methods), console.warnings)


def differences_of(methods: Sequence[MethodResult]) -> list[dict[str, Any]]:
    """Compare each method with the last on the seeds they share."""
    return [difference_of(method, methods[-1]) for method in methods[:-1]]


def difference_of(one: MethodResult, other: MethodResult) -> dict[str, Any]:
    """Return the paired differences of ACC and FM over the seeds that both have."""
    shared = [seed for seed in one.seeds if seed in other.seeds]
    out: dict[str, Any] = {"method": one.method, "against": other.method, "seeds": shared}
    for name in ("acc", "fm"):
        first, second = getattr(one, name), getattr(other, name)
        if shared and first is not None and second is not None:
            pick = [[values[found.seeds.index(seed)] for seed in shared] for found, values in
                    ((one, first), (other, second))]  # fmt: skip
            out[name] = asdict(paired_difference(np.array(pick[0]), np.array(pick[1])))
    return out


def difference_text(found: dict[str, Any]) -> str:
    """Return a comparison for people."""
    parts = []
    for name in ("acc", "fm"):
        if name in found:
            mean, low, high = (found[name][key] for key in ("mean", "low", "high"))
            interval = "" if low is None else f" (95 % interval {low:+.2f} to {high:+.2f})"
            parts.append(f"{name.upper()} {mean:+.2f}{interval}")
    seeds = len(found["seeds"])
    pairs = f"{seeds} paired seed{'' if seeds == 1 else 's'}"
    return f"{found['method']} minus {found['against']}, {pairs}: {', '.join(parts) or 'no seed in common'}"


def matrix_table(found: MethodResult) -> str:
    """Return the mean accuracy matrix."""
    count = min(len(found.matrix), _MOST_TASKS)
    more = f", the first {count} tasks" if count < len(found.matrix) else ""
    title = f"accuracy of {found.method} in %, mean over seeds{more}"
    table = Table(box=box.SIMPLE)
    table.add_column("after task", justify="right")
    for j in range(count):
        table.add_column(f"on {j + 1}", justify="right")
    for t, row in enumerate(found.matrix[:count], 1):
        table.add_row(str(t), *(f"{value:.1f}" for value in row), *[""] * (count - len(row)))
    return f"{title}\n{rendered(table)}"


def methods_table(methods: Sequence[MethodResult]) -> str:
    """Return mean ± standard deviation over seeds, and the mean seconds of each stage."""
    table = Table(box=box.SIMPLE)
    stages = [stage for stage in STAGES if any(found.seconds[stage] for found in methods)]
    for name in ("method", "seeds", "ACC", "FM", *stages, "in all"):
        table.add_column(name, justify="left" if name == "method" else "right", no_wrap=True)
    for found in methods:
        fm = "" if found.fm is None else spread(found.fm)
        times = [*(found.seconds[stage] for stage in stages), sum(found.seconds.values())]
        table.add_row(found.method, str(len(found.seeds)), spread(found.acc), fm, *(f"{each:.2f}" for each in times))
    return f"mean ± standard deviation over seeds; seconds per seed\n{rendered(table)}"


def spread(values: Sequence[float] | Array) -> str:
    """Return mean ± standard deviation (n − 1)."""
    mean = float(np.mean(values))
    return f"{mean:.2f}" if len(values) < 2 else f"{mean:.2f} ± {float(np.std(values, ddof=1)):.2f}"


def rendered(table: Table, width: int = _WIDTH) -> str:
    """Return a table as text."""
    stream = io.StringIO()
    RichConsole(file=stream, width=width, force_terminal=False, no_color=True, markup=False, emoji=False).print(table)
    return "\n".join(line.rstrip() for line in stream.getvalue().strip("\n").splitlines())


def _csv(rows: list[list[str]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()

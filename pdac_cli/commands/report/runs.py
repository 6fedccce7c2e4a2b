"""The report of runs of `pdac train-cl`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from pdac_cli.commands.train_cl.compare import compare, stored_run
from pdac_cli.commands.train_cl.report import MEASURES, MethodResult, SeedResult
from pdac_cli.console import Console
from pdac_cli.errors import PdacError
from pdac_cli.files.index.index_file import read_index
from pdac_cli.learning.progress import STAGES
from pdac_cli.metrics import mean_interval
from pdac_cli.reports.charts import Bars, Chart, Choice, Heat, Item, Joined, Report

_INTERVALS = "Mean over seeds, with 95 % intervals where there are two or more."


def runs_report(paths: Sequence[Path], console: Console) -> Report:
    """Draw runs, each method of each beside the others."""
    found = compare([str(path) for path in paths])
    rows = found.methods
    seeds = {path: stored_run(path)[1] for path in paths}
    names = [_short(row.method, paths) for row in rows]
    items: list[Item] = [_matrices(names, rows), _over_tasks(paths, seeds), _measures(names, rows)]
    differing = [one for one in found.differences if one["method"] != one["against"]]
    if differing:
        against = ", ".join(dict.fromkeys(_short(one["against"], paths) for one in differing))
        items.append(_differences(differing, against, paths))
    items += [*_buffers(paths, seeds, console), _times(names, rows)]
    facts = {name: f"ACC {np.mean(row.acc):.2f}, {len(row.seeds)} seeds" for name, row in zip(names, rows, strict=True)}
    title = f"Run {paths[0].name}" if len(paths) == 1 else f"{len(paths)} runs"
    return Report(title, facts, items)


def _short(name: str, paths: Sequence[Path]) -> str:
    """Return a method's name, with its run's where there are several."""
    return name.removeprefix(f"{paths[0].name} ") if len(paths) == 1 else name


def _matrices(names: list[str], rows: Sequence[MethodResult]) -> Choice:
    charts = {}
    for k, (name, row) in enumerate(zip(names, rows, strict=True)):
        tasks = len(row.matrix)
        values = np.full((tasks, tasks), np.nan)
        for t, line in enumerate(row.matrix):
            values[t, : len(line)] = line
        heat = Heat(name, [f"on {j + 1}" for j in range(tasks)], [f"after {t + 1}" for t in range(tasks)], values)
        charts[name] = Chart.single(f"matrix-{k}", "Accuracy matrix", "tested on task", "after task", [heat],
                                    "Accuracy in %, mean over seeds.")  # fmt: skip
    return Choice("Method", charts)


def _over_tasks(paths: Sequence[Path], seeds: dict[Path, list[SeedResult]]) -> Chart:
    lines: list[Joined] = []
    for path, results in seeds.items():
        for method in dict.fromkeys(result.method for result in results):
            mine = [result.accuracy for result in results if result.method == method]
            means = [100 * np.array([np.mean(each[t]) for each in mine]) for t in range(len(mine[0]))]
            found = [mean_interval(values) for values in means]
            low, high = ([getattr(one, end) for one in found] for end in ("low", "high"))
            known = None not in low
            lines.append(Joined(
                _short(f"{path.name} {method}", paths), list(range(1, len(found) + 1)), [one.mean for one in found],
                low if known else None, high if known else None, colour=len(lines),
            ))  # fmt: skip
    return Chart.single(
        "over-tasks", "Accuracy over the tasks", "after task", "% on all tasks so far", lines, _INTERVALS
    )


def _measures(names: list[str], rows: Sequence[MethodResult]) -> Chart:
    bars = []
    for k, measure in enumerate(MEASURES):
        listed = [getattr(row, measure) for row in rows]
        found = [None if values is None else mean_interval(np.array(values)) for values in listed]
        bars.append(Bars(
            measure.upper(), names, [np.nan if one is None else one.mean for one in found],
            [None if one is None else one.low for one in found],
            [None if one is None else one.high for one in found], k,
        ))  # fmt: skip
    return Chart.single("measures", "ACC, FM and S", "", "%", bars, _INTERVALS)


def _differences(differing: Sequence[dict[str, object]], against: str, paths: Sequence[Path]) -> Chart:
    bars = []
    for k, measure in enumerate(MEASURES):
        mine = [(str(one["method"]), one[measure]) for one in differing if isinstance(one.get(measure), dict)]
        ends = {key: [found[key] for _, found in mine] for key in ("mean", "low", "high")}  # type: ignore[index]
        names = [_short(name, paths) for name, _ in mine]
        bars.append(Bars(measure.upper(), names, ends["mean"], ends["low"], ends["high"], k))
    return Chart.single("differences", f"Paired differences to {against}", "", "points", bars,
                        "Over the seeds that both have, with 95 % intervals.")  # fmt: skip


def _buffers(paths: Sequence[Path], seeds: dict[Path, list[SeedResult]], console: Console) -> Iterator[Item]:
    """Yield what the buffer of each method's first seed holds after each task."""
    charts: dict[str, Chart] = {}
    for path, results in seeds.items():
        for method in dict.fromkeys(result.method for result in results):
            result = next(result for result in results if result.method == method)
            counts = []
            with suppress(PdacError):  # a run may have been copied without them
                for task in range(1, len(result.accuracy) + 1):
                    index = read_index(path / result.method / f"seed-{result.seed}" / f"buffer-{task}.json")
                    counts.append(dict(zip(*np.unique(index.task, return_counts=True), strict=True)))
            if not counts:
                console.note(f"note: {path}: has no buffers of {result.method}; they are left out")
                continue
            after = [str(t + 1) for t in range(len(counts))]
            tasks = sorted({int(task) for each in counts for task in each})
            bars = [Bars(f"of task {task}", after, [int(each.get(task, 0)) for each in counts], colour=k)
                    for k, task in enumerate(tasks)]  # fmt: skip
            name = _short(f"{path.name} {result.method}", paths)
            charts[name] = Chart.single(f"buffer-{len(charts)}", "What the buffer holds", "after task", "rows", bars,
                                        "Of the first seed.", stacked=True)  # fmt: skip
    if charts:
        yield Choice("Method", charts)


def _times(names: list[str], rows: Sequence[MethodResult]) -> Chart:
    stages = [stage for stage in STAGES if any(row.seconds.get(stage) for row in rows)]
    bars = [
        Bars(stage, names, [row.seconds.get(stage, 0.0) for row in rows], colour=k) for k, stage in enumerate(stages)
    ]
    return Chart.single("time", "Where the time went", "", "seconds a seed", bars, stacked=True)

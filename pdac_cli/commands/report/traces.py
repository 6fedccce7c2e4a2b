"""The report of streams' traces: turnover, classes and density over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pdac_cli.console import Console
from pdac_cli.files.results.trace import read_trace
from pdac_cli.reports.charts import Chart, Item, Joined, Report

_MOST_CLASSES = 20


def traces_report(paths: Sequence[Path], console: Console) -> Report:  # noqa: ARG001
    """Draw traces, several on the same axes."""
    found = {path.stem if len({one.stem for one in paths}) == len(paths) else str(path): read_trace(path)
             for path in paths}  # fmt: skip
    items: list[Item] = []
    for key, title, column, y in (
        ("turnover", "Turnover", "turnover", "share of the buffer replaced"),
        ("density", "Density of the buffer", "mean_log_density", "mean log-density"),
        ("classes", "Classes in the buffer", "classes_kept", "classes"),
        ("speed", "Speed", "rows_per_second", "rows a second"),
    ):
        lines = [
            Joined(name, columns["rows"], columns[column], colour=k) for k, (name, columns) in enumerate(found.items())
        ]
        items.append(Chart.single(key, title, "rows of the stream", y, lines))
    for name, columns in found.items():
        counts = columns["class_counts"]
        labels = sorted({label for each in counts for label in each})[:_MOST_CLASSES]
        lines = [
            Joined(f"class {label}", columns["rows"], [each.get(label, 0) for each in counts], colour=k)
            for k, label in enumerate(labels)
        ]
        title = "Rows of each class in the buffer" + (f": {name}" if len(found) > 1 else "")
        items.append(Chart.single(f"counts-{len(items)}", title, "rows of the stream", "rows kept", lines))
    facts = {name: f"{len(columns['rows']):,} lines" for name, columns in found.items()}
    return Report("A stream over time", facts, items)

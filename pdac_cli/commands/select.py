"""``pdac select``: feature files to the rows worth keeping."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from pdac_cli.commands.choose import Chosen, choose
from pdac_cli.commands.input import open_input, tell_left_out
from pdac_cli.console import Console, table
from pdac_cli.files.atomic import check_output
from pdac_cli.files.index import format_text, index_suffix, read_index, write_index
from pdac_cli.options.select import SelectOptions
from pdac_cli.selection.methods import method_named


@dataclass(frozen=True)
class ClassLine:
    """One class of the summary."""

    label: int
    name: str | None
    rows: int  # in the data
    kept: int
    effective_size: float | None


@dataclass(frozen=True)
class SelectSummary:
    """What a selection came to."""

    output: str | None
    method: str
    budget: int
    kept: int
    task: int
    tasks: dict[int, int]  # rows kept of each task
    seed: int
    fingerprint: str
    effective_size: float | None  # of π over all rows
    classes: list[ClassLine]
    warnings: list[str]
    indices: list[int] | None  # only where no file was written

    def text(self) -> str:
        """Return the summary for people."""
        head = [f"kept {self.kept:,} of {sum(line.rows for line in self.classes):,} rows by {self.method}"]
        if len(self.tasks) > 1:
            shares = ", ".join(f"task {task}: {rows:,}" for task, rows in self.tasks.items())
            head = [f"kept {self.kept:,} rows by {self.method} ({shares})"]
        sized = any(line.effective_size is not None for line in self.classes)
        rows = [["class", "rows", "kept", *(["effective size"] if sized else [])]]
        for line in self.classes[:20]:
            size = [] if line.effective_size is None else [f"{line.effective_size:,.1f}"]
            rows.append([line.name or str(line.label), f"{line.rows:,}", f"{line.kept:,}", *size])
        tail = [f"  … and {len(self.classes) - 20:,} more classes"] if len(self.classes) > 20 else []
        return "\n".join([*head, table(rows), *tail])


def run(options: SelectOptions) -> SelectSummary:
    """Choose rows, Algorithm 1; write or print them."""
    console = Console.of(options.run)
    method_named(options.method)
    if options.output:
        index_suffix(options.output)
    before = read_index(options.buffer) if options.buffer else None
    with open_input(options.input, console) as source:
        if options.output:
            others = [path for path in (options.model, options.buffer) if path]
            check_output(options.output, [*source.paths, *others], options.run.force)
        chosen = choose(source, before, options, console)
        tell_left_out(source, options.input, console)
        source.check_unchanged()
    if options.output:
        write_index(chosen.index, options.output, options.run.force)
    elif not options.run.json:
        sys.stdout.write(format_text(chosen.index))
    return _summary(chosen, options, console)


def _summary(chosen: Chosen, options: SelectOptions, console: Console) -> SelectSummary:
    index, answer, classes, task = chosen.index, chosen.answer, chosen.classes, chosen.task
    kept = np.bincount(answer.ranking.codes, minlength=len(classes.labels))
    sizes = answer.effective_size
    names = index.label_names
    new = index.task == task
    tasks, counts = np.unique(index.task, return_counts=True)
    return SelectSummary(
        output=str(options.output) if options.output else None,
        method=options.method,
        budget=options.budget,
        kept=len(index.row),
        task=task,
        tasks={int(t): int(n) for t, n in zip(tasks, counts, strict=True)},
        seed=options.seed,
        fingerprint=index.sources[-1].fingerprint,
        effective_size=answer.effective_total,
        classes=[
            ClassLine(
                int(label),
                names[label] if names is not None and len(index.sources) == 1 else None,
                int(classes.counts[c]),
                int(kept[c]),
                None if sizes is None else float(sizes[c]),
            )
            for c, label in enumerate(classes.labels)
        ],
        warnings=console.warnings,
        indices=index.row[new].tolist() if options.output is None else None,
    )

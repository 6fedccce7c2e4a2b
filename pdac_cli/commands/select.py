"""``pdac select``: feature files to the rows worth keeping."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import numpy as np

from pdac_cli.console import Console
from pdac_cli.engine.plan import make_plan
from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.index.index_file import format_text, read_index
from pdac_cli.options.cluster import ClusterOptions
from pdac_cli.options.select import Printed, SelectOptions
from pdac_cli.options.shared import RunOptions
from pdac_cli.pipeline.advice import advice
from pdac_cli.pipeline.clustering import clustered
from pdac_cli.pipeline.index_tables import check_form, write_selection
from pdac_cli.pipeline.placing import engine_of
from pdac_cli.pipeline.row_access import open_input, report_unused_rows
from pdac_cli.pipeline.selecting import Chosen, check_classes, choose
from pdac_cli.reports.table import Table
from pdac_cli.selection.methods import check_distributed, method_named
from pdac_cli.storage.atomic import check_output
from pdac_cli.storage.reading import state_of


@dataclass(frozen=True)
class ClassLine:
    """One class of the summary."""

    label: int
    name: str | None
    rows: int  # in the data
    kept: int
    effective_size: float | None


@dataclass(frozen=True)
class SuspectSummary:
    """Labels that are more likely wrong than right, Eq. (26)."""

    rows: int
    share: float  # of all labels, estimated to be wrong
    kept: int  # of the suspect rows
    worst_class: str | None  # with the most of them,
    likely_class: str | None  # and what most of these look like

    def text(self, total: int) -> str:
        """Return a line for people."""
        where = f"; most in class {self.worst_class}, likely class {self.likely_class}" if self.worst_class else ""
        return (
            f"suspect labels: {self.rows:,} rows, {self.rows / total:.1%}{where}; {self.kept:,} of them kept "
            f"(estimated share of wrong labels: {self.share:.1%})"
        )


@dataclass(frozen=True)
class SelectSummary:
    """What a selection reports."""

    output: str | None
    method: str
    budget: int
    kept: int
    task: int
    tasks: dict[int, int]  # rows kept of each task
    seed: int
    fingerprint: str
    effective_size: float | None  # of π over all rows
    n_classes: int
    per_class: list[ClassLine]
    warnings: list[str]
    indices: list[int] | None  # only where no file was written
    ids: list[str] | None  # of these rows, where their files name them
    suspects: SuspectSummary | None = None  # where labels were judged

    def text(self) -> str:
        """Return the summary for people."""
        head = [f"kept {self.kept:,} of {sum(line.rows for line in self.per_class):,} rows by {self.method}"]
        if len(self.tasks) > 1:
            shares = ", ".join(f"task {task}: {rows:,}" for task, rows in self.tasks.items())
            head = [f"kept {self.kept:,} rows by {self.method} ({shares})"]
        sized = any(line.effective_size is not None for line in self.per_class)
        rows = []
        for line in self.per_class[:20]:
            size = None if line.effective_size is None else f"{line.effective_size:,.1f}"
            rows.append([line.name or line.label, f"{line.rows:,}", f"{line.kept:,}", *([size] if sized else [])])
        columns = ["class", "rows", "kept", *(["effective size"] if sized else [])]
        tail = [f"  … and {len(self.per_class) - 20:,} more classes"] if len(self.per_class) > 20 else []
        if self.suspects is not None and self.suspects.rows:
            tail.append(self.suspects.text(sum(line.rows for line in self.per_class)))
        return "\n".join([*head, Table.of(columns, rows, left=["class"]).text(), *tail])


def run(options: SelectOptions) -> SelectSummary:
    """Choose rows, Algorithm 1; write or print them."""
    console = Console.of(options.run)
    method = method_named(options.method)
    if options.place.wanted:
        check_distributed(options.method)
    by_id = options.printed is Printed.IDS
    if options.clusters:
        options = replace(options, input=replace(options.input, no_labels=True))
    if options.output:
        _check_printed(options.output, check_form(options.output), by_id)
    before = read_index(options.buffer) if options.buffer else None
    with open_input(options.input, console, options.run.memory) as source:
        if options.output:
            others = [path for path in (options.model, options.buffer) if path]
            check_output(options.output, [*source.paths, *others], options.run.force)
        check_classes(options.method, method, options.input.no_labels and not options.clusters)
        if by_id and not source.has_ids:
            raise DataError(
                f"{source.files[0]}: says nothing of what its rows are called; expected an array 'ids' beside the "
                "features for --print ids; name yours with --ids-key"
            )
        rows = source
        if options.clusters:
            rows = clustered(source, options.clusters, options.density.normalize, options.seed, console)
        with engine_of(options.place, ["select", source.states, *_deciding(options)], options.run, console) as engine:
            chosen = choose(rows, before, options, method, make_plan(options.input, options.run, engine), console)
            report_unused_rows(source, options.input, console)
            source.check_unchanged()
    better = advice(options, chosen)
    if better is not None:
        console.note(better)
    if options.output:
        write_selection(chosen.index, options.output, options.run.force, by_id)
    elif not options.run.json:
        _print(format_text(chosen.index, by_id))
    return _summary(chosen, options, console)


def _print(text: str) -> None:
    """Write to standard output, ids byte by byte as they are; one that takes text only gets text."""
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    raw.write(text.encode("utf-8", "surrogateescape"))


def _check_printed(path: Path, suffix: str, by_id: bool) -> None:
    if by_id and suffix != ".txt":
        more = "which has the ids beside the rows anyway" if suffix not in (".txt", ".npy") else "which has row numbers"
        raise UsageError(f"--print ids is given and --output is {path}, {more}; expected .txt; leave --print out")


def _deciding(options: SelectOptions) -> list[object]:
    """Return what decides the work, to find again what an earlier run has finished."""
    files = [state_of(path) for path in (options.model, options.buffer) if path]
    return [replace(options, output=None, run=RunOptions(), place=ClusterOptions()), *files]


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
        n_classes=len(classes.labels),
        per_class=[
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
        ids=list(compress(index.ids, new)) if options.output is None and index.ids is not None else None,
        suspects=_suspects(chosen),
    )


def _suspects(chosen: Chosen) -> SuspectSummary | None:
    found, classes, names = chosen.answer.suspects, chosen.classes, chosen.label_names
    if found is None:
        return None

    def name(code: int) -> str:
        label = int(classes.labels[code])
        return str(label) if names is None else names[label]

    kept = int(np.isin(chosen.answer.ranking.ids, found.ids).sum())
    if not len(found.ids):
        return SuspectSummary(0, found.share, 0, None, None)
    worst = int(np.argmax(np.bincount(found.codes)))
    likely = int(np.argmax(np.bincount(found.likely[found.codes == worst])))
    return SuspectSummary(len(found.ids), found.share, kept, name(worst), name(likely))

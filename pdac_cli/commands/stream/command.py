"""``pdac stream``: feature files, read once in batches, to a replay buffer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.commands.stream.inputs import files_to_read, n_logits_of, note_seen, rows_to_read
from pdac_cli.commands.stream.report import Reporter, mean_log_density
from pdac_cli.commands.stream.runner import StreamRun, begin, outcome_options
from pdac_cli.console import Console
from pdac_cli.density.streaming import to_model
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.features import open_features
from pdac_cli.files.formats.growing import features_when_there
from pdac_cli.files.index.index_file import Index, IndexSource, index_suffix, write_index
from pdac_cli.files.results.model import StoredModel, write_model
from pdac_cli.files.results.state import held_state
from pdac_cli.options.stream import StreamOptions
from pdac_cli.pipeline.row_access import note_directions
from pdac_cli.pipeline.streaming import check_dim, check_has_no_network
from pdac_cli.reports.table import Table
from pdac_cli.selection.streams.interface import StreamingMethod
from pdac_cli.selection.streams.methods import streaming_method
from pdac_cli.storage.atomic import check_output
from pdac_cli.storage.signals import SIGNALS, stop_requests


@dataclass(frozen=True)
class ClassCounts:
    """One class of the summary."""

    label: int
    name: str | None
    rows: int  # seen
    kept: int


@dataclass(frozen=True)
class StreamSummary:
    """What a run of the stream reports."""

    output: str
    state: str | None
    model: str | None
    method: str
    budget: int
    kept: int
    rows: int  # seen in all
    new_rows: int  # in this run
    sources: int  # files seen in all
    replaced: int  # rows that entered in the place of another, in all
    mean_log_density: float | None  # of the buffer, as of when its rows entered
    rows_per_second: float | None
    dropped: int
    ignored: int
    seed: int
    classes: int  # seen in all
    per_class: list[ClassCounts]
    warnings: list[str]

    def text(self) -> str:
        """Return the summary for people."""
        density = "" if self.mean_log_density is None else f", mean log-density {self.mean_log_density:.2f}"
        head = [
            f"kept {self.kept:,} of {self.rows:,} rows by {self.method} ({self.new_rows:,} new)",
            f"{self.replaced:,} rows replaced an earlier one{density}",
        ]
        rows = [[line.name or line.label, f"{line.rows:,}", f"{line.kept:,}"] for line in self.per_class[:20]]
        tail = [f"  … and {len(self.per_class) - 20:,} more classes"] if len(self.per_class) > 20 else []
        return "\n".join([*head, Table.of(["class", "rows", "kept"], rows, left=["class"]).text(), *tail])


def run(options: StreamOptions) -> StreamSummary:
    """Read what is new of the files, go on with the buffer and the densities, write them."""
    method = streaming_method(options.method, options.density_kind)
    _check_usage(options, method)
    with held_state(options.state):
        return _run(options, method, Console.of(options.run))


def _run(options: StreamOptions, method: StreamingMethod, console: Console) -> StreamSummary:
    resumed = options.state is not None and options.state.exists()
    with one_blas_thread():
        finished, n_features = _check_files(options, method, resumed, console)
        if method.is_steered:
            note_directions(n_features, console)
        running = begin(options, method, n_features)
        growing = options.input.paths[-1] if options.follow else None
        files = files_to_read(finished, running.places, options.input, growing)
        note_seen(finished, files, console)
        before = running.stream.buffer.seen
        if options.trace is not None and not resumed:
            running.save()  # so that a rerun after a kill knows the trace as its own
        report = Reporter(options, running.stream, resumed)
        with stop_requests(SIGNALS if options.state is not None else ()) as stopping:
            with report.shown(console, rows_to_read(files)):
                running.read_files(files, report, stopping)
            seconds = report.seconds
            console.detail(f"{running.stream.buffer.seen - before:,} rows in {seconds:.2f} s")
            if not running.stream.buffer.seen:
                raise DataError("no usable row is left; expected at least one in these files; see --ignore-label")
            if files or not resumed:
                running.save()
            _warn(running, options, console)
            _write(running, options, resumed)
    return _summary(running, options, before, seconds, console)


def _check_usage(options: StreamOptions, method: StreamingMethod) -> None:
    index_suffix(options.output)
    check_has_no_network(options, method)
    if options.input.no_labels and method.needs_logits:
        raise UsageError(
            f"--method {options.method.value} compares what the logits say with the labels, and with --no-labels there "
            "are none; expected another method, such as spdac"
        )
    outputs = [path for path in (options.output, options.state, options.model, options.trace) if path is not None]
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise UsageError("two of --output, --state, --model and --trace are the same file; expected different paths")


def _check_files(
    options: StreamOptions, method: StreamingMethod, resumed: bool, console: Console
) -> tuple[dict[str, int], int]:
    """Check all that can be checked before long work; return the finished files with their numbers of rows, and D."""
    paths = options.input.paths[:-1] if options.follow else options.input.paths
    finished: dict[str, int] = {}
    inputs: list[Path] = [Path(options.input.paths[-1])] if options.follow else []
    n_features = None
    if paths:
        with open_features(replace(options.input, paths=paths)) as source:
            finished, n_features = dict(zip(source.files, source.file_rows, strict=True)), source.n_features
            if method.needs_logits:
                n_logits_of(source, source.files[0], options.method.value)
            inputs += source.paths
            for note in source.notes:
                console.note(f"note: {note}")
    outputs = [path for path in (options.output, options.model, options.trace) if path is not None]
    for path in outputs:  # those of a stream that goes on are its own to replace
        check_output(path, inputs, options.run.force or resumed)
    if options.state is not None:
        check_output(options.state, inputs, force=True)
    if n_features is None:
        n_features = features_when_there(options.input, options.input.paths[-1], options.timeout)
    check_dim(options, method, n_features)
    return finished, n_features


def _warn(running: StreamRun, options: StreamOptions, console: Console) -> None:
    stream = running.stream
    read = f"of {sum(place.rows for place in running.places):,} rows"
    if running.dropped:
        console.warn(f"{running.dropped:,} {read} with NaN or infinity left out")
    if running.ignored:
        console.note(f"note: {running.ignored:,} {read} with label {options.input.ignore_label} left out")
    if options.budget > stream.buffer.seen:
        seen = f"there are {stream.buffer.seen:,} usable rows"
        console.warn(f"--budget is {options.budget:,} and {seen}; all are kept")
    elif options.budget < len(stream.rows):
        console.warn(
            f"the budget of {options.budget:,} is smaller than the number of classes, {len(stream.rows):,}: "
            "some classes are left without a row"
        )
    waiting = sorted(label for label, known in stream.classes.items() if known.fitted is None)
    if waiting:
        names = list(running.classes.names or ())
        shown = ", ".join(names[label] if names else str(label) for label in waiting[:8])
        shown += f" and {len(waiting) - 8} more" if len(waiting) > 8 else ""
        needed = max(options.density.dim, options.density.components) + 1
        console.warn(
            f"no density yet for {'class' if len(waiting) == 1 else 'classes'} {shown}: fewer than {needed} rows, "
            "or all the same; their rows enter as in plain reservoir sampling"
        )


def _write(running: StreamRun, options: StreamOptions, resumed: bool) -> None:
    """Write the buffer and, where asked for, the model."""
    force = options.run.force or resumed
    names, numbers = running.classes.shown()
    if options.model is not None:
        known = running.stream.classes.values()
        model = to_model([replace(one, label=_number(one.label, numbers)) for one in known], options.density)
        fingerprint = _fingerprint([place.fingerprint for place in running.places])
        stored = StoredModel(model, fingerprint, names, outcome_options(options, running.stream.method), options.seed)
        write_model(stored, options.model, force)
    columns = running.stream.buffer.columns
    index = Index(
        row=columns["row"],
        source=columns["source"],
        task=columns["source"] + 1,  # each file is a task of its own
        label=columns["label"] if names is None else numbers[columns["label"]],
        log_density=columns["log_density"],
        sources=tuple(
            IndexSource(place.fingerprint, (place.path,), place.rows, k + 1) for k, place in enumerate(running.places)
        ),
        method=options.method.value,
        budget=options.budget,
        seed=options.seed,
        options=outcome_options(options, running.stream.method),
        label_names=names,
        score=running.stream.score,
        ids=running.buffer_ids(),
    )
    write_index(index, options.output, force)


def _number(label: int, numbers: Array) -> int:
    """Return the number that the outputs have for a class of the stream."""
    return int(numbers[label]) if len(numbers) else label


def _fingerprint(fingerprints: list[str]) -> str:
    """Return the one of a single file, or a hash of all."""
    if len(fingerprints) == 1:
        return fingerprints[0]
    return hashlib.blake2b("\n".join(fingerprints).encode(), digest_size=16).hexdigest()


def _summary(
    running: StreamRun, options: StreamOptions, before: int, seconds: float, console: Console
) -> StreamSummary:
    stream, (names, numbers) = running.stream, running.classes.shown()
    kept = dict(zip(*np.unique(stream.buffer.columns["label"], return_counts=True), strict=True))
    new = stream.buffer.seen - before
    return StreamSummary(
        output=str(options.output),
        state=str(options.state) if options.state else None,
        model=str(options.model) if options.model else None,
        method=options.method.value,
        budget=options.budget,
        kept=stream.buffer.size,
        rows=stream.buffer.seen,
        new_rows=new,
        sources=len(running.places),
        replaced=stream.buffer.replaced,
        mean_log_density=mean_log_density(stream),
        rows_per_second=round(new / seconds, 1) if new else None,
        dropped=running.dropped,
        ignored=running.ignored,
        seed=options.seed,
        classes=len(stream.rows),
        per_class=[
            ClassCounts(number, None if names is None else names[number], rows, int(kept.get(label, 0)))
            for number, label, rows in sorted((_number(y, numbers), y, rows) for y, rows in stream.rows.items())
        ],
        warnings=console.warnings,
    )

"""``pdac stream``: feature files, read once in batches, to a replay buffer (the paper's Algorithm 2)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pdac_cli.commands.stopping import stop_requests
from pdac_cli.commands.stream_inputs import logits_of, note_seen, plan_legs
from pdac_cli.commands.stream_report import Reporter, mean_log_density
from pdac_cli.commands.stream_run import Run, begin, outcome_options
from pdac_cli.console import Console, table
from pdac_cli.density.blocks import Array
from pdac_cli.density.streaming import to_model
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.atomic import check_output
from pdac_cli.files.features import open_features
from pdac_cli.files.follow import features_when_there
from pdac_cli.files.index import Index, Source, index_suffix, write_index
from pdac_cli.files.model import StoredModel, write_model
from pdac_cli.files.signals import SIGNALS
from pdac_cli.files.state import held_state
from pdac_cli.options.stream import StreamOptions
from pdac_cli.selection.streams.methods import STREAMING_METHODS


@dataclass(frozen=True)
class ClassLine:
    """One class of the summary."""

    label: int
    name: str | None
    rows: int  # seen
    kept: int


@dataclass(frozen=True)
class StreamSummary:
    """What the stream has come to."""

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
    classes: list[ClassLine]
    warnings: list[str]

    def text(self) -> str:
        """Return the summary for people."""
        density = "" if self.mean_log_density is None else f", mean log-density {self.mean_log_density:.2f}"
        head = [
            f"kept {self.kept:,} of {self.rows:,} rows by {self.method} ({self.new_rows:,} new)",
            f"{self.replaced:,} rows replaced an earlier one{density}",
        ]
        rows = [["class", "rows", "kept"]]
        rows += [[line.name or str(line.label), f"{line.rows:,}", f"{line.kept:,}"] for line in self.classes[:20]]
        tail = [f"  … and {len(self.classes) - 20:,} more classes"] if len(self.classes) > 20 else []
        return "\n".join([*head, table(rows), *tail])


def run(options: StreamOptions) -> StreamSummary:
    """Read what is new of the files, go on with the buffer and the densities, write them."""
    _check_usage(options)
    with held_state(options.state):
        return _run(options, Console.of(options.run))


def _run(options: StreamOptions, console: Console) -> StreamSummary:
    resumed = options.state is not None and options.state.exists()
    with one_blas_thread():
        names, features = _look(options, resumed, console)
        running = begin(options, features)
        growing = options.input.paths[-1] if options.follow else None
        legs = plan_legs(names, running.places, options.input, growing)
        note_seen(names, legs, console)
        before = running.stream.buffer.seen
        if options.trace is not None and not resumed:
            running.save()  # so that a rerun after a kill knows the trace as its own
        report = Reporter(options, running.stream, resumed)
        with stop_requests(SIGNALS if options.state is not None else ()) as stopping:
            with report.line():
                running.travel(legs, report, stopping)
            seconds = report.seconds
            console.detail(f"{running.stream.buffer.seen - before:,} rows in {seconds:.2f} s")
            if not running.stream.buffer.seen:
                raise DataError("no usable row is left; expected at least one in these files; see --ignore-label")
            if legs or not resumed:
                running.save()
            _warn(running, options, console)
            _write(running, options, resumed)
    return _summary(running, options, before, seconds, console)


def _check_usage(options: StreamOptions) -> None:
    index_suffix(options.output)
    name, method = options.method.value, STREAMING_METHODS[options.method]
    if method.needs_network:
        able = ", ".join(name.value for name, other in STREAMING_METHODS.items() if not other.needs_network)
        raise UsageError(
            f"--method {name} needs {method.needs_network}, and pdac stream has no network that learns; "
            f"expected one of: {able}; for {name} use pdac train-cl --setting online"
        )
    if options.model is not None and not method.needs_density:
        raise UsageError(f"--model is given with --method {name}, which has no density; leave one of them out")
    outputs = [path for path in (options.output, options.state, options.model, options.trace) if path is not None]
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise UsageError("two of --output, --state, --model and --trace are the same file; expected different paths")


def _look(options: StreamOptions, resumed: bool, console: Console) -> tuple[tuple[str, ...], int]:
    """Check all that can be checked before long work; return the finished files' names and D."""
    method = STREAMING_METHODS[options.method]
    paths = options.input.paths[:-1] if options.follow else options.input.paths
    names: tuple[str, ...] = ()
    inputs: list[Path] = [Path(options.input.paths[-1])] if options.follow else []
    features = None
    if paths:
        with open_features(replace(options.input, paths=paths)) as source:
            names, features = source.files, source.dim
            if method.needs_logits:
                logits_of(source, names[0], options.method.value)
            inputs += source.paths
            for note in source.notes:
                console.note(f"note: {note}")
    outputs = [path for path in (options.output, options.model, options.trace) if path is not None]
    for path in outputs:  # those of a stream that goes on are its own to replace
        check_output(path, inputs, options.run.force or resumed)
    if options.state is not None:
        check_output(options.state, inputs, force=True)
    if features is None:
        features = features_when_there(options.input, options.input.paths[-1], options.timeout)
    if method.needs_density and options.density.dim > features:
        raise UsageError(f"--dim is {options.density.dim}, the data has {features} features; expected at most as many")
    return names, features


def _warn(running: Run, options: StreamOptions, console: Console) -> None:
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


def _write(running: Run, options: StreamOptions, resumed: bool) -> None:
    """Write the buffer and, where asked for, the model."""
    force = options.run.force or resumed
    names, numbers = running.classes.shown()
    if options.model is not None:
        known = running.stream.classes.values()
        model = to_model([replace(one, label=_number(one.label, numbers)) for one in known], options.density)
        fingerprint = _fingerprint([place.fingerprint for place in running.places])
        stored = StoredModel(model, fingerprint, names, outcome_options(options), options.seed)
        write_model(stored, options.model, force)
    columns = running.stream.buffer.columns
    index = Index(
        row=columns["row"],
        source=columns["source"],
        task=columns["source"] + 1,  # each file is a task of its own
        label=columns["label"] if names is None else numbers[columns["label"]],
        log_density=columns["log_density"],
        sources=tuple(
            Source(place.fingerprint, (place.path,), place.rows, k + 1) for k, place in enumerate(running.places)
        ),
        method=options.method.value,
        budget=options.budget,
        seed=options.seed,
        options=outcome_options(options),
        label_names=names,
        score=columns.get("score"),
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


def _summary(running: Run, options: StreamOptions, before: int, seconds: float, console: Console) -> StreamSummary:
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
        classes=[
            ClassLine(number, None if names is None else names[number], rows, int(kept.get(label, 0)))
            for number, label, rows in sorted((_number(y, numbers), y, rows) for y, rows in stream.rows.items())
        ],
        warnings=console.warnings,
    )

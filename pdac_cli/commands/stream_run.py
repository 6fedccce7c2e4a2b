"""One run of a stream: through its files batch by batch, saving its state on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np

from pdac_cli.commands.stream_classes import StreamClasses
from pdac_cli.commands.stream_inputs import Leg, batches, fingerprint_of_first, logits_of
from pdac_cli.commands.stream_report import Reporter
from pdac_cli.density.blocks import Array
from pdac_cli.engine.packing import pack, unpack
from pdac_cli.engine.streaming import Stream
from pdac_cli.errors import DataError, Stopped
from pdac_cli.files.features import FeatureSet, open_features
from pdac_cli.files.follow import POLL_SECONDS, growing_rows, is_complete, open_first_rows
from pdac_cli.files.kept import Option
from pdac_cli.files.labels import Seen
from pdac_cli.files.state import Place, State, check_options, damaged, read_state, write_state
from pdac_cli.options.stream import StreamOptions
from pdac_cli.selection.streams.methods import STREAMING_METHODS

_SAVE_ROWS = 4096  # at least, from one state file to the next
_SAVE_SHARE = 0.5  # of the bytes read may go into state files


@dataclass
class Run:
    """A stream on its way through its files."""

    options: StreamOptions
    stream: Stream
    places: list[Place] = field(default_factory=list)
    classes: StreamClasses = field(default_factory=StreamClasses)
    dropped: int = 0  # rows left out as not finite, in this run
    ignored: int = 0  # and by their label
    saved: int = 0  # rows seen when the state was written last
    save_rows: int = _SAVE_ROWS

    def travel(self, legs: list[Leg], report: Reporter, stopping: Callable[[], bool]) -> None:
        """Read the files to their ends; save and raise Stopped when asked to."""
        for leg in legs:
            for source, leg_rows in self._sources(leg, stopping):
                self._read(source, leg, leg_rows, report, stopping)
                self.dropped += source.dropped
                self.ignored += source.ignored
        report.batch(self.stream, last=True)

    def save(self) -> None:
        """Write the state, if it is to be written."""
        if self.options.state is None:
            return
        stream, arrays = self.stream, pack(self.stream)
        names = None if self.classes.names is None else tuple(self.classes.names)
        places = tuple(self.places)
        state = State(outcome_options(self.options), stream.features, places, names, self.classes.sort, arrays)
        write_state(state, self.options.state)
        self.saved = stream.buffer.seen
        size = sum(array.nbytes for array in arrays.values())
        self.save_rows = self.options.state_every or max(_SAVE_ROWS, int(size / (_SAVE_SHARE * 4 * stream.features)))

    def _sources(self, leg: Leg, stopping: Callable[[], bool]) -> Iterator[tuple[FeatureSet, int]]:
        """Yield the file, open, and the row to read from; a growing one again and again as whole batches arrive."""
        if not leg.growing:
            with open_features(replace(self.options.input, paths=(leg.path,))) as source:
                yield source, leg.start
                source.check_unchanged()
            return
        at, seen, news = leg.start, 0, time.monotonic()
        ended = False
        while not ended:
            complete = is_complete(leg.path)  # before its rows are counted, for none can come after it
            rows = growing_rows(self.options.input, leg.path)
            if rows > seen:  # also while the last ones were worked on, however long that took
                seen, news = rows, time.monotonic()
            ended = complete or time.monotonic() - news > self.options.timeout
            ready = rows if ended else rows - rows % self.options.batch
            if ready > at:
                known = Seen(at, tuple(self.classes.names or ()))
                with open_first_rows(self.options.input, leg.path, ready, growing=True, seen=known) as source:
                    yield source, at
                at = ready
            elif not ended:
                self._check_stop(stopping, leg)
                time.sleep(POLL_SECONDS)
        if at == 0:
            raise DataError(f"{leg.path}: no row came in {self.options.timeout:g} s; expected a writer; see --timeout")

    def _read(self, source: FeatureSet, leg: Leg, start: int, report: Reporter, stopping: Callable[[], bool]) -> None:
        """Take in the rows of an open file."""
        if source.dim != self.stream.features:
            raise DataError(
                f"{leg.path}: has {source.dim:,} features, the stream has {self.stream.features:,}; expected as many"
            )
        wanted = self.stream.method.needs_logits
        if wanted:
            self._check_logits(source, leg)
        for batch in batches(source, start, self.options.batch, wanted):
            labels = self.classes.numbers(batch.y, source, leg.path, first=not self.stream.rows)
            if batch.z is not None:
                _check_columns(batch.z, labels, source.names_are_labels or not np.array_equal(batch.y, labels), leg)
            self.stream.take(leg.source, batch.ids, batch.h, labels, batch.z)
            self._stand(leg, batch.stop, source.n)
            report.batch(self.stream)
            if self.options.state is not None and self.stream.buffer.seen - self.saved >= self.save_rows:
                self._mark(leg)
                self.save()
            self._check_stop(stopping, leg)
        self._stand(leg, source.n, source.n)
        self._mark(leg)

    def _check_logits(self, source: FeatureSet, leg: Leg) -> None:
        """Refuse a file whose logits are not those of the stream's classes."""
        found = logits_of(source, leg.path, self.options.method.value)
        if found is not None and self.stream.logits not in (None, found):
            raise DataError(
                f"{leg.path}: has {found:,} logits, the stream has {self.stream.logits:,}; expected as many; "
                "give files of the same network, or another --state"
            )

    def _stand(self, leg: Leg, rows: int, total: int) -> None:
        """Note how far the file is read; its fingerprint is taken when it is needed."""
        place = Place(leg.path, rows, "", rows if leg.growing else total)
        if leg.source == len(self.places):
            self.places.append(place)
        else:
            self.places[leg.source] = place

    def _mark(self, leg: Leg) -> None:
        place = self.places[leg.source]
        found = fingerprint_of_first(leg.path, place.rows, self.options.input, leg.growing)
        self.places[leg.source] = replace(place, fingerprint=found)

    def _check_stop(self, stopping: Callable[[], bool], leg: Leg) -> None:
        if not stopping():
            return
        if len(self.places) > leg.source:
            self._mark(leg)
        self.save()
        raise Stopped(
            f"stopped after {self.stream.buffer.seen:,} rows of the stream; they are kept in {self.options.state}; "
            "run the same command again to go on"
        )


def begin(options: StreamOptions, features: int) -> Run:
    """Return the run that goes on from the state file, or a new one where there is none."""
    if options.state is None or not options.state.exists():
        return Run(options, Stream.begin(options, features), save_rows=options.state_every or _SAVE_ROWS)
    state = read_state(options.state)
    check_options(state, options.state, outcome_options(options), features)
    stream = _unpacked(state, options.state, options)
    classes = StreamClasses.of(state.label_names, state.names_are_labels)
    run = Run(options, stream, list(state.places), classes, saved=stream.buffer.seen)
    run.save_rows = options.state_every or _SAVE_ROWS
    return run


def outcome_options(options: StreamOptions) -> dict[str, Option]:
    """Return the options that decide the outcome, as they are stored."""
    method = STREAMING_METHODS[options.method]
    density = asdict(options.density) if method.needs_density else {}
    settings = {name: getattr(options.settings, name) for name in method.settings}
    return {
        "budget": options.budget,
        "batch": options.batch,
        "seed": options.seed,
        "method": options.method.value,
        "acceptance": options.acceptance.value,
        "allocation": options.allocation.value,
        "window": options.window,
        "temperature": options.temperature,
        "drop-nonfinite": options.input.drop_nonfinite,
        "ignore-label": options.input.ignore_label,
        **{name.replace("_", "-"): value for name, value in {**density, **settings}.items()},
    }


def _check_columns(z: Array, labels: Array, renamed: bool, leg: Leg) -> None:
    """Refuse logits (n, K) whose columns are not the stream's labels (n,)."""
    if labels.max() >= z.shape[1]:
        raise DataError(
            f"{leg.path}: 'logits' has {z.shape[1]:,} columns and there is a label {labels.max():,}; "
            "expected a column for every label from 0 on"
        )
    if renamed:
        raise DataError(
            f"{leg.path}: its labels are names, or its classes are named in another order than the stream's, so that "
            "the columns of 'logits' are not its classes; expected labels as numbers, alike in all files"
        )


def _unpacked(state: State, path: Path, options: StreamOptions) -> Stream:
    try:
        return unpack(state.arrays, options, state.features)
    except (KeyError, ValueError, IndexError, TypeError, StopIteration) as problem:
        raise damaged(path, problem) from None

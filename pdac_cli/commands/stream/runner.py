"""One run of a stream: through its files batch by batch, saving its state on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from pdac_cli.commands.stream.inputs import StreamClasses, StreamFile, batches, fingerprint_of_first, n_logits_of
from pdac_cli.commands.stream.report import Reporter
from pdac_cli.engine.stream.packed_arrays import NotPacked
from pdac_cli.engine.stream.packing import pack, unpack
from pdac_cli.engine.stream.running import Stream
from pdac_cli.errors import DataError, Stopped
from pdac_cli.files.features import FeatureSet, open_features
from pdac_cli.files.formats.growing import POLL_SECONDS, growing_rows, is_complete, open_first_rows
from pdac_cli.files.formats.labels import Seen
from pdac_cli.files.index.index_schema import Option
from pdac_cli.files.results.state import FilePosition, State, check_options, damaged, read_state, write_state
from pdac_cli.options.stream import StreamOptions
from pdac_cli.pipeline.streaming import check_logit_columns
from pdac_cli.pipeline.streaming import outcome_options as rule_options
from pdac_cli.selection.streams.interface import StreamingMethod

_SAVE_ROWS = 4096  # at least, from one state file to the next
_SAVE_SHARE = 0.5  # of the bytes read may go into state files


@dataclass
class StreamRun:
    """A stream on its way through its files."""

    options: StreamOptions
    stream: Stream
    places: list[FilePosition] = field(default_factory=list)
    classes: StreamClasses = field(default_factory=StreamClasses)
    ids: dict[tuple[int, int], str] = field(default_factory=dict)  # of rows in the buffer, by source and row
    dropped: int = 0  # rows left out as not finite, in this run
    ignored: int = 0  # and by their label
    saved: int = 0  # rows seen when the state was written last
    save_rows: int = _SAVE_ROWS

    def read_files(self, files: list[StreamFile], report: Reporter, stopping: Callable[[], bool]) -> None:
        """Read the files to their ends; save and raise Stopped when asked to."""
        for file in files:
            for source, start in self._sources(file, stopping):
                self._read(source, file, start, report, stopping)
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
        state = State(
            outcome_options(self.options, stream.method), stream.n_features, places, names, self.classes.sort, arrays,
            self.buffer_ids(),
        )  # fmt: skip
        write_state(state, self.options.state)
        self.saved = stream.buffer.seen
        size = sum(array.nbytes for array in arrays.values())
        self.save_rows = self.options.state_every or max(_SAVE_ROWS, int(size / (_SAVE_SHARE * 4 * stream.n_features)))

    def buffer_ids(self) -> tuple[str, ...] | None:
        """Return what the files call the rows of the buffer, in its order; None where none of them has a name."""
        return tuple(self.ids.get(row, "") for row in self.rows_of_buffer()) if self.ids else None

    def rows_of_buffer(self) -> list[tuple[int, int]]:
        """Return the source and the row there of each row of the buffer."""
        columns = self.stream.buffer.columns
        return list(zip(columns["source"].tolist(), columns["row"].tolist(), strict=True))

    def _note_ids(self, source: FeatureSet, file: StreamFile) -> None:
        """Read what the rows that are new in the buffer are called; forget those that left it."""
        rows = self.rows_of_buffer()
        self.ids = {row: self.ids[row] for row in rows if row in self.ids}
        new = [row for row in rows if row[0] == file.source and row not in self.ids] if source.has_ids else []
        texts = source.id_texts(np.array([row for _, row in new], np.int64)) if new else ()
        self.ids.update(zip(new, texts, strict=True))

    def _sources(self, file: StreamFile, stopping: Callable[[], bool]) -> Iterator[tuple[FeatureSet, int]]:
        """Yield the file, open, and the row to read from; a growing one again and again as whole batches arrive."""
        if not file.growing:
            with open_features(replace(self.options.input, paths=(file.path,))) as source:
                yield source, file.start
                source.check_unchanged()
            return
        at, seen, news = file.start, 0, time.monotonic()
        ended = False
        while not ended:
            complete = is_complete(file.path)  # before its rows are counted, for none can come after it
            rows = growing_rows(self.options.input, file.path)
            if rows > seen:  # also while the last ones were worked on, however long that took
                seen, news = rows, time.monotonic()
            ended = complete or time.monotonic() - news > self.options.timeout
            ready = rows if ended else rows - rows % self.options.batch
            if ready > at:
                known = Seen(at, tuple(self.classes.names or ()))
                with open_first_rows(self.options.input, file.path, ready, growing=True, seen=known) as source:
                    yield source, at
                at = ready
            elif not ended:
                self._check_stop(stopping, file)
                time.sleep(POLL_SECONDS)
        if at == 0:
            raise DataError(f"{file.path}: no row came in {self.options.timeout:g} s; expected a writer; see --timeout")

    def _read(
        self, source: FeatureSet, file: StreamFile, start: int, report: Reporter, stopping: Callable[[], bool]
    ) -> None:
        """Take in the rows of an open file."""
        if source.n_features != self.stream.n_features:
            raise DataError(
                f"{file.path}: has {source.n_features:,} features, the stream has {self.stream.n_features:,}; "
                "expected as many"
            )
        wanted = self.stream.method.needs_logits
        if wanted:
            self._check_logits(source, file)
        for batch, stop in batches(source, start, self.options.batch, wanted):
            labels = self.classes.numbers(batch.y, source, file.path, first=not self.stream.rows)
            if batch.logits is not None:
                renamed = source.names_are_labels or not np.array_equal(batch.y, labels)
                check_logit_columns(batch.logits, labels, renamed, file.path)
            self.stream.take(file.source, batch.ids, batch.h, labels, batch.logits)
            self._note_position(file, stop, source.n)
            report.batch(self.stream)
            if self.options.state is not None and self.stream.buffer.seen - self.saved >= self.save_rows:
                self._note_ids(source, file)
                self._note_fingerprint(file)
                self.save()
            self._check_stop(stopping, file, source)
        self._note_ids(source, file)
        self._note_position(file, source.n, source.n)
        self.places[file.source] = replace(self.places[file.source], fingerprint=source.fingerprint)

    def _check_logits(self, source: FeatureSet, file: StreamFile) -> None:
        """Refuse a file whose logits are not those of the stream's classes."""
        found = n_logits_of(source, file.path, self.options.method.value)
        if found is not None and self.stream.n_logits not in (None, found):
            raise DataError(
                f"{file.path}: has {found:,} logits, the stream has {self.stream.n_logits:,}; expected as many; "
                "give files of the same network, or another --state"
            )

    def _note_position(self, file: StreamFile, rows: int, total: int) -> None:
        """Note how far the file is read; its fingerprint is taken when it is needed."""
        place = FilePosition(file.path, rows, "", rows if file.growing else total)
        if file.source == len(self.places):
            self.places.append(place)
        else:
            self.places[file.source] = place

    def _note_fingerprint(self, file: StreamFile) -> None:
        place = self.places[file.source]
        found = fingerprint_of_first(file.path, place.rows, self.options.input, file.growing)
        self.places[file.source] = replace(place, fingerprint=found)

    def _check_stop(self, stopping: Callable[[], bool], file: StreamFile, source: FeatureSet | None = None) -> None:
        if not stopping():
            return
        if source is not None:
            self._note_ids(source, file)
        if len(self.places) > file.source:
            self._note_fingerprint(file)
        self.save()
        raise Stopped(
            f"stopped after {self.stream.buffer.seen:,} rows of the stream; they are kept in {self.options.state}; "
            "run the same command again to go on"
        )


def begin(options: StreamOptions, method: StreamingMethod, n_features: int) -> StreamRun:
    """Return the run that goes on from the state file, or a new one where there is none."""
    if options.state is None or not options.state.exists():
        return StreamRun(
            options, Stream.begin(options, method, n_features), save_rows=options.state_every or _SAVE_ROWS
        )
    state = read_state(options.state)
    check_options(state, options.state, outcome_options(options, method), n_features)
    stream = _unpacked(state, options.state, options, method)
    classes = StreamClasses.of(state.label_names, state.names_are_labels)
    run = StreamRun(options, stream, list(state.places), classes, saved=stream.buffer.seen)
    if state.ids is not None and len(state.ids) == stream.buffer.size:
        run.ids = {row: text for row, text in zip(run.rows_of_buffer(), state.ids, strict=True) if text}
    run.save_rows = options.state_every or _SAVE_ROWS
    return run


def outcome_options(options: StreamOptions, method: StreamingMethod) -> dict[str, Option]:
    """Return the options that decide the outcome of a stream of files, as they are stored."""
    return {
        **rule_options(options, method),
        "drop-nonfinite": options.input.drop_nonfinite,
        "ignore-label": options.input.ignore_label,
        **({"no-labels": True} if options.input.no_labels else {}),
    }


def _unpacked(state: State, path: Path, options: StreamOptions, method: StreamingMethod) -> Stream:
    try:
        return unpack(state.arrays, options, method, state.features)
    except NotPacked as problem:
        raise damaged(path, str(problem)) from problem

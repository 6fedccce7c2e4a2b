"""What `pdac stream` tells while it runs: a line at a terminal, a trace file for plots."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from pdac_cli.console import Console, Progress
from pdac_cli.engine.stream.running import Stream
from pdac_cli.files.results.trace import COLUMNS, TraceFile
from pdac_cli.options.stream import StreamOptions

_TRACE_BATCHES = 8


class Reporter:
    """Told of every batch; shows and records how the stream goes."""

    def __init__(self, options: StreamOptions, stream: Stream, resumed: bool) -> None:
        self._every = _TRACE_BATCHES * options.batch
        self._progress: Progress | None = None
        self._described = False
        self._begun = self._last = time.monotonic()
        self._rows = self._timed_rows = stream.buffer.seen
        self._replaced = stream.buffer.replaced
        self._trace = None
        if options.trace is not None:
            self._trace = TraceFile(options.trace, COLUMNS, self._rows, options.run.force or resumed)
            if resumed:  # the next line goes on from the last one, which may be older than the state
                self._rows, self._replaced = self._trace.last("rows"), self._trace.last("replaced")

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._begun

    def batch(self, stream: Stream, last: bool = False) -> None:
        """Be told that a batch is done."""
        seen = stream.buffer.seen
        due = seen // self._every > self._rows // self._every or (last and seen > self._rows)
        if due and (self._trace is not None or self._described):
            self._tell(stream)
        elif due:
            self._count(time.monotonic(), stream)

    @contextmanager
    def shown(self, console: Console, total: int | None) -> Iterator[None]:
        """Show how the stream goes within the block; total: rows there are to read, None while a file grows."""
        self._described = not console.quiet and sys.stderr.isatty()  # a line a minute needs no more than a count
        with console.progress("rows", total) as self._progress:
            yield

    def _tell(self, stream: Stream) -> None:
        now, seen, buffer = time.monotonic(), stream.buffer.seen, stream.buffer
        speed = (seen - self._timed_rows) / max(now - self._last, 1e-9)
        turnover = (buffer.replaced - self._replaced) / max(buffer.size, 1)
        labels, counts = np.unique(buffer.columns["label"], return_counts=True)
        mean = mean_log_density(stream)
        if self._trace is not None:
            text = " ".join(f"{label}:{count}" for label, count in zip(labels, counts, strict=True))
            self._trace.add([
                seen, f"{now - self._begun:.3f}", f"{speed:.1f}", buffer.size, buffer.replaced, f"{turnover:.4f}",
                len(stream.rows), len(labels), "" if mean is None else f"{mean:.4f}", text,
            ])  # fmt: skip
        if self._progress is not None:
            density = "" if mean is None else f", mean log-density {mean:.2f}"
            self._progress.more = (
                f"turnover {turnover:.1%}, {len(labels)} of {len(stream.rows)} classes, "
                f"{counts.min()} to {counts.max()} rows each{density}"
            )
        self._count(now, stream)

    def _count(self, now: float, stream: Stream) -> None:
        seen = stream.buffer.seen
        if self._progress is not None:
            self._progress(seen - self._timed_rows)
        self._last, self._rows, self._timed_rows, self._replaced = now, seen, seen, stream.buffer.replaced


def mean_log_density(stream: Stream) -> float | None:
    """Return the mean log p̂(z) of the buffer's rows, as of when they entered; None if none has one."""
    log_p = stream.buffer.columns["log_density"]
    known = log_p[~np.isnan(log_p)]
    return float(known.mean()) if len(known) else None

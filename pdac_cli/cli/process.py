"""The process around a command: standard streams that may be closed or broken, and signals that end it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TextIO, cast

INTERRUPTED, TERMINATED = 130, 143  # 128 + the signal's number


class Terminated(BaseException):
    """SIGTERM has come: leave through the open contexts, so that temporaries are removed."""


@contextmanager
def signals_raised() -> Iterator[None]:
    """Raise Terminated on SIGTERM, as Python does KeyboardInterrupt; after the block, when all is done, ignore both."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def safe_streams() -> Iterator[None]:
    """Stand in for closed streams, so that no file gets their numbers, and never fail for want of a listener.

    Writing to a standard output that was closed is an error, as it is for a full one: the result would be lost.
    What is said on standard error is no result, and a reader that has gone must not end the work.
    """
    for number, name, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            _open_null(number, flags)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
    spoken = sys.stderr
    sys.stderr = cast(TextIO, _Forgiving(spoken))
    try:
        yield
    finally:
        sys.stderr = spoken


def discard_output() -> None:
    """Let nothing more be written to standard output, also not when the interpreter flushes it at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


class _Forgiving:
    """A stream whose writes may go nowhere."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _open_null(number: int, flags: int) -> None:
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # one is enough: a second must not disturb the clearing up
    raise Terminated

"""The process around a command: standard streams that may be closed or broken, and signals that end it."""

from __future__ import annotations

import io
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, ClassVar, TextIO, cast

from pdac_cli.errors import StorageError
from pdac_cli.storage.atomic import remove_left

INTERRUPTED, TERMINATED = 130, 143  # 128 + the signal's number
ENDED = {  # what is said of it
    INTERRUPTED: "interrupted; every output is as it was before, or complete",
    TERMINATED: "terminated; every output is as it was before, or complete",
}
_LIBRARIES = 400 << 20  # bytes of address space that NumPy, SciPy and HDF5 take with their workspaces
_AGAIN_SECONDS = 0.01
_GRACE_SECONDS = 5.0  # for leaving in good order


class Terminated(BaseException):
    """SIGTERM has come: leave through the open contexts, so that temporaries are removed."""


@contextmanager
def signals_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT and Terminated on SIGTERM; after the block, when all is done, ignore both."""
    signals = _Signals()
    former, sys.unraisablehook = sys.unraisablehook, signals.unraisable
    for number in signals.errors:
        signal.signal(number, signals.handle)
    signal.signal(signal.SIGALRM, signals.remember)
    try:
        yield
    except Exception as problem:
        if signals.raised:  # a library has made another error of it
            raise signals.errors[signals.raised] from problem
        raise
    finally:
        signals.over = True
        for number in signals.errors:
            signal.signal(number, signal.SIG_IGN)
        if not signals.raised:
            sys.unraisablehook = former


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
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # of a stream that is full or broken, which is said when it is written to
                stream.reconfigure(errors="backslashreplace")  # for letters that the encoding lacks
    spoken = sys.stderr
    sys.stderr = cast(TextIO, _Forgiving(spoken))
    try:
        yield
    finally:
        sys.stderr = spoken


def check_address_space() -> None:
    """Refuse a limit that the libraries do not fit into, before loading: OpenBLAS would ask for more forever."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < _LIBRARIES:
        raise StorageError(
            f"the address space is limited to {limit:,} bytes; expected at least {_LIBRARIES:,} for the libraries; "
            "raise the limit (ulimit -v)"
        )


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


class _Signals:
    """The first signal is raised as an error; more of them must not disturb the clearing up."""

    errors: ClassVar[dict[int, type[BaseException]]] = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}

    def __init__(self) -> None:
        self.raised = self.again = 0  # the signal
        self.over = False

    def handle(self, number: int, _frame: FrameType | None) -> None:
        if not self.raised and not self.over:
            self.raised = number
            signal.setitimer(signal.ITIMER_REAL, _GRACE_SECONDS)
            raise self.errors[number]

    def unraisable(self, ignored: sys.UnraisableHookArgs) -> None:
        """Raise a signal's error once more where a destructor or a callback from C has swallowed it.

        Python raises it wherever the main thread is, also where nothing can rise from, and then only tells this hook:
        https://docs.python.org/3.11/library/signal.html#note-on-signal-handlers-and-exceptions
        """
        if self.raised and ignored.exc_type is self.errors[self.raised]:
            self.again, self.raised = self.raised, 0
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)
        # Once there was a signal, objects that it left half made complain when they go, and Python of one that comes
        # while it begins to ignore them.
        elif not self.raised and not self.over:
            sys.__unraisablehook__(ignored)

    def remember(self, _number: int, _frame: FrameType | None) -> None:
        """Come back to a signal whose error was swallowed, or after which the process has not ended.

        Threads at work end when their work does; and an error that rises between two steps of a lock leaves it locked.
        """
        again, self.again = self.again, 0
        if again:
            signal.raise_signal(again)  # whose handler may be one that lets it wait
        elif self.raised:
            remove_left()
            code = 128 + self.raised
            with suppress(OSError):
                os.write(2, f"error: {ENDED[code]}\n".encode())
            os._exit(code)

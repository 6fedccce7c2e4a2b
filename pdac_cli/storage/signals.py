"""Other handlers for signals in a block: signals that wait, or that only ask."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
Handler = Callable[[int, FrameType | None], None]


@contextmanager
def handled(signals: Sequence[signal.Signals], handler: Handler) -> Iterator[None]:
    """Give these signals another handler in the block; nothing in other threads, where Python runs no handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Let Python's signal handlers run after the block only, not in the middle of a C library's work."""
    arrived: list[int] = []
    with handled(
        [number for number in SIGNALS if callable(signal.getsignal(number))],
        lambda number, _: arrived.append(number),
    ):
        yield
    for number in arrived:
        signal.raise_signal(number)


@contextmanager
def stop_requests(signals: Sequence[signal.Signals] = SIGNALS) -> Iterator[Callable[[], bool]]:
    """Within the block, these signals ask for an end that loses nothing; yields whether they have."""
    asked = threading.Event()
    with handled(signals, lambda _signal, _frame: asked.set()):
        yield asked.is_set

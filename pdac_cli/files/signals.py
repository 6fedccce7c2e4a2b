"""Signals that wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Let Python's signal handlers run after the block only, not in the middle of a C library's work."""
    if threading.current_thread() is not threading.main_thread():  # handlers run in the main thread only
        yield
        return
    arrived: list[int] = []
    former = {int(number): signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handled = {number: handler for number, handler in former.items() if callable(handler)}
    for number in handled:
        signal.signal(number, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
    for number in arrived:
        signal.raise_signal(number)

"""Requests to end early, for commands that can go on later."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_requests(signals: Sequence[signal.Signals] = SIGNALS) -> Iterator[Callable[[], bool]]:
    """Within the block, these signals ask for an end that loses nothing; yields whether they have."""
    asked = threading.Event()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    former = {number: signal.signal(number, ask) for number in signals}
    try:
        yield asked.is_set
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)

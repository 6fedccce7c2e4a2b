"""Requests to end early, for commands that can go on later."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from pdac_cli.files.signals import SIGNALS, handled


@contextmanager
def stop_requests(signals: Sequence[signal.Signals] = SIGNALS) -> Iterator[Callable[[], bool]]:
    """Within the block, these signals ask for an end that loses nothing; yields whether they have."""
    asked = threading.Event()
    with handled(signals, lambda _signal, _frame: asked.set()):
        yield asked.is_set

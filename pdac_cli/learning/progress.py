"""How far a continual run is, and what its time went into."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from pdac_cli.arrays import Array

STAGES = ("training", "extraction", "selection", "retrieval", "weighting", "evaluation")


@dataclass
class RunProgress:
    """How far a run is, and what it has come to so far."""

    task: int = 0  # finished
    epoch: int = 0  # finished of the task under way
    step: int = 0  # made of the epoch under way
    loss: float = 0.0  # sum over these steps
    losses: list[list[float]] = field(default_factory=list)  # mean loss of each epoch, by task
    accuracy: list[list[float]] = field(default_factory=list)  # A_{t,j}, j ≤ t
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    _running: list[str] = field(default_factory=list)
    _since: float = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of a block as that of a stage; a stage within another is not counted twice."""
        self.mark()
        self._running.append(name)
        try:
            yield
        finally:
            self.mark()
            self._running.pop()

    def mark(self) -> None:
        """Count the time up to now."""
        now = time.perf_counter()
        if self._running:
            stage = self._running[-1]
            self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._since
        self._since = now

    def matrix(self) -> Array:
        """Return the accuracies as (T, T), NaN above the diagonal."""
        size = len(self.accuracy)
        out = np.full((size, size), np.nan)
        for t, row in enumerate(self.accuracy):
            out[t, : len(row)] = row
        return out

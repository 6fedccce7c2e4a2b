"""SPDAC, the paper's Algorithm 2: a reservoir that a row enters the more likely the denser it lies."""

from __future__ import annotations

from pdac_cli.selection.streams.er import replay
from pdac_cli.selection.streams.interface import Batch, Held, StreamingMethod
from pdac_cli.selection.streams.reservoir import admit


def keep(held: Held, batch: Batch) -> None:
    """Reservoir sampling by relative density, Eqs. (18) and (19)."""
    if batch.epsilon is None:
        raise ValueError("offered without densities")
    admit(held, batch, batch.epsilon)


SPDAC = StreamingMethod(keep, replay, needs_density=True, needs_features=True)

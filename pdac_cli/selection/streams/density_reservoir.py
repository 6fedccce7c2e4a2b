"""SPDAC as printed, the paper's Algorithm 2: a reservoir that a row enters the more likely the denser it lies."""

from __future__ import annotations

from pdac_cli.selection.streams.er import replay
from pdac_cli.selection.streams.interface import Batch, KeepContext, StreamingMethod
from pdac_cli.selection.streams.reservoir import admit


def keep(context: KeepContext, batch: Batch) -> None:
    """Reservoir sampling by relative density, Eqs. (18) and (19)."""
    if batch.epsilon is None:
        raise ValueError("given without densities")
    admit(context, batch, batch.epsilon)


PRINTED_SPDAC = StreamingMethod(keep, replay, needs_density=True, needs_features=True)

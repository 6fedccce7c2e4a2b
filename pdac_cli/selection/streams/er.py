"""ER, experience replay: a reservoir of the stream, and rows of it drawn uniformly beside each batch.

Follows Chaudhry et al. 2019 and the public code (mammoth, RaptorMai): every pass of a relaxed run is offered.
Departs: a row that is stored is not stored a second time, as that code may.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.selection.streams.interface import Batch, KeepContext, Step, StreamingMethod
from pdac_cli.selection.streams.reservoir import admit


def keep(context: KeepContext, batch: Batch) -> None:
    """Reservoir sampling: every row of the stream is in the buffer with the same probability."""
    admit(context, batch, epsilon=np.ones(len(batch)))


def replay(step: Step) -> Array:
    """Draw stored rows uniformly, each at most once."""
    count = min(step.count, len(step.stored))
    return step.rng.choice(step.stored, count, replace=False) if count else np.empty(0, np.int64)


ER = StreamingMethod(keep, replay, is_reference=True)

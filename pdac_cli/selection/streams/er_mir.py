"""ER-MIR, maximally interfered retrieval (Aljundi et al. 2019): replay the rows that the new ones would harm most.

Follows section 3.1 of the paper and `mir_retrieve.py` of the code that ASER's authors publish it in: of 50 stored rows
drawn uniformly, those whose loss rises most.  Departs: the virtual step is on the new rows alone, as in the paper; that
code takes the gradient that is there at the time.  Losses are of rows that are not augmented.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.selection.streams import er
from pdac_cli.selection.streams.interface import Step, StreamingMethod


def replay(step: Step) -> Array:
    """Of some rows drawn uniformly, take those whose loss rises most by a virtual step on the new rows alone."""
    drawn = er.replay(replace(step, count=max(step.count, step.settings.er_mir.candidates)))
    if len(drawn) <= step.count or step.count == 0:
        return drawn[: step.count]
    before, after = step.network.losses(drawn, step=step.new)
    return drawn[np.argsort(before - after, kind="stable")[: step.count]]


ER_MIR = StreamingMethod(er.keep, replay, needs_network="the losses after a virtual step")

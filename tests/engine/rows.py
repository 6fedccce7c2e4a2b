"""Rows in memory for tests of the engine."""

from dataclasses import replace

import numpy as np

from pdac_cli.engine.plan import Classes, Plan
from pdac_cli.engine.sources import MemorySource
from tests.oracles import clustered

PLAN = Plan(memory=1 << 30, jobs=2, chunk_rows=1000)
SCRATCH = replace(PLAN, memory=1000)


def mixed():
    """Rows of four classes, in any order."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([2, 3, 7, 40], [1, 150, 900, 2400]))
    return MemorySource(clustered(len(y), 20, 6).astype("f4") + y[:, None].astype("f4"), y)


def classes_of(source):
    return Classes(*np.unique(source.y, return_counts=True))

"""Steps of training that are about to be made, without a network to make them."""

import numpy as np

from pdac_cli.options.stream import MethodOptions
from pdac_cli.selection.streams.interface import Step


def step_of(stored, new=(), y=None, earlier=None, count=32, seed=0, network=None, **settings):
    stored, new = np.asarray(stored, np.int64), np.asarray(new, np.int64)
    y = np.zeros(1000, int) if y is None else y
    earlier = np.zeros(len(stored), bool) if earlier is None else earlier
    return Step(new, stored, earlier, y, count, np.random.default_rng(seed), network, MethodOptions(**settings))

"""Steps of training that are about to be made, without a network to make them."""

import numpy as np

from pdac_cli.options.declare import build
from pdac_cli.options.methods import MethodOptions
from pdac_cli.selection.streams.interface import Influence, Step


class FakeNetwork:
    """Has features for every row, and losses and influences as told."""

    def __init__(self, h=None, losses=None, influences=None):
        self.h, self.told, self.slopes, self.asked = h, losses, influences, []

    def look(self, rows):
        self.asked.append(rows)
        return self.h[rows], np.zeros((len(rows), 2))

    def losses(self, rows, step):
        self.asked.append((rows, step))
        return self.told[0][rows], self.told[1][rows]

    def influences(self, rows, validation):
        self.asked += validation
        return [Influence(slope[rows], loss) for slope, loss in self.slopes[: len(validation)]]


def step_of(stored, new=(), y=None, earlier=None, count=32, seed=0, network=None, **settings):
    stored, new = np.asarray(stored, np.int64), np.asarray(new, np.int64)
    y = np.zeros(1000, int) if y is None else y
    earlier = np.zeros(len(stored), bool) if earlier is None else earlier
    return Step(new, stored, earlier, y, count, np.random.default_rng(seed), network, build(MethodOptions, settings))

"""EM as the tests of mixtures and of the C code run it."""

import numpy as np

from pdac_cli.density.blocks import ROWS, empty_blocks, fill
from pdac_cli.density.em import expectation_maximisation, start


def fit(classes, comps, iterations, ridge=1e-6, tol=None, dim=None):
    """EM of several classes from their first rows as means."""
    dims = np.array([xi.shape[1] for xi in classes])
    blocks = empty_blocks([len(xi) for xi in classes], dim or dims.max())
    for c, xi in enumerate(classes):
        padded = np.zeros((-len(xi) // ROWS * -ROWS, xi.shape[1]))
        padded[: len(xi)] = xi
        fill(blocks, c, 0, padded.reshape(-1, ROWS, xi.shape[1]).swapaxes(1, 2))
    variance = np.array([xi.var(axis=0).mean() or 1.0 for xi in classes])
    chosen = [np.arange(min(comps, len(xi))) for xi in classes]
    first = start(blocks, dims, variance, chosen, comps)
    return expectation_maximisation(blocks, first, ridge * variance, iterations, tol)

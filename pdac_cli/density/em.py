"""Expectation–maximisation of many classes at once, Eqs. (5)–(7); what a step needs of the rows is in `sweep`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.blocks import ROWS, Blocks
from pdac_cli.density.device import NUMPY, Device, Workspace
from pdac_cli.density.mixture import Mixtures, coefficients_of, mixtures_of, moments_of, second_moments
from pdac_cli.density.sweep import by_tail, sweep_over


def start(blocks: Blocks, dims: Array, variance: Array, chosen: Sequence[Array], comps: int) -> Mixtures:
    """Return the initial mixtures: means at the chosen rows of each class, α = 1/L_y, Σ = identity × variance (C,)."""
    classes, dim = len(blocks.counts), blocks.xi.shape[1]
    alpha, mu = np.zeros((classes, comps)), np.zeros((classes, comps, dim))
    for c, rows in enumerate(chosen):
        alpha[c, : len(rows)] = 1 / len(rows)
        mu[c, : len(rows)] = blocks.xi[blocks.starts[c] + rows // ROWS, :, rows % ROWS]
    diagonal = np.where(np.arange(dim) < dims[:, None], variance[:, None], 1.0)
    sigma = np.broadcast_to((diagonal[:, :, None] * np.eye(dim))[:, None], (classes, comps, dim, dim)).copy()
    return Mixtures(alpha, mu, sigma, dims)


def expectation_maximisation(
    blocks: Blocks,
    mixtures: Mixtures,
    ridge: Array,
    iterations: int,
    tol: float | None,
    device: Device = NUMPY,
    workspace: Workspace | None = None,
) -> tuple[Mixtures, Array]:
    """Run EM and return the mixtures and the mean log-likelihood before each step and after the last.

    The likelihoods are (C, iterations + 1), NaN after a class that stopped because it gained less than `tol`.
    """
    comps, dims, counts = mixtures.alpha.shape[1], mixtures.dims, blocks.counts
    alpha, moments = mixtures.alpha.copy(), second_moments(mixtures)
    history = np.full((len(alpha), iterations + 1), np.nan)
    active = by_tail(blocks)
    workspace = workspace or Workspace()
    sweep = sweep_over(blocks, active, comps, device, workspace)
    for step in range(iterations + 1):
        theta = coefficients_of(alpha[active], moments[active], dims[active])
        sums, log_likelihood = sweep(theta, last=step == iterations)
        history[active, step] = log_likelihood / counts[active]
        if tol is not None and step:
            going = history[active, step] - history[active, step - 1] >= tol
            if not going.all():
                active, sums = active[going], sums[going]
                sweep = sweep_over(blocks, active, comps, device, workspace)
        if step == iterations or not len(active):
            break
        weights = sums[:, :comps, 0]
        alpha[active] = weights / weights.sum(axis=1, keepdims=True)  # the rows' number but for rounding
        moments[active] = moments_of(sums, comps, dims[active], ridge[active])
    fitted = mixtures_of(alpha, moments, dims)
    # A component that is not used keeps its padding.
    sigma = np.where((mixtures.alpha > 0)[..., None, None], fitted.sigma, mixtures.sigma)
    return Mixtures(alpha, fitted.mu, sigma, dims), history

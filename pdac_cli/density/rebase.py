"""A mixture carried from one projection into another, and one streamed EM step in it, Eqs. (15)–(17)."""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.mixture import Mixtures, coefficients, e_step, m_step, quadratic
from pdac_cli.density.split_merge import regrouped

ALPHA_FLOOR = 1e-6


def carry(mixture: Mixtures, W: Array, W_new: Array, shift: Array, beyond: Array) -> Mixtures:
    """Return one class's mixture (C = 1) in the coordinates of a new basis, Eq. (15).

    μ' = W'ᵀ(W μ + h̄ − h̄') and Σ' = T Σ Tᵀ + beyond with T = W'ᵀW.  W (D, d_y), W_new (D, d_y'); shift (D,) is
    h̄ − h̄'; beyond (d_y', d_y') is the variance that the new directions have outside the old span.
    """
    old, new, width = W.shape[1], W_new.shape[1], mixture.mu.shape[2]
    T = W_new.T @ W
    mu, sigma = np.zeros_like(mixture.mu), np.zeros_like(mixture.sigma)
    mu[0, :, :new] = mixture.mu[0, :, :old] @ T.T + W_new.T @ shift
    sigma[0, :, :new, :new] = T @ mixture.sigma[0, :, :old, :old] @ T.T + beyond
    sigma[0, :, np.arange(new, width), np.arange(new, width)] = 1.0
    return Mixtures(mixture.alpha, mu, sigma, np.array([new]))


def with_dims(mixture: Mixtures, dims: int) -> Mixtures:
    """Return one class's mixture (C = 1) with other coordinates in use: new ones are standard normal at first."""
    used = np.arange(mixture.mu.shape[2]) < dims
    mu = np.where(used, mixture.mu, 0.0)
    sigma = np.where(used[:, None] & used, mixture.sigma, np.eye(len(used)))
    return Mixtures(mixture.alpha, mu, sigma, np.array([dims]))


def floored(mixture: Mixtures, ridge: float) -> Mixtures:
    """Return the mixture with every eigenvalue of its covariances at `ridge` or above."""
    lift = np.maximum(0.0, ridge - np.linalg.eigvalsh(mixture.sigma)[..., 0])
    if not lift.any():
        return mixture
    width = mixture.mu.shape[2]
    used = np.arange(width) < mixture.dims[:, None, None]  # (1, 1, d)
    sigma = mixture.sigma + (lift[..., None] * used)[..., None] * np.eye(width)
    return Mixtures(mixture.alpha, mixture.mu, sigma, mixture.dims)


def streaming_em(
    mixture: Mixtures, xi: Array, beta: float, ridge: float, *, regroup: bool = False
) -> tuple[Mixtures, float]:
    """Return one class's mixture (C = 1) after one streamed EM step on xi (n, d_y), and its mean log p(ξ|y) before.

    The responsibilities are (16).  μ and Σ move by β to those of the rows, the rows' Σ taken about the moved μ as in
    the paper; α is the rows' (17), floored.  A component without responsibility stays as it is.  With `regroup`,
    components may change places before the step.
    """
    comps, width = mixture.mu.shape[1:]
    padded = np.zeros((1, width, len(xi)))
    padded[0, : xi.shape[1]] = xi.T
    phi = quadratic(padded, np.ones((1, len(xi))))
    r, log_p = e_step(coefficients(mixture), phi, comps)
    better = regrouped(mixture, xi, r[0, :comps]) if regroup else None
    if better is not None:
        mixture = better
        r, log_p = e_step(coefficients(mixture), phi, comps)
    sums = r @ phi.swapaxes(1, 2)
    rows = m_step(sums, comps, mixture.dims, np.array([len(xi)]), np.array([ridge]))
    moved = (sums[:, :comps, 0] > ALPHA_FLOOR)[..., None]  # (1, L, 1)
    step = rows.mu - mixture.mu
    mu = mixture.mu + np.where(moved, beta * step, 0.0)
    about = rows.sigma + (1 - beta) ** 2 * step[..., :, None] * step[..., None, :]
    sigma = np.where(moved[..., None], (1 - beta) * mixture.sigma + beta * about, mixture.sigma)
    alpha = np.maximum(rows.alpha, ALPHA_FLOOR)
    return Mixtures(alpha / alpha.sum(), mu, sigma, mixture.dims), float(log_p.mean())

"""Components of a streamed mixture put where they are needed: two that lie together merged, a wide one cut in two.

A mixture that began on a handful of rows often has several components on one cluster and one over two or three, and
single EM steps never part them.  Both sides of the exchange are log-likelihood per row: Runnalls' bound on what merging
two components loses (IEEE Trans. AES 43(3), 2007), and what two normal densities gain over one on a component's rows,
cut in two at their mean on a long axis.  Rows of one normal density only lose by a cut: ½ ln(1/(1 − 2/π)) < ln 2.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.mixture import Mixtures

_AXES = 3  # longest axes of a component across which a cut is tried
_MOST = 0.95  # of a component's variance, at most this is taken to lie between its halves
_SHRINK = 1e-3  # of the component's covariance is added to that of its rows, which may have no inverse
_TINY = np.finfo(np.float64).tiny

Components = tuple[Array, Array, Array]  # alpha (k,), mu (k, d_y), sigma (k, d_y, d_y)


def regrouped(mixture: Mixtures, xi: Array, r: Array) -> Mixtures | None:
    """Return one class's mixture (C = 1) after the best exchange, None where none gains.

    xi (n, d_y) are rows and r (L, n) their responsibilities.
    """
    dims = xi.shape[1]
    parts = (mixture.alpha[0], mixture.mu[0, :, :dims], mixture.sigma[0, :, :dims, :dims])
    gain, above, step = _cuts(parts, xi, r)
    cut, axis = np.unravel_index(np.argmax(gain), gain.shape)
    first, second = np.triu_indices(len(r), 1)
    free = (first != cut) & (second != cut)
    if gain[cut, axis] <= 0 or not free.any():
        return None
    loss, merged = _merges(parts, first[free], second[free])
    pair = int(np.argmin(loss))
    if gain[cut, axis] <= loss[pair]:
        return None
    halves = _halves(parts, int(cut), float(above[cut, axis]), step[cut, axis])
    places = [first[free][pair], second[free][pair], cut]
    new = Mixtures(mixture.alpha.copy(), mixture.mu.copy(), mixture.sigma.copy(), mixture.dims)
    alpha, mu, sigma = (np.concatenate([one[None, pair], two]) for one, two in zip(merged, halves, strict=True))
    new.alpha[0, places], new.mu[0, places, :dims], new.sigma[0, places, :dims, :dims] = alpha, mu, sigma
    return new


def _cuts(parts: Components, xi: Array, r: Array) -> tuple[Array, Array, Array]:
    """Return what cutting each component across each axis gains (L, A), the share p of its rows above it (L, A), and s.

    s (L, A, d_y) is the root of the covariance between the halves, ssᵀ.  With S the covariance of the component's rows
    and q = sᵀS⁻¹s, the cut gains α(−½ ln(1 − q) − H(p)); q is adjusted for being found on these rows, as R² is.  A half
    of fewer rows than dimensions is none, and neither is one of two rows that leave nothing to adjust by.
    """
    alpha, _, sigma = parts
    dims = xi.shape[1]
    weight = r.sum(axis=1)[:, None] + _TINY  # (L, 1)
    mean = r @ xi / weight
    S = (r[:, None] * xi.T) @ xi / weight[..., None] - mean[:, :, None] * mean[:, None] + _SHRINK * sigma
    axes = np.linalg.eigh(sigma)[1][:, :, -_AXES:].swapaxes(1, 2)  # (L, A, d_y)
    upper = r[:, None] * (axes @ xi.T > axes @ mean[..., None])  # (L, A, n)
    p = upper.sum(axis=2) / weight
    enough = (np.minimum(p, 1 - p) * weight >= dims) & (weight >= dims + 2)
    p = np.where(enough, p, 0.5)
    step = (upper @ xi / weight[..., None] - p[..., None] * mean[:, None]) / np.sqrt(p * (1 - p))[..., None]
    q = (step * np.linalg.solve(S, step.swapaxes(1, 2)).swapaxes(1, 2)).sum(axis=2)
    left = np.where(enough, (1 - q) * (weight - 1) / np.where(enough, weight - dims - 1, 1), 1)
    gain = -0.5 * np.log(np.maximum(left, 1 - _MOST)) + p * np.log(p) + (1 - p) * np.log(1 - p)
    return np.where(enough, alpha[:, None] * gain, -np.inf), p, step


def _merges(parts: Components, first: Array, second: Array) -> tuple[Array, Components]:
    """Return what merging each pair of components loses at most, and the merged ones, with the pair's moments."""
    alpha, mu, sigma = parts
    total = alpha[first] + alpha[second]
    p = (alpha[first] / total)[:, None]
    apart = mu[first] - mu[second]
    joint = p[..., None] * sigma[first] + (1 - p)[..., None] * sigma[second]
    joint += (p * (1 - p))[..., None] * apart[:, :, None] * apart[:, None]
    weighed = alpha * np.linalg.slogdet(sigma)[1]
    loss = 0.5 * (total * np.linalg.slogdet(joint)[1] - weighed[first] - weighed[second])
    return loss, (total, p * mu[first] + (1 - p) * mu[second], joint)


def _halves(parts: Components, cut: int, above: float, step: Array) -> Components:
    """Return two components that together have the moments of one, the covariance between them being step·stepᵀ."""
    alpha, mu, sigma = (part[cut] for part in parts)
    step = step * np.sqrt(min(1.0, _MOST / float(step @ np.linalg.solve(sigma, step))))
    shares = np.array([above, 1 - above])
    offsets = np.sqrt(shares[::-1] / shares) * np.array([1.0, -1.0])
    within = sigma - np.outer(step, step)
    return alpha * shares, mu + offsets[:, None] * step, np.stack([within, within])

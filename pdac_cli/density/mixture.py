"""Gaussian mixtures of many classes at once: densities and the two steps of expectation–maximisation, Eqs. (5)–(7).

With z = [1, x], a component's weighted log-density is a quadratic form in z, so with the quadratic features
φ(x) = [z_i z_j (i ≤ j)] = [1, x_i, x_i x_j (i ≤ j)] it is one inner product θ_l·φ(x), and the sums of the M-step are
one product r·φᵀ.  A component is carried from the M-step to the next E-step as its second moments E[z zᵀ] =
[[1, μᵀ], [μ, Σ + μμᵀ]], whose determinant is Σ's and whose inverse holds all of θ.  Arrays: phi (S, K, n),
theta (S, L', K), r (S, L', n), with S stacked pieces of classes, n rows and K = (d + 1)(d + 2)/2.  A padding row has
φ = 0 and so adds nothing to any sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density import kernel
from pdac_cli.errors import DataError

_LOG_2PI = float(np.log(2 * np.pi))
_NEVER = -1e30  # log-weight of a component that is not used: finite, so that 0 · it is 0, also in single precision
_TINY = 10 * np.finfo(np.float64).eps  # keeps a component without responsibility finite, as in scikit-learn


@dataclass(frozen=True)
class Mixtures:
    """The mixtures of C classes with up to L components in up to d dimensions; what a class does not use is padding."""

    alpha: Array  # (C, L), 0 for unused components
    mu: Array  # (C, L, d), 0 in unused dimensions
    sigma: Array  # (C, L, d, d), identity in unused components and dimensions
    dims: Array  # (C,) d_y


def quadratic(xi: Any, valid: Any, out: Any = None, xp: Any = np) -> Any:
    """Return φ of each row, 0 for padding, in `out` if given: xi (S, d, n), valid (S, n) -> (S, K, n)."""
    dim = xi.shape[1]
    phi = np.empty(quadratic_shape(*xi.shape)) if out is None else out
    phi[:, 0] = valid
    phi[:, 1 : 1 + dim] = xi
    at = 1 + dim
    for i in range(dim):
        xp.multiply(xi[:, i:], xi[:, i : i + 1], out=phi[:, at : at + dim - i])
        at += dim - i
    return phi


def quadratic_shape(count: int, dim: int, rows: int) -> tuple[int, int, int]:
    """Return φ's shape (S, K, n) for rows xi of shape (S, d, n)."""
    return count, (dim + 1) * (dim + 2) // 2, rows


def second_moments(mixtures: Mixtures) -> Array:
    """Return E[z zᵀ] of each component: (C, L, d + 1, d + 1)."""
    mu = mixtures.mu
    moments = np.empty((*mu.shape[:2], mu.shape[2] + 1, mu.shape[2] + 1))
    moments[..., 0, 0] = 1
    moments[..., 0, 1:] = moments[..., 1:, 0] = mu
    moments[..., 1:, 1:] = mixtures.sigma + mu[..., :, None] * mu[..., None, :]
    return moments


def coefficients(mixtures: Mixtures) -> Array:
    """Return θ with θ_l·φ(x) = log α_l + log N(x; μ_l, Σ_l): (C, L', K), L' the multiple of four BLAS likes."""
    return coefficients_of(mixtures.alpha, second_moments(mixtures), mixtures.dims)


def coefficients_of(alpha: Array, moments: Array, dims: Array) -> Array:
    """Return the same from the components' second moments (C, L, d + 1, d + 1)."""
    classes, comps, width, _ = moments.shape
    inverse, half_log = _inverses(moments)
    theta = np.zeros((classes, -(-comps // 4) * 4, inverse.shape[2]))
    used = theta[:, :comps]
    np.multiply(inverse, _packing(width)[2], out=used)
    # The moments' determinant is Σ's, their inverse's corner 1 + μᵀΣ⁻¹μ.
    with np.errstate(divide="ignore"):
        constant = used[..., 0] + np.log(alpha) - half_log
    constant += 0.5 - 0.5 * _LOG_2PI * dims[:, None]
    used[..., 0] = np.maximum(constant, _NEVER)
    return theta


def _inverses(moments: Array) -> tuple[Array, Array]:
    """Return the upper triangles of the inverses and half the log-determinants: (C, L, w, w) -> (C, L, K), (C, L)."""
    upper, _, _ = _packing(moments.shape[-1])
    if kernel.compiled is not None:
        inverse, half_log = np.empty((*moments.shape[:2], len(upper))), np.empty(moments.shape[:2])
        if kernel.compiled.inverses(np.ascontiguousarray(moments), inverse, half_log, moments.shape[-1]):
            return inverse, half_log
    factor = cholesky(moments)
    root = np.linalg.inv(factor)
    flat = (root.swapaxes(-1, -2) @ root).reshape(*moments.shape[:2], -1)
    return flat.take(upper, axis=2), np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)


@cache
def _packing(width: int) -> tuple[Array, Array, Array]:
    """Return where the upper triangle is in a symmetric matrix, where its entries are in that, and θ's factors.

    The first is (K,), places in the flat matrix; the second (width, width), places among the K; the third (K,), the
    factor of z_i z_j in −½ zᵀQz.
    """
    row, column = np.triu_indices(width)
    places = np.empty((width, width), np.intp)
    places[row, column] = places[column, row] = np.arange(len(row))
    return row * width + column, places, np.where(row == column, -0.5, -1.0)


def cholesky(sigma: Array) -> Array:
    """Return the lower Cholesky factors, with an error that says what to do where there is none."""
    try:
        return np.linalg.cholesky(sigma)
    except np.linalg.LinAlgError:
        smallest = float(np.linalg.eigvalsh(sigma).min())
        raise DataError(
            f"a mixture component collapsed: its covariance has the eigenvalue {smallest:.3g}, expected more than 0; "
            "raise --ridge, lower --components or lower --dim"
        ) from None


def e_step(theta: Any, phi: Any, comps: int) -> tuple[Any, Any]:
    """Return responsibilities (6) and log p(ξ|y) (5): theta (S, L', K), phi (S, K, n) -> r (S, L', n), log_p (S, n)."""
    r, largest, total = responsibilities(theta, phi, comps)
    return r, largest + np.log(total)


def responsibilities(theta: Any, phi: Any, comps: int, xp: Any = np, *, quick: bool = False) -> tuple[Any, Any, Any]:
    """Return r (S, L', n) and, with log p = largest + log total, largest and total (S, n); total is L for padding.

    Only the first `comps` of the L' components are components; the others get responsibility 0.  `quick` takes the
    exponential in single precision: relative errors of 1e-7 in r, which the sums of the M-step average out.
    """
    r = theta @ phi
    used = r[:, :comps]
    largest = xp.amax(used, 1)
    used -= largest[:, None]
    if quick and xp is np:  # NumPy has no vectorised exponential in double precision before AVX-512
        small = used.astype(np.float32)
        np.exp(small, out=small)
        total = small.sum(1)
        small /= total[:, None]
        used[...] = small
    else:
        xp.exp(used, out=used)
        total = xp.sum(used, 1)
        used /= total[:, None]
    return r, largest, total


def m_step(sums: Array, comps: int, dims: Array, counts: Array, ridge: Array) -> Mixtures:
    """Return α, μ, Σ (7) from the classes' sums r·φᵀ (C, L', K); ridge (C,) is added to Σ's diagonal."""
    return mixtures_of(sums[:, :comps, 0] / counts[:, None], moments_of(sums, comps, dims, ridge), dims)


def moments_of(sums: Array, comps: int, dims: Array, ridge: Array) -> Array:
    """Return the components' second moments from the sums r·φᵀ, with the ridge: (C, L', K) -> (C, L, d + 1, d + 1)."""
    width = int((np.sqrt(8 * sums.shape[2] + 1) - 1) / 2)  # K = width (width + 1)/2
    sums = sums[:, :comps]
    _, places, _ = _packing(width)
    moments: Array = sums.take(places, axis=2)
    moments /= moments[..., :1, :1] + _TINY
    moments[..., 0, 0] = 1
    diagonal = moments.reshape(*sums.shape[:2], -1)[..., width + 1 :: width + 1]
    diagonal += np.where(np.arange(1, width) <= dims[:, None], ridge[:, None], 1.0)[:, None]
    return moments


def mixtures_of(alpha: Array, moments: Array, dims: Array) -> Mixtures:
    """Return the mixtures of these weights and second moments."""
    mu = moments[..., 0, 1:].copy()
    return Mixtures(alpha, mu, moments[..., 1:, 1:] - mu[..., :, None] * mu[..., None, :], dims)

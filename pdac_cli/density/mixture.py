"""Gaussian mixtures of many classes at once, by expectation–maximisation, Eqs. (5)–(7).

With the quadratic features φ(x) = [1, x_i, x_i x_j (i ≤ j)], a component's weighted log-density is one inner product
θ_l·φ(x), and the sums of the M-step are one product r·φᵀ.  Both are taken block by block (see `blocks`), for all
classes of a group in one call.  Arrays: phi (B, K, R), theta (C, L, K), r (B, L, R), with B blocks of R rows, C
classes and K = 1 + d + d(d+1)/2.  A padding row has φ = 0 and so adds nothing to any sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from pdac_cli.density.blocks import ROWS, SEGMENT, Array, block_count
from pdac_cli.density.device import NUMPY, Device
from pdac_cli.errors import DataError

Allocate = Callable[[tuple[int, ...]], Array]  # zeros of this shape, wherever there is room

_LOG_2PI = float(np.log(2 * np.pi))
_NEVER = -1e30  # log-weight of a component that is not used: finite, so that 0 · it is 0, also in single precision
_KEPT_BATCHES = 32  # of 1 MB: above this, φ is made anew in every step
_TINY = 10 * np.finfo(np.float64).eps  # keeps a component without responsibility finite, as in scikit-learn


@dataclass(frozen=True)
class Mixtures:
    """The mixtures of C classes with up to L components in up to d dimensions; what a class does not use is padding."""

    alpha: Array  # (C, L), 0 for unused components
    mu: Array  # (C, L, d), 0 in unused dimensions
    sigma: Array  # (C, L, d, d), identity in unused components and dimensions
    dims: Array  # (C,) d_y


@dataclass(frozen=True)
class Blocks:
    """The projected rows of C classes, block by block, class after class."""

    xi: Array  # (B, d, R), 0 beyond d_y and beyond the class's rows
    starts: Array  # (C + 1,) the first block of each class
    counts: Array  # (C,) rows of each class

    def segments(self, classes: Sequence[int] | Array) -> Iterator[tuple[int, int, int]]:
        """Yield (class, first block, last block + 1) of each segment of these classes."""
        for c in map(int, classes):
            for first in range(self.starts[c], self.starts[c + 1], SEGMENT):
                yield c, first, min(first + SEGMENT, int(self.starts[c + 1]))

    def valid(self, c: int, first: int, last: int) -> Array:
        """Return 1 for the rows of these blocks of class c, 0 for padding: (last − first, R)."""
        at = (first - self.starts[c]) * ROWS
        valid: Array = np.arange(at, at + (last - first) * ROWS).reshape(-1, ROWS) < self.counts[c]
        return valid.astype(np.float64)


def empty_blocks(counts: Sequence[int], dim: int, allocate: Allocate = np.zeros) -> Blocks:
    """Return blocks for classes of these sizes, to be filled by `fill`."""
    starts = np.concatenate([[0], np.cumsum([block_count(n) for n in counts])])
    return Blocks(allocate((int(starts[-1]), dim, ROWS)), starts, np.array(counts))


def fill(blocks: Blocks, c: int, at: int, xi: Array) -> None:
    """Lay projected rows of class c, from its row `at` (the first of a block) on, into their blocks.

    xi (blocks · ROWS, d_y) fills whole blocks, with zeros after the class's last row.
    """
    count, dim = len(xi) // ROWS, xi.shape[1]
    first = blocks.starts[c] + at // ROWS
    blocks.xi[first : first + count, :dim] = xi.reshape(count, ROWS, dim).swapaxes(1, 2)


def quadratic(xi: Any, valid: Any, xp: Any = np) -> Any:
    """Return φ of each row, 0 for padding: xi (B, d, R), valid (B, R) -> (B, K, R)."""
    products = [xi[:, i : i + 1] * xi[:, i:] for i in range(xi.shape[1])]
    return xp.concatenate([valid[:, None], xi, *products], 1)


def coefficients(mixtures: Mixtures) -> Array:
    """Return θ with θ_l·φ(x) = log α_l + log N(x; μ_l, Σ_l): (C, L', K), L' the multiple of four BLAS likes."""
    classes, comps, dim = mixtures.mu.shape
    chol = cholesky(mixtures.sigma)
    log_det = 2 * np.log(np.diagonal(chol, axis1=-2, axis2=-1)).sum(-1)
    inverse = np.linalg.inv(chol)
    precision = inverse.swapaxes(-1, -2) @ inverse
    linear = (precision @ mixtures.mu[..., None])[..., 0]
    square = (linear * mixtures.mu).sum(-1)
    with np.errstate(divide="ignore"):
        log_alpha = np.log(mixtures.alpha)
    theta = np.zeros((classes, *theta_shape(mixtures)))
    constant = log_alpha - 0.5 * (mixtures.dims[:, None] * _LOG_2PI + log_det + square)
    theta[:, :comps, 0] = np.where(mixtures.alpha > 0, constant, _NEVER)
    theta[:, :comps, 1 : 1 + dim] = linear
    row, column, halve = _upper(dim)
    theta[:, :comps, 1 + dim :] = precision[..., row, column] * halve
    return theta


@cache
def _upper(dim: int) -> tuple[Array, Array, Array]:
    """Return the places (i, j), i ≤ j, of a symmetric matrix and the factor of x_i x_j in −½ xᵀPx."""
    row, column = np.triu_indices(dim)
    return row, column, np.where(row == column, -0.5, -1.0)


def theta_shape(mixtures: Mixtures) -> tuple[int, int]:
    """Return (L', K)."""
    _, comps, dim = mixtures.mu.shape
    return -(-comps // 4) * 4, 1 + dim + dim * (dim + 1) // 2


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


def e_step(theta: Any, phi: Any, comps: int, xp: Any = np, *, quick: bool = False) -> tuple[Any, Any]:
    """Return responsibilities (6) and log p(ξ|y) (5): theta (B, L', K), phi (B, K, R) -> r (B, L', R), log_p (B, R).

    Only the first `comps` of the L' components are components; the others get responsibility 0.  `quick` takes the
    exponential in single precision: relative errors of 1e-7 in r, which the sums of the M-step average out.
    """
    r = theta @ phi
    used = r[:, :comps]
    largest = xp.amax(used, 1)
    used -= largest[:, None]
    if quick and xp is np:  # NumPy has no vectorised exponential in double precision before AVX-512
        small = used.astype(np.float32)
        used[...] = np.exp(small, out=small)
    else:
        xp.exp(used, out=used)
    total = xp.sum(used, 1)
    used /= total[:, None]
    r[:, comps:] = 0
    return r, xp.log(total) + largest


def m_step(sums: Array, comps: int, dims: Array, counts: Array, ridge: Array) -> Mixtures:
    """Return α, μ, Σ (7) from the classes' sums r·φᵀ (C, L', K); ridge (C,) is added to Σ's diagonal."""
    sums = sums[:, :comps]
    dim = int((np.sqrt(8 * sums.shape[2] + 1) - 3) / 2)  # K = (d + 1)(d + 2)/2
    weight = sums[..., 0] + _TINY
    mu = sums[..., 1 : 1 + dim] / weight[..., None]
    second = np.empty((*mu.shape, dim))
    row, column, _ = _upper(dim)
    second[..., row, column] = second[..., column, row] = sums[..., 1 + dim :]
    sigma = second / weight[..., None, None] - mu[..., :, None] * mu[..., None, :]
    used = np.arange(dim) < dims[:, None]  # (C, d)
    sigma[..., np.arange(dim), np.arange(dim)] += np.where(used, ridge[:, None], 1.0)[:, None]
    return Mixtures(sums[..., 0] / counts[:, None], mu, sigma, dims)


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
    blocks: Blocks, mixtures: Mixtures, ridge: Array, iterations: int, tol: float | None, device: Device = NUMPY
) -> tuple[Mixtures, Array]:
    """Run EM and return the mixtures and the mean log-likelihood before each step and after the last.

    The likelihoods are (C, iterations + 1), NaN after a class that stopped because it gained less than `tol`.
    """
    classes, comps = mixtures.alpha.shape
    alpha, mu, sigma = mixtures.alpha.copy(), mixtures.mu.copy(), mixtures.sigma.copy()
    history = np.full((classes, iterations + 1), np.nan)
    active = np.arange(classes)
    batches = _batches(blocks, active)
    for step in range(iterations + 1):
        current = Mixtures(alpha[active], mu[active], sigma[active], mixtures.dims[active])
        theta = np.zeros((classes, *theta_shape(mixtures)))
        theta[active] = coefficients(current)
        sums, log_likelihood = _sweep(batches, theta, comps, device, quick=step < iterations)
        history[active, step] = log_likelihood[active] / blocks.counts[active]
        if tol is not None and step:
            going = history[active, step] - history[active, step - 1] >= tol
            if not going.all():
                active = active[going]
                batches = _batches(blocks, active)
        if step == iterations or not len(active):
            break
        new = m_step(sums[active], comps, mixtures.dims[active], blocks.counts[active], ridge[active])
        alpha[active], mu[active] = new.alpha, new.mu
        # A component that is not used keeps its padding.
        sigma[active] = np.where((mixtures.alpha[active] > 0)[..., None, None], new.sigma, sigma[active])
    return Mixtures(alpha, mu, sigma, mixtures.dims), history


@dataclass(frozen=True)
class _Batch:
    """A few whole segments that are worked on in one call."""

    blocks: Blocks
    segments: Sequence[tuple[int, int, int]]
    owner: Array  # (b,) class of each block
    valid: Array  # (b, R) 1 for rows, 0 for padding
    kept: list[Any]  # phi (b, K, R) on the device, once it is made, where there is room to keep it

    def phi(self, device: Device, keep: bool) -> Any:
        """Return the quadratic features on the device: (b, K, R)."""
        if self.kept:
            return self.kept[0]
        xi = np.concatenate([self.blocks.xi[first:last] for _, first, last in self.segments])
        phi = quadratic(device.move(xi), device.move(self.valid), device.xp)
        if keep:
            self.kept.append(phi)
        return phi


def _batches(blocks: Blocks, classes: Sequence[int] | Array) -> list[_Batch]:
    """Gather the classes' segments into batches of about one segment's size."""
    gathered: list[list[tuple[int, int, int]]] = [[]]
    size = 0
    for c, first, last in blocks.segments(classes):
        if gathered[-1] and size + last - first > SEGMENT:
            gathered.append([])
            size = 0
        gathered[-1].append((c, first, last))
        size += last - first
    return [_batch(blocks, segments) for segments in gathered if segments]


def _batch(blocks: Blocks, segments: Sequence[tuple[int, int, int]]) -> _Batch:
    owner = np.repeat([c for c, _, _ in segments], [last - first for _, first, last in segments])
    return _Batch(blocks, segments, owner, np.concatenate([blocks.valid(*segment) for segment in segments]), [])


def _sweep(batches: Sequence[_Batch], theta: Array, comps: int, device: Device, quick: bool) -> tuple[Array, Array]:
    """Return the sums r·φᵀ (C, L', K) and the log-likelihoods (C,), added up block by block, segment by segment."""
    sums, log_likelihood = np.zeros_like(theta), np.zeros(len(theta))
    for batch in batches:
        phi = batch.phi(device, keep=len(batches) <= _KEPT_BATCHES)
        r, log_p = e_step(device.move(theta[batch.owner]), phi, comps, device.xp, quick=quick)
        part = device.host(r @ phi.swapaxes(1, 2))
        gain = (device.host(log_p) * batch.valid).sum(axis=1)
        at = 0
        for c, first, last in batch.segments:
            sums[c] += part[at : at + last - first].sum(axis=0)
            log_likelihood[c] += gain[at : at + last - first].sum()
            at += last - first
    return sums, log_likelihood

"""Gaussian mixtures of many classes at once, by expectation–maximisation, Eqs. (5)–(7).

With the quadratic features φ(x) = [1, x_i, x_i x_j (i ≤ j)], a component's weighted log-density is one inner product
θ_l·φ(x), and the sums of the M-step are one product r·φᵀ.  Both are taken block by block (see `blocks`), for all
classes of a group in one call.  Arrays: phi (B, K, R), theta (C, L, K), r (B, L, R), with B blocks of R rows, C
classes and K = 1 + d + d(d+1)/2.  A padding row has φ = 0 and so adds nothing to any sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pdac_cli.density.blocks import ROWS, SEGMENT, Array, block_count
from pdac_cli.errors import DataError

_LOG_2PI = float(np.log(2 * np.pi))
_NEVER = -1e300  # log-weight of a component that is not used: finite, so that 0 · it is 0
_TINY = 10 * np.finfo(np.float64).eps  # keeps a component without responsibility finite, as in scikit-learn


@dataclass(frozen=True)
class Mixtures:
    """The mixtures of C classes with up to L components in up to d dimensions; what a class does not use is padding."""

    alpha: Array  # (C, L), 0 for unused components
    mu: Array  # (C, L, d), 0 in unused dimensions
    sigma: Array  # (C, L, d, d), identity in unused components and dimensions
    dims: Array  # (C,) d_y

    def take(self, classes: Array) -> Mixtures:
        """Return the mixtures of some of the classes."""
        return Mixtures(self.alpha[classes], self.mu[classes], self.sigma[classes], self.dims[classes])


@dataclass(frozen=True)
class Blocks:
    """The quadratic features of the projected rows of C classes, block by block, class after class."""

    xi: Array  # (B, d, R)
    starts: Array  # (C + 1,) the first block of each class
    counts: Array  # (C,) rows of each class

    def segments(self, classes: Sequence[int]) -> Iterator[tuple[int, int, int]]:
        """Yield (class, first block, last block + 1) of each segment of these classes."""
        for c in classes:
            for start in range(self.starts[c], self.starts[c + 1], SEGMENT):
                yield c, start, min(start + SEGMENT, int(self.starts[c + 1]))

    def valid(self, start: int, stop: int, c: int) -> Array:
        """Return which rows of these blocks of class c are rows, not padding: (stop − start, R)."""
        first = (start - self.starts[c]) * ROWS
        rows: Array = np.arange(first, first + (stop - start) * ROWS).reshape(-1, ROWS)
        valid: Array = rows < self.counts[c]
        return valid


def to_blocks(projected: Sequence[Array], dim: int) -> Blocks:
    """Lay the projected rows of each class, (n_y, d_y), into blocks, zero beyond d_y."""
    counts = np.array([len(xi) for xi in projected])
    starts = np.concatenate([[0], np.cumsum([block_count(n) for n in counts])])
    out = np.zeros((int(starts[-1]), dim, ROWS))
    for c, xi in enumerate(projected):
        flat = np.zeros(((starts[c + 1] - starts[c]) * ROWS, xi.shape[1]))
        flat[: len(xi)] = xi
        out[starts[c] : starts[c + 1], : xi.shape[1]] = flat.reshape(len(flat) // ROWS, ROWS, xi.shape[1]).swapaxes(
            1, 2
        )
    return Blocks(out, starts, counts)


def quadratic(xi: Array, valid: Array) -> Array:
    """Return φ of each row, 0 for padding: xi (B, d, R), valid (B, R) -> (B, K, R)."""
    blocks, dim, rows = xi.shape
    phi = np.empty((blocks, 1 + dim + dim * (dim + 1) // 2, rows))
    phi[:, 0] = valid
    phi[:, 1 : 1 + dim] = xi
    at = 1 + dim
    for i in range(dim):
        np.multiply(xi[:, i : i + 1], xi[:, i:], out=phi[:, at : at + dim - i])
        at += dim - i
    return phi


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
    theta = np.zeros((classes, -(-comps // 4) * 4, 1 + dim + dim * (dim + 1) // 2))
    theta[:, :, 0] = _NEVER
    constant = log_alpha - 0.5 * (mixtures.dims[:, None] * _LOG_2PI + log_det + square)
    theta[:, :comps, 0] = np.where(mixtures.alpha > 0, constant, _NEVER)
    theta[:, :comps, 1 : 1 + dim] = linear
    upper = np.triu_indices(dim)
    halve = np.where(upper[0] == upper[1], -0.5, -1.0)
    theta[:, :comps, 1 + dim :] = precision[..., upper[0], upper[1]] * halve
    return theta


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


def e_step(theta: Array, phi: Array) -> tuple[Array, Array]:
    """Return responsibilities (6) and log p(ξ|y) (5): theta (B, L, K), phi (B, K, R) -> r (B, L, R), log_p (B, R)."""
    log_r = theta @ phi
    largest = log_r.max(axis=1)
    log_r -= largest[:, None]
    r = np.exp(log_r, out=log_r)
    total = r.sum(axis=1)
    r /= total[:, None]
    return r, np.log(total, out=total) + largest


def m_step(sums: Array, comps: int, dims: Array, counts: Array, ridge: Array) -> Mixtures:
    """Return α, μ, Σ (7) from the classes' sums r·φᵀ (C, L', K); ridge (C,) is added to Σ's diagonal."""
    sums = sums[:, :comps]
    dim = int((np.sqrt(8 * sums.shape[2] + 1) - 3) / 2)  # K = (d + 1)(d + 2)/2
    weight = sums[..., 0] + _TINY
    mu = sums[..., 1 : 1 + dim] / weight[..., None]
    second = np.empty((*mu.shape, dim))
    upper = np.triu_indices(dim)
    second[..., upper[0], upper[1]] = second[..., upper[1], upper[0]] = sums[..., 1 + dim :]
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
    blocks: Blocks, mixtures: Mixtures, ridge: Array, iterations: int, tol: float | None
) -> tuple[Mixtures, Array]:
    """Run EM and return the mixtures and the mean log-likelihood before each step and after the last.

    The likelihoods are (C, iterations + 1), NaN after a class that stopped because it gained less than `tol`.
    """
    classes = len(blocks.counts)
    comps = mixtures.alpha.shape[1]
    alpha, mu, sigma = mixtures.alpha.copy(), mixtures.mu.copy(), mixtures.sigma.copy()
    history = np.full((classes, iterations + 1), np.nan)
    batches = _batches(blocks, range(classes))
    active = np.arange(classes)
    for step in range(iterations + 1):
        current = Mixtures(alpha[active], mu[active], sigma[active], mixtures.dims[active])
        sums, log_likelihood = _sweep(batches, coefficients(current), active, classes)
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

    phi: Array  # (b, K, R)
    valid: Array  # (b, R)
    owner: Array  # (b,) class of each block
    first: Array  # (s,) first block of each segment
    classes: Array  # (s,) class of each segment


def _batches(blocks: Blocks, classes: Sequence[int] | Array) -> list[_Batch]:
    """Gather the classes' segments into batches of about one segment's size."""
    batches: list[_Batch] = []
    pending: list[tuple[int, int, int]] = []
    size = 0
    for segment in blocks.segments([int(c) for c in classes]):
        length = segment[2] - segment[1]
        if pending and size + length > SEGMENT:
            batches.append(_batch(blocks, pending))
            pending, size = [], 0
        pending.append(segment)
        size += length
    if pending:
        batches.append(_batch(blocks, pending))
    return batches


def _batch(blocks: Blocks, pending: Sequence[tuple[int, int, int]]) -> _Batch:
    lengths = [stop - start for _, start, stop in pending]
    valid = np.concatenate([blocks.valid(start, stop, c) for c, start, stop in pending])
    xi = np.concatenate([blocks.xi[start:stop] for _, start, stop in pending])
    owners = np.array([c for c, _, _ in pending])
    return _Batch(quadratic(xi, valid), valid, np.repeat(owners, lengths), np.cumsum([0, *lengths[:-1]]), owners)


def _sweep(batches: Sequence[_Batch], theta: Array, active: Array, classes: int) -> tuple[Array, Array]:
    """Return the sums r·φᵀ (C, L', K) and the log-likelihoods (C,) of all batches, added up segment by segment."""
    sums = np.zeros((classes, *theta.shape[1:]))
    log_likelihood = np.zeros(classes)
    position = np.zeros(classes, np.int64)
    position[active] = np.arange(len(active))
    for batch in batches:
        r, log_p = e_step(theta[position[batch.owner]], batch.phi)
        part = np.add.reduceat(r @ batch.phi.swapaxes(1, 2), batch.first, axis=0)
        gain = np.add.reduceat(np.where(batch.valid, log_p, 0.0).sum(axis=1), batch.first)
        for k, c in enumerate(batch.classes):
            sums[c] += part[k]
            log_likelihood[c] += gain[k]
    return sums, log_likelihood

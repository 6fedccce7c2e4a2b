"""The variance-maximising projection of one class, Eqs. (1)–(4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, eigsh

from pdac_cli.density.blocks import ROWS, SEGMENT_ROWS, Array, ClassRows, pad, segments, work_dtype
from pdac_cli.density.device import NUMPY, Device
from pdac_cli.options import Solver

_DENSE = 96  # below this size LAPACK's full decomposition is as fast as Lanczos
_KEEP_ROWS = 4 * SEGMENT_ROWS  # a class up to this size is read once and kept, a larger one is read on every pass


@dataclass(frozen=True)
class Projection:
    """Where a class lies and along which directions it varies most."""

    mean: Array  # (D,) h̄_y, Eq. (1)
    W: Array  # (D, d_y), Eq. (3); d_y = 0 for a class that does not vary
    variance: Array  # (d_y,) eigenvalues of H̄_y, descending, in unit²
    unit: float  # a power of two near the class's extent; sums are taken in this unit, so that no scale overflows


def project(h: Array, mean: Array, W: Array, unit: float) -> Array:
    """Return W_yᵀ(h − h̄_y) / unit, Eq. (4): (n, D) -> (n, d), computed block by block."""
    centred = _centre(h, mean, unit)
    blocks = pad(centred)
    return (blocks @ W).reshape(len(blocks) * ROWS, W.shape[1])[: len(h)]


def fit_projection(rows: ClassRows, dim: int, solver: Solver, device: Device = NUMPY) -> Projection:
    """Return the class's mean and top `dim` directions, Eqs. (1)–(3), fewer where its rank is lower."""
    dtype = np.dtype(np.float64) if solver is Solver.EXACT else work_dtype(rows.dtype)
    parts = _Parts(rows, dtype)
    unit, mean = _unit_and_mean(parts, rows.count, rows.dim)
    if unit == 0.0:
        return Projection(mean, np.zeros((rows.dim, 0), dtype), np.zeros(0), 1.0)
    variance, W = _top_directions(parts, mean, unit, rows.count, dim, solver, device)
    keep = variance > variance[:1] * (4 * np.sqrt(rows.dim) * np.finfo(dtype).eps)  # above rounding noise
    return Projection(mean, fix_signs(W[:, keep]), variance[keep].astype(np.float64), unit)


def fix_signs(W: Array) -> Array:
    """Flip each column so that its entry of largest magnitude is positive: (D, d) -> (D, d)."""
    largest = np.argmax(np.abs(W), axis=0)
    flip = np.where(W[largest, np.arange(W.shape[1])] < 0, -1, 1).astype(W.dtype)
    return np.ascontiguousarray(W * flip)


def top_eigenvectors(A: Array, count: int, solver: Solver) -> tuple[Array, Array]:
    """Return the `count` largest eigenvalues, descending, and their eigenvectors: A (m, m) -> (count,), (m, count).

    Lanczos with implicit restarts (ARPACK) from a fixed start; LAPACK where the matrix is small, where `solver` says
    exact, and where Lanczos has not converged.
    """
    m = len(A)
    if solver is Solver.FAST and m > max(_DENSE, 4 * count):
        # The tolerance is relative to the eigenvalue; the vectors' error in captured variance is its square.
        tol = 1e-5 if A.dtype == np.float32 else 1e-10
        start = np.random.default_rng(m)
        try:
            values, vectors = eigsh(
                A, k=count, which="LA", tol=tol, v0=start.standard_normal(m).astype(A.dtype), rng=start
            )
        except ArpackError:
            pass
        else:
            order = np.argsort(values)[::-1]
            return values[order], vectors[:, order]
    values, vectors = np.linalg.eigh(A)
    return values[::-1][:count], vectors[:, ::-1][:, :count]


class _Parts:
    """A class's rows segment by segment in the working dtype; small classes are read only once."""

    def __init__(self, rows: ClassRows, dtype: np.dtype[np.floating]) -> None:
        self.rows, self.dtype = rows, dtype
        self.kept = list(self._read()) if rows.count <= _KEEP_ROWS else None

    def __iter__(self) -> Iterator[Array]:
        return iter(self.kept) if self.kept is not None else self._read()

    def _read(self) -> Iterator[Array]:
        for start, stop in segments(self.rows.count):
            yield self.rows.read(start, stop).astype(self.dtype, copy=False)


def _unit_and_mean(parts: _Parts, count: int, dim: int) -> tuple[float, Array]:
    """Return the class's unit (0 where all rows are the same) and its mean, Eq. (1)."""
    low, high = np.full(dim, np.inf), np.full(dim, -np.inf)
    for part in parts:
        np.minimum(low, part.min(axis=0), out=low)
        np.maximum(high, part.max(axis=0), out=high)
    extent = float(np.max(high / 2 - low / 2))
    if extent == 0.0:
        return 0.0, low.astype(parts.dtype)
    unit = 2.0 ** np.ceil(np.log2(extent))
    middle = (high / 2 + low / 2).astype(parts.dtype)
    total = np.zeros(dim)
    for part in parts:
        total += _centre(part, middle, unit).sum(axis=0)
    return float(unit), (middle + total / count * unit).astype(parts.dtype)


def _centre(h: Array, mean: Array, unit: float) -> Array:
    """Return (h − mean) / unit in the mean's dtype: (n, D) -> (n, D)."""
    centred = np.subtract(h, mean, dtype=mean.dtype)
    centred *= mean.dtype.type(1.0 / unit)
    return centred


def _top_directions(
    parts: _Parts, mean: Array, unit: float, count: int, dim: int, solver: Solver, device: Device
) -> tuple[Array, Array]:
    """Return the largest eigenvalues of the covariance (2), in units of unit², and their eigenvectors (3)."""
    features = len(mean)
    if count < features:  # the n × n Gram matrix has the same non-zero eigenvalues and is smaller
        centred = device.move(np.concatenate([_centre(part, mean, unit) for part in parts]))
        values, U = _eigenvectors(centred @ centred.T / count, min(dim, count), solver, device)
        W = device.host(centred.T @ device.move(U))
        norms = np.linalg.norm(W, axis=0)
        return values, W / np.where(norms > 0, norms, 1)
    covariance = device.move(np.zeros((features, features), parts.dtype))
    for part in parts:
        centred = device.move(_centre(part, mean, unit))
        covariance += centred.T @ centred
    covariance /= count
    return _eigenvectors(covariance, min(dim, features), solver, device)


def _eigenvectors(A: Any, count: int, solver: Solver, device: Device) -> tuple[Array, Array]:
    """Return the top eigenvectors of a matrix on the device; other devices than NumPy's decompose it in full."""
    if device.is_numpy:
        return top_eigenvectors(A, count, solver)
    values, vectors = map(device.host, device.xp.linalg.eigh(A))
    return values[::-1][:count], np.ascontiguousarray(vectors[:, ::-1][:, :count])

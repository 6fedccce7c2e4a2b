"""The variance-maximising projection of one class, Eqs. (1)–(4)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from pdac_cli.density.blocks import ROWS, SEGMENT_ROWS, Array, ClassRows, block_count, segments, work_dtype
from pdac_cli.density.device import NUMPY, Device
from pdac_cli.options.shared import Solver

_DENSE = 96  # below this size LAPACK's full decomposition is as fast as Lanczos
_KEEP = 1 << 25  # numbers: a class up to this size is read once and kept, a larger one is read on every pass
_SMALL, _LARGE = 2.0**-40, 2.0**60  # between these a class's mean square distance is safe in single precision
_SQUARE = 1 << 26  # numbers: a covariance above this size is never formed


@dataclass(frozen=True)
class Projection:
    """Where a class lies and along which directions it varies most."""

    mean: Array  # (D,) h̄_y, Eq. (1)
    W: Array  # (D, d_y), Eq. (3); d_y = 0 for a class that does not vary
    variance: Array  # (d_y,) eigenvalues of H̄_y, descending, in unit²
    unit: float  # what rows are divided by so that no scale overflows: 1, or a power of two near an extreme extent


def project(h: Array, mean: Array, W: Array, unit: float) -> Array:
    """Return W_yᵀ(h − h̄_y) / unit, Eq. (4), block by block, with zeros to whole blocks: (n, D) -> (blocks · R, d)."""
    return project_centred(_centre(h, mean, unit), W)


def project_centred(centred: Array, W: Array) -> Array:
    """Return W_yᵀ of rows that are centred and fill whole blocks: (blocks · ROWS, D) -> (blocks · ROWS, d)."""
    blocks = centred.reshape(len(centred) // ROWS, ROWS, -1)
    return (blocks @ W).reshape(len(centred), W.shape[1])


def fit_projection(rows: ClassRows, dim: int, solver: Solver, device: Device = NUMPY) -> tuple[Projection, Centred]:
    """Return the class's mean and top `dim` directions, Eqs. (1)–(3), fewer where its rank is lower; and its rows."""
    dtype = np.dtype(np.float64) if solver is Solver.EXACT else work_dtype(rows.dtype)
    centred = Centred(rows, dtype)
    if centred.constant:
        return Projection(centred.mean, np.zeros((rows.dim, 0), dtype), np.zeros(0), centred.unit), centred
    variance, W = _top_directions(centred, rows.count, dim, solver, device)
    keep = variance > variance[:1] * (4 * np.sqrt(rows.dim) * np.finfo(dtype).eps)  # above rounding noise
    projection = Projection(centred.mean, fix_signs(W[:, keep]), variance[keep].astype(np.float64), centred.unit)
    return projection, centred


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
    if solver is Solver.FAST and len(A) > max(_DENSE, 4 * count):
        with suppress(ArpackError):
            return _lanczos(_Matrix(A), count)
    values, vectors = np.linalg.eigh(A)
    return values[::-1][:count], vectors[:, ::-1][:, :count]


def _lanczos(operator: LinearOperator, count: int) -> tuple[Array, Array]:
    """Return the `count` largest eigenvalues, descending, and their eigenvectors, from a fixed start."""
    size, dtype = operator.shape[0], operator.dtype
    # The tolerance is relative to the eigenvalue; the vectors' error in captured variance is its square.
    tol = 1e-5 if dtype == np.float32 else 1e-10
    start = np.random.default_rng(size)
    first = start.standard_normal(size).astype(dtype)
    values, vectors = eigsh(operator, k=count, which="LA", tol=tol, v0=first, rng=start)
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order]


class _Matrix(LinearOperator):  # type: ignore[misc]
    """A dense matrix without the checks that SciPy's own wrapper makes at every product, which cost more than it."""

    def __init__(self, A: Array) -> None:
        super().__init__(A.dtype, A.shape)
        self.A = A

    def _matvec(self, x: Array) -> Array:
        product: Array = self.A.dot(x)
        return product

    matvec = _matvec


class _Covariance(LinearOperator):  # type: ignore[misc]
    """The covariance (2) of a class by its products alone, one pass over the rows each."""

    def __init__(self, centred: Centred) -> None:
        super().__init__(centred.dtype, (len(centred.mean),) * 2)
        self.centred = centred

    def _matvec(self, x: Array) -> Array:
        product: Array = np.zeros(len(x), self.dtype)
        for _, part in self.centred:
            product += part.T @ (part @ x)
        product /= self.centred.rows.count
        return product

    matvec = _matvec


class Centred:
    """A class's rows minus their mean (1), in its unit, segment by segment; small classes are read only once."""

    def __init__(self, rows: ClassRows, dtype: np.dtype[Any]) -> None:
        self.rows, self.dtype = rows, dtype
        self.unit, self.constant = 1.0, False
        self._kept: list[Array] | None = None
        raw = list(self._raw()) if rows.count * rows.dim <= _KEEP else None
        mean = np.zeros(rows.dim)
        for part in raw if raw is not None else self._raw():
            mean += np.full(len(part), 1 / rows.count, dtype) @ part
        self.mean: Array = mean.astype(dtype)
        self._keep(raw)
        squares = self._squares()
        # Where squares leave the safe range or are no more than rounding, look at the values themselves.
        if not max(_SMALL, 1e-10 * float(mean @ mean)) < squares < _LARGE:
            self._look(raw)
            squares = self._squares()
        self._correct(1e-5 * np.sqrt(squares))

    def _squares(self) -> float:
        """Return the mean square distance from the mean."""
        with np.errstate(over="ignore"):
            return sum(float(np.vdot(part, part)) for _, part in self) / self.rows.count

    def _keep(self, raw: list[Array] | None) -> None:
        if raw is not None:
            self._kept = [_centre(part, self.mean, self.unit) for part in raw]

    def _look(self, raw: list[Array] | None) -> None:
        """See whether all rows are the same, and choose the unit by their extent."""
        low, high = np.full(self.rows.dim, np.inf), np.full(self.rows.dim, -np.inf)
        for part in raw if raw is not None else self._raw():
            np.minimum(low, part.min(axis=0), out=low)
            np.maximum(high, part.max(axis=0), out=high)
        extent = float(np.max(high / 2 - low / 2))
        self.constant = extent == 0.0
        if self.constant:
            self.mean = low.astype(self.dtype)
        elif not 2.0**-20 < extent < 2.0**20:
            self.unit = float(2.0 ** np.ceil(np.log2(extent)))
        self._keep(raw)

    def __iter__(self) -> Iterator[tuple[int, Array]]:
        """Yield each segment's first row and its rows, filled up with zeros to whole blocks."""
        parts = self._kept if self._kept is not None else (_centre(p, self.mean, self.unit) for p in self._raw())
        return zip(range(0, self.rows.count, SEGMENT_ROWS), parts, strict=True)

    def _raw(self) -> Iterator[Array]:
        for start, stop in segments(self.rows.count):
            yield self.rows.read(start, stop).astype(self.dtype, copy=False)

    def _correct(self, least: float) -> None:
        """Take off the mean what the centred rows' mean still is, if it matters: where the mean is ≫ the extent."""
        rest = np.zeros(self.rows.dim)
        for _, part in self:
            rest += np.full(len(part), 1 / self.rows.count, self.dtype) @ part
        if np.abs(rest).max() <= least:
            return
        old = self.mean
        self.mean = (old + rest * self.unit).astype(self.dtype)
        if self._kept is not None:
            shift = ((self.mean - old) / self.unit).astype(self.dtype)
            for (start, stop), part in zip(segments(self.rows.count), self._kept, strict=True):
                part[: stop - start] -= shift


def _centre(h: Array, mean: Array, unit: float) -> Array:
    """Return (h − mean) / unit in the mean's dtype, filled up with zeros to whole blocks: (n, D) -> (blocks · R, D)."""
    n = len(h)
    out = np.empty((block_count(n) * ROWS, h.shape[1]), mean.dtype)
    np.subtract(h, mean, out=out[:n], dtype=mean.dtype)
    if unit != 1.0:
        out[:n] *= mean.dtype.type(1.0 / unit)
    out[n:] = 0
    return out


def _top_directions(centred: Centred, count: int, dim: int, solver: Solver, device: Device) -> tuple[Array, Array]:
    """Return the largest eigenvalues of the covariance (2), in units of unit², and their eigenvectors (3)."""
    features = len(centred.mean)
    if solver is Solver.FAST and min(count, features) ** 2 > _SQUARE:
        return _lanczos(_Covariance(centred), dim)
    if count < features:  # the n × n Gram matrix has the same non-zero eigenvalues and is smaller
        parts = [part for _, part in centred]
        rows = device.move((parts[0] if len(parts) == 1 else np.concatenate(parts))[:count])
        values, U = _eigenvectors(rows @ rows.T / count, min(dim, count), solver, device)
        W = device.host(rows.T @ device.move(U))
        norms = np.linalg.norm(W, axis=0)
        return values, W / np.where(norms > 0, norms, 1)
    covariance = device.move(np.zeros((features, features), centred.dtype))
    for _, part in centred:
        moved = device.move(part)
        covariance += moved.T @ moved
    covariance /= count
    return _eigenvectors(covariance, min(dim, features), solver, device)


def _eigenvectors(A: Any, count: int, solver: Solver, device: Device) -> tuple[Array, Array]:
    """Return the top eigenvectors of a matrix on the device; other devices than NumPy's decompose it in full."""
    if device.is_numpy:
        return top_eigenvectors(A, count, solver)
    values, vectors = map(device.host, device.xp.linalg.eigh(A))
    return values[::-1][:count], np.ascontiguousarray(vectors[:, ::-1][:, :count])

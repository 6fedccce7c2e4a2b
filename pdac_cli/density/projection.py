"""The variance-maximising projection of one class, Eqs. (1)–(4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from pdac_cli.arrays import Array
from pdac_cli.density import kernel
from pdac_cli.density.blocks import ROWS, ClassRows, work_dtype
from pdac_cli.density.centred import Centred, centre, whole_blocks
from pdac_cli.density.device import NUMPY, Device, Workspace
from pdac_cli.density.eigenvectors import lanczos, top_eigenvectors
from pdac_cli.options.shared import Solver

_SQUARE = 1 << 26  # numbers: a covariance above this size is never formed


@dataclass(frozen=True)
class Projection:
    """Where a class lies and along which directions it varies most."""

    mean: Array  # (D,) h̄_y, Eq. (1)
    W: Array  # (D, d_y), Eq. (3); d_y = 0 for a class that does not vary
    variance: Array  # (d_y,) eigenvalues of H̄_y, descending, in unit²
    unit: float  # what rows are divided by so that no scale overflows: 1, or a power of two near an extreme extent


def project(h: Array, mean: Array, W: Array, unit: float) -> Array:
    """Return W_yᵀ(h − h̄_y) / unit, Eq. (4), with zeros to whole blocks: (n, D) -> (blocks, d, ROWS)."""
    out = whole_blocks(len(h), h.shape[1], mean.dtype)
    out[: len(h)] = h
    centre(out[: len(h)], mean, unit)
    return project_centred(out, W)


def project_centred(centred: Array, W: Array) -> Array:
    """Return W_yᵀ of rows that are centred and fill whole blocks: (blocks · ROWS, D) -> (blocks, d, ROWS)."""
    n_features, dim = W.shape
    if kernel.takes(centred) and kernel.takes(W):
        out = np.empty((len(centred) // ROWS, dim, ROWS), np.float32)
        kernel.compiled.project(np.ascontiguousarray(centred), np.ascontiguousarray(W.T), out, n_features)
        return out
    padded = np.zeros((-(-dim // 4) * 4, n_features), W.dtype)  # BLAS likes a multiple of four
    padded[:dim] = W.T
    return (padded @ centred.reshape(-1, ROWS, n_features).swapaxes(1, 2))[:, :dim]


def fit_dtype(dtype: np.dtype[Any], solver: Solver) -> np.dtype[Any]:
    """Return the type in which the directions of rows of this type are computed."""
    return np.dtype(np.float64) if solver is Solver.EXACT else work_dtype(dtype)


def single_row(rows: ClassRows, solver: Solver) -> Projection:
    """Return what :func:`fit_projection` makes of a class of one row: its mean, and no direction."""
    dtype = fit_dtype(rows.dtype, solver)
    mean = np.empty((1, rows.n_features), dtype)
    rows.read_into(0, mean)
    return Projection(mean[0], np.empty((rows.n_features, 0), dtype), np.empty(0), 1.0)


def fit_projection(
    rows: ClassRows, dim: int, solver: Solver, device: Device = NUMPY, workspace: Workspace | None = None
) -> tuple[Projection, Centred]:
    """Return the class's mean and top `dim` directions, Eqs. (1)–(3), fewer where its rank is lower; and its rows.

    The rows are lost when the workspace is used for another class.
    """
    dtype = fit_dtype(rows.dtype, solver)
    centred = Centred(rows, dtype, workspace or Workspace())
    variance, W = _top_directions(centred, dim, solver, device)
    keep = variance > variance[:1] * (4 * np.sqrt(rows.n_features) * np.finfo(dtype).eps)  # above rounding noise
    projection = Projection(centred.mean, fix_signs(W[:, keep]), variance[keep].astype(np.float64), centred.unit)
    return projection, centred


def projected(centred: Centred, W: Array) -> Iterator[tuple[int, Array]]:
    """Yield each segment's first row and W_yᵀ(h − h̄_y) / unit of its rows, Eq. (4): (blocks, d, ROWS)."""
    rest = centred.rest @ W
    for first, part in centred:
        xi = project_centred(part, W)
        if rest.any():
            xi -= rest[:, None]
            xi[-1, :, centred.rows.count - first - (len(xi) - 1) * ROWS :] = 0  # padding
        yield first, xi


def fix_signs(W: Array) -> Array:
    """Flip each column so that its entry of largest magnitude is positive: (D, d) -> (D, d)."""
    largest = np.argmax(np.abs(W), axis=0)
    flip = np.where(W[largest, np.arange(W.shape[1])] < 0, -1, 1).astype(W.dtype)
    return np.ascontiguousarray(W * flip)


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


def _top_directions(centred: Centred, dim: int, solver: Solver, device: Device) -> tuple[Array, Array]:
    """Return the largest eigenvalues of the covariance (2), in units of unit², and their eigenvectors (3)."""
    count, n_features = centred.rows.count, len(centred.mean)
    formed = solver is Solver.EXACT or min(count, n_features) ** 2 <= _SQUARE
    products = _products(centred, device) if formed else None
    if centred.changed(centred.squares() if products is None else float(products.trace()) / count) and formed:
        products = _products(centred, device)
    if centred.constant:
        return np.zeros(0), np.zeros((n_features, 0), centred.dtype)
    if products is None:
        return lanczos(_Covariance(centred), dim)
    values, W = _eigenvectors(products, min(dim, count, n_features), solver, device)
    if count < n_features:
        W = centred.together().T @ W
        norms = np.linalg.norm(W, axis=0)
        W /= np.where(norms > 0, norms, 1)
    return values / count, W


def _products(centred: Centred, device: Device) -> Any:
    """Return the n × n products of the rows, or the D × D ones of the n_features, whichever are fewer.

    They have the same non-zero eigenvalues, n times the covariance's.
    """
    count, n_features = centred.rows.count, len(centred.mean)
    with np.errstate(over="ignore", invalid="ignore"):  # see `Centred.changed`
        if centred.small or count < n_features:
            rows = device.move(centred.together())
            if count < n_features:
                return rows @ rows.T
            products = rows.T @ rows
            if centred.offset.any():
                root = (np.sqrt(count) * centred.offset).astype(centred.dtype)
                products -= device.move(np.outer(root, root))
            return products
        products = device.move(np.zeros((n_features, n_features), centred.dtype))
        for _, part in centred:
            moved = device.move(part)
            products += moved.T @ moved
        return products


def _eigenvectors(A: Any, count: int, solver: Solver, device: Device) -> tuple[Array, Array]:
    """Return the top eigenvectors of a matrix on the device; other devices than NumPy's decompose it in full."""
    if device.is_numpy:
        return top_eigenvectors(A, count, solver)
    values, vectors = map(device.host, device.xp.linalg.eigh(A))
    return values[::-1][:count], np.ascontiguousarray(vectors[:, ::-1][:, :count])

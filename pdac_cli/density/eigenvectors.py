"""The top eigenvectors of a symmetric matrix, Eq. (3)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from pdac_cli.arrays import Array
from pdac_cli.density import kernel
from pdac_cli.options.shared import Solver

_DENSE = 96  # below this size LAPACK's full decomposition is as fast as Lanczos
_MOST = 200  # steps without a restart
_CHECK = 8  # steps that look for a missed eigenvalue
_MISSED = 1e-4  # of the captured variance
# Relative to the eigenvalue; the vectors' error in captured variance is its square.
_TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-10}


def top_eigenvectors(A: Array, count: int, solver: Solver) -> tuple[Array, Array]:
    """Return the `count` largest eigenvalues, descending, and their eigenvectors: A (m, m) -> (count,), (m, count).

    Lanczos from a fixed start; LAPACK where the matrix is small, where `solver` says exact, and where Lanczos has not
    converged or has missed an eigenvalue.
    """
    if solver is Solver.FAST and len(A) > max(_DENSE, 4 * count):
        A = np.ascontiguousarray(A)
        found = _without_restarts(A, count) if kernel.takes(A) else None
        if found is None:
            with suppress(ArpackError):
                found = lanczos(_Matrix(A), count)
        if found is not None and _are_largest(A, *found):
            return found
    values, vectors = np.linalg.eigh(A)
    return values[::-1][:count], vectors[:, ::-1][:, :count]


def _without_restarts(A: Array, count: int) -> tuple[Array, Array] | None:
    """Return the same by as many steps as it takes; None where too few do."""
    size = len(A)
    V, T = _unit_row(np.random.default_rng(size).standard_normal(size), A.dtype), np.empty((2, 0))
    steps = 2 * count + 10
    while steps <= min(_MOST, size - 1):
        more = steps - T.shape[1]
        V = np.concatenate([V, np.empty((more, size), A.dtype)])
        T = np.concatenate([T, np.empty((2, more))], axis=1)
        if _make_steps(A, V, T, steps - more) < steps:
            return None
        values, S = _tridiagonal(T)
        values, S = values[::-1][:count], S[:, ::-1][:, :count]
        # What is smaller than this against the largest is taken for rounding noise anyway.
        if (T[1, -1] * np.abs(S[-1]) <= _TOLERANCE[A.dtype] * np.maximum(values, 1e-5 * values[0])).all():
            return values, V[:-1].T @ S.astype(A.dtype)
        steps += max(5, steps // 8)
    return None


def _are_largest(A: Array, values: Array, U: Array) -> bool:
    """Tell whether a few steps orthogonal to these eigenvectors find none that captures more variance than the last.

    An eigenvalue of several eigenvectors shows only one of them from one start, until rounding brings in the others.
    """
    size, count = U.shape
    start = np.random.default_rng(size + 1).standard_normal(size)
    V = np.concatenate([U.T, _unit_row(start - U @ (U.T @ start), A.dtype), np.empty((_CHECK, size), A.dtype)])
    T = np.zeros((2, count + _CHECK))
    done = _make_steps(A, V, T, count)
    if done == count:  # nothing is left
        return True
    largest = _tridiagonal(T[:, count:done])[0][-1]
    return bool(largest - values[-1] <= _MISSED * np.abs(values).sum())


def _make_steps(A: Array, V: Array, T: Array, first: int) -> int:
    """Make Lanczos' steps from `first` on: V (last + 1, m), whose rows up to `first` are there; T (2, last).

    T are the diagonal of VAVᵀ and the one beside it.  Returns at which step it ended, before the last where A does not
    lead out of the span.
    """
    last: int = T.shape[1]
    if kernel.takes(A):
        return kernel.compiled.lanczos(A, V, T[0], T[1], first, last)
    for j in range(first, last):
        w = A @ V[j]
        T[0, j] = V[j] @ w
        for _ in range(2):
            w -= V[: j + 1].T @ (V[: j + 1] @ w)
        T[1, j] = np.linalg.norm(w)
        if not T[1, j] > 1e-6 * (np.abs(T[0, first : j + 1]) + T[1, first : j + 1]).max():
            return j
        V[j + 1] = w / T[1, j]
    return last


def _tridiagonal(T: Array) -> tuple[Array, Array]:
    """Return the eigenvalues, ascending, and the eigenvectors of the matrix with these two diagonals (2, m)."""
    values, vectors = np.linalg.eigh(np.diag(T[0]) + np.diag(T[1, :-1], -1))
    return values, vectors


def _unit_row(x: Array, dtype: np.dtype[Any]) -> Array:
    """Return x (m,) at length one: (1, m)."""
    unit: Array = x / np.linalg.norm(x)
    return unit.astype(dtype)[None]


def lanczos(operator: LinearOperator, count: int) -> tuple[Array, Array]:
    """Return the `count` largest eigenvalues, descending, and their eigenvectors, with implicit restarts (ARPACK)."""
    size, dtype = operator.shape[0], operator.dtype
    start = np.random.default_rng(size)
    first = start.standard_normal(size).astype(dtype)
    # ARPACK takes eigenvalues below a fixed size for converged, so they are brought near one.
    scale = dtype.type(np.linalg.norm(operator.matvec(first)) / np.linalg.norm(first)) or dtype.type(1)
    scaled = _Scaled(operator, 1 / scale)
    values, vectors = eigsh(scaled, k=count, which="LA", tol=_TOLERANCE[dtype], v0=first, rng=start)
    order = np.argsort(values)[::-1]
    return values[order] * scale, vectors[:, order]


class _Scaled(LinearOperator):  # type: ignore[misc]
    """A multiple of an operator."""

    def __init__(self, operator: LinearOperator, factor: Any) -> None:
        super().__init__(operator.dtype, operator.shape)
        self.operator, self.factor = operator, factor

    def _matvec(self, x: Array) -> Array:
        product: Array = self.operator.matvec(x) * self.factor
        return product

    matvec = _matvec


class _Matrix(LinearOperator):  # type: ignore[misc]
    """A dense matrix without the checks that SciPy's own wrapper makes at every product, which cost more than it."""

    def __init__(self, A: Array) -> None:
        super().__init__(A.dtype, A.shape)
        self.A = A

    def _matvec(self, x: Array) -> Array:
        product: Array = self.A.dot(x)
        return product

    matvec = _matvec

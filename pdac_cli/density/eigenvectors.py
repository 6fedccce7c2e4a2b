"""The top eigenvectors of a symmetric matrix, Eq. (3)."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from pdac_cli.density.blocks import Array
from pdac_cli.options.shared import Solver

_DENSE = 96  # below this size LAPACK's full decomposition is as fast as Lanczos


def top_eigenvectors(A: Array, count: int, solver: Solver) -> tuple[Array, Array]:
    """Return the `count` largest eigenvalues, descending, and their eigenvectors: A (m, m) -> (count,), (m, count).

    Lanczos with implicit restarts (ARPACK) from a fixed start; LAPACK where the matrix is small, where `solver` says
    exact, and where Lanczos has not converged.
    """
    if solver is Solver.FAST and len(A) > max(_DENSE, 4 * count):
        with suppress(ArpackError):
            return lanczos(_Matrix(A), count)
    values, vectors = np.linalg.eigh(A)
    return values[::-1][:count], vectors[:, ::-1][:, :count]


def lanczos(operator: LinearOperator, count: int) -> tuple[Array, Array]:
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

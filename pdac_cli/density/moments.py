"""Mean and covariance of one class as its rows arrive, Eqs. (13) and (14), and its top directions, Eq. (15)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg.blas import dsymm, dsyrk

from pdac_cli.arrays import Array
from pdac_cli.density.eigenvectors import top_eigenvectors
from pdac_cli.options.shared import Solver
from pdac_cli.options.stream import StreamSolver

GUARD = 10  # directions followed beyond the wanted ones: the error falls by λ_{d+GUARD+1}/λ_d a step, not λ_{d+1}/λ_d
_DENSE = 96  # up to this size LAPACK's full decomposition is as fast as a subspace step


class Moments(Protocol):
    """The moments of a class; all rows (n, D) are in the class's unit."""

    count: int
    mean: Array  # (D,)

    def fold(self, x: Array, *, shifted: bool = True) -> None:
        """Take in rows (n, D); without `shifted` as printed, which drops the term for the shift of the mean."""

    def directions(self, x: Array, previous: Array | None, wanted: int) -> tuple[Array, Array]:
        """Return the largest eigenvalues (k,), descending, and eigenvectors (D, k), k ≤ wanted.

        `x` (n, D) are the rows folded last, `previous` (D, k') the directions before them, None at first.
        """

    def decomposition(self, wanted: int) -> tuple[Array, Array]:
        """Return the same, converged and from the moments alone."""

    def total(self) -> float:
        """Return the sum of squared distances from the mean."""

    def times(self, A: Array) -> Array:
        """Return the covariance times A: (D, k) -> (D, k)."""


@dataclass
class DenseMoments:
    """The exact moments, with the D × D scatter matrix."""

    count: int
    mean: Array  # (D,)
    scatter: Array  # (D, D) Σ(x − mean)(x − mean)ᵀ, of which the upper triangle is kept
    solver: StreamSolver

    @classmethod
    def empty(cls, n_features: int, solver: StreamSolver) -> DenseMoments:
        """Return the moments of no rows."""
        return cls(0, np.zeros(n_features), np.zeros((n_features, n_features)), solver)

    def fold(self, x: Array, *, shifted: bool = True) -> None:
        """Take in rows (n, D) by Chan's parallel update, whose term for the shift of the mean keeps it exact."""
        rows, self.count, self.mean = _centred_rows(x, self.count, self.mean, shifted=shifted)
        # In place: Fortran's lower triangle is the upper one here.
        dsyrk(1.0, rows.T, beta=1.0, c=self.scatter.T, lower=1, overwrite_c=1)

    def directions(self, x: Array, previous: Array | None, wanted: int) -> tuple[Array, Array]:
        """Return the top eigenpairs; warm: one step of orthogonal iteration and Rayleigh–Ritz from `previous`."""
        if self.solver is StreamSolver.EXACT or len(self.mean) <= max(_DENSE, 3 * wanted):
            return self.decomposition(wanted)
        if previous is None:
            return _of_rows(x - self.mean, wanted) if self.count == len(x) else self.decomposition(wanted)
        # The new rows are tried along: a direction that has just appeared is in their span and in no other.
        Q, _ = np.linalg.qr(self.times(np.hstack([previous, _few(x - self.mean).T])))
        values, U = np.linalg.eigh(Q.T @ self.times(Q))
        return values[::-1][:wanted], Q @ U[:, ::-1][:, :wanted]

    def decomposition(self, wanted: int) -> tuple[Array, Array]:
        """Return the top eigenpairs, converged: by LAPACK where the solver is exact or the matrix small."""
        full = np.triu(self.scatter)
        full += np.triu(self.scatter, 1).T
        full /= self.count
        few = self.count <= 4 * wanted  # Lanczos finds no more directions than the rows span
        solver = Solver.EXACT if self.solver is StreamSolver.EXACT or few else Solver.FAST
        return top_eigenvectors(full, min(wanted, len(full)), solver)

    def total(self) -> float:
        """Return the sum of squared distances from the mean."""
        return float(np.trace(self.scatter))

    def times(self, A: Array) -> Array:
        """Return the covariance times A: (D, k) -> (D, k)."""
        product: Array = dsymm(1.0 / self.count, self.scatter.T, A, lower=1)
        return product


@dataclass
class SketchMoments:
    """The exact mean and a factor of `rank` rows with factorᵀ·factor ≈ the scatter matrix: O(D · rank) memory.

    Incremental singular value decomposition: after each fold the factor is cut to its largest singular values.
    """

    count: int
    mean: Array  # (D,)
    factor: Array  # (r, D), r ≤ rank, rows orthogonal, descending norm
    rank: int

    @classmethod
    def empty(cls, n_features: int, wanted: int) -> SketchMoments:
        """Return the moments of no rows; the rank leaves room for directions that are not among the top ones yet."""
        return cls(0, np.zeros(n_features), np.zeros((0, n_features)), min(n_features, max(4 * wanted, 32)))

    def fold(self, x: Array, *, shifted: bool = True) -> None:
        """Take in rows (n, D)."""
        rows, self.count, self.mean = _centred_rows(x, self.count, self.mean, shifted=shifted)
        stacked = np.vstack([self.factor, rows])
        values, U = np.linalg.eigh(stacked @ stacked.T)
        keep = values[::-1][: self.rank] > values[-1] * 1e-14
        self.factor = np.ascontiguousarray(U[:, ::-1][:, : self.rank][:, keep].T @ stacked)

    def directions(self, x: Array, previous: Array | None, wanted: int) -> tuple[Array, Array]:  # noqa: ARG002
        """Return the top eigenpairs of the sketch; it carries all that is known of the past."""
        return self.decomposition(wanted)

    def decomposition(self, wanted: int) -> tuple[Array, Array]:
        """Return the top eigenpairs of the sketch."""
        norms = np.linalg.norm(self.factor[:wanted], axis=1)
        norms = norms[norms > 0]
        return norms**2 / self.count, self.factor[: len(norms)].T / norms

    def total(self) -> float:
        """Return the sum of squared distances from the mean, as far as the sketch has it."""
        return float(np.square(self.factor).sum())

    def times(self, A: Array) -> Array:
        """Return the sketched covariance times A: (D, k) -> (D, k)."""
        product: Array = self.factor.T @ (self.factor @ A) / self.count
        return product


def _centred_rows(x: Array, count: int, mean: Array, *, shifted: bool) -> tuple[Array, int, Array]:
    """Return rows (n + 1, D) whose scatter is to be added, the new count and the new mean, Eqs. (13) and (14).

    As printed, without `shifted`, the scatter added is that of the new rows alone, about the new mean: (n, D).
    """
    n = len(x)
    centre = x.mean(axis=0)
    shift = centre - mean
    if not shifted:
        mean = mean + shift * (n / (count + n))
        return x - mean, count + n, mean
    rows = np.empty((n + 1, x.shape[1]))
    np.subtract(x, centre, out=rows[:n])
    rows[n] = shift * np.sqrt(count * n / (count + n))
    return rows, count + n, mean + shift * (n / (count + n))


def _few(x: Array) -> Array:
    """Return at most GUARD rows that span about what the rows do: (n, D) -> (k, D)."""
    if len(x) <= GUARD:
        return x
    mix: Array = np.random.default_rng(len(x)).standard_normal((GUARD, len(x)))
    return mix @ x


def _of_rows(x: Array, wanted: int) -> tuple[Array, Array]:
    """Return the top eigenpairs of the covariance of centred rows (n, D), cheap where they are few."""
    if len(x) >= x.shape[1]:
        values, U = np.linalg.eigh(x.T @ x / len(x))
        return values[::-1][:wanted], U[:, ::-1][:, :wanted]
    _, norms, Vt = np.linalg.svd(x, full_matrices=False)
    return norms[:wanted] ** 2 / len(x), Vt[:wanted].T

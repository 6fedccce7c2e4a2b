"""The error of a ridge classifier trained on the rows chosen so far, and by how much one more row lowers it.

The classifier is linear in x, some features and a constant: f(x) = Vᵀx, with V from ridge regression of Y[y], one row
of targets for each class, on the chosen rows alone.  Its mean squared error over a density of (x, y) depends on that
density's moments only: C = E[x xᵀ] and M = E[x Y[y]ᵀ], sums over the rows that need one pass and can be added up from
anywhere.  With P = λ (Σ_chosen x xᵀ + λ)⁻¹, one more row x of class y changes V by P x eᵀ / s, where e = Y[y] − Vᵀx and
s = λ + xᵀP x, and lowers the error by

    gain(x) = 2 eᵀGᵀx / s − |e|² xᵀP C P x / s²,   G = P (M − C V).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice

import numpy as np
from scipy.linalg.blas import dsymv, dsyr

from pdac_cli.arrays import Array


class RidgeError:
    """The error of the classifier trained on the rows chosen so far, by what changes it."""

    def __init__(self, C: Array, M: Array, targets: Array | None, ridge: float) -> None:
        self.C, self.G = np.asfortranarray(C), M.copy()  # (D, D), (D, K)
        self.targets, self.ridge = targets, ridge  # Y (classes, K), None: the identity; λ
        self.P, self.V = np.eye(len(C), order="F"), np.zeros_like(M)  # of P the lower half is kept up
        # Px, PCPx, s and xᵀPCPx of the latest rows chosen, as many as are cheaper to use than P and C themselves.
        self.steps: deque[tuple[Array, Array, float, float]] = deque(maxlen=len(C))
        self.count = 0

    def add(self, x: Array, code: int) -> None:
        """Train on one more row: x (D,), float64."""
        v = dsymv(1.0, self.P, x, lower=1)
        s = self.ridge + float(v @ x)
        c = (self.target(code) - x @ self.V) / s
        Cv = dsymv(1.0, self.C, v, lower=1)
        u, q = dsymv(1.0, self.P, Cv, lower=1), float(v @ Cv)
        self.G -= np.outer(v, x @ self.G / s)
        self.G -= np.outer(u - v * (q / s), c)
        self.V += np.outer(v, c)
        self.P = dsyr(-1 / s, v, a=self.P, lower=1, overwrite_a=1)
        self.steps.append((v, u, s, q))
        self.count += 1

    def target(self, code: int) -> Array:
        """Return what the classifier is to answer for a class: (K,)."""
        if self.targets is not None:
            row: Array = self.targets[code]
            return row
        one = np.zeros(self.V.shape[1])
        one[code] = 1.0
        return one


@dataclass
class ErrorGains:
    """What the rows of one class that may be chosen would do to the error, kept up as others are chosen."""

    x: Array  # (n, D)
    k: Array  # (n,) xᵀP x
    q: Array  # (n,) xᵀP C P x
    seen: int = 0  # steps that k and q know of

    @classmethod
    def of(cls, x: Array, error: RidgeError) -> ErrorGains:
        """Take in rows before any is chosen."""
        return cls(x, dot(x, x), dot(x @ error.C.astype(x.dtype), x))

    def gains(self, error: RidgeError, code: int, beside: Array) -> tuple[Array, Array]:
        """Return by how much each row would lower the error, and its product with `beside` (D,): (n,), (n,)."""
        width = error.G.shape[1]
        new = list(islice(error.steps, len(error.steps) - self._unseen(error), None))
        columns = np.column_stack([error.G, error.V, *(v for v, *_ in new), *(u for _, u, *_ in new), beside])
        product = (self.x @ columns.astype(self.x.dtype)).astype(np.float64)
        along, f = product[:, :width], product[:, width : 2 * width]
        xv, xu = product[:, 2 * width : 2 * width + len(new)], product[:, 2 * width + len(new) : -1]
        s, q = np.array([step[2] for step in new]), np.array([step[3] for step in new])
        self.k -= np.square(xv) @ (1 / s)
        self.q += np.square(xv) @ (q / s**2) - (xv * xu) @ (2 / s)
        e = error.target(code) - f
        s = error.ridge + self.k
        gain: Array = 2 * dot(along, e) / s - dot(e, e) * self.q / s**2
        return gain, product[:, -1]

    def _unseen(self, error: RidgeError) -> int:
        """Return how many of the latest steps k and q do not know of, having caught up with those too old to tell."""
        missing, self.seen = error.count - self.seen, error.count
        if missing <= len(error.steps):
            return missing
        xp = self.x @ (np.tril(error.P) + np.tril(error.P, -1).T).astype(self.x.dtype)
        self.k, self.q = dot(xp, self.x), dot(xp @ error.C.astype(xp.dtype), xp)
        return 0


def dot(a: Array, b: Array) -> Array:
    """Return the inner products of rows, in float64: (n, D), (n, D) -> (n,)."""
    out: Array = np.einsum("nd,nd->n", a, b, dtype=np.float64)
    return out

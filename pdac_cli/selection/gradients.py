"""Last-layer gradients, which stand in for those of the whole network.

The gradient of a row's cross-entropy in the last layer is g_i = e_i ⊗ [h_i, 1], e = softmax(logits) − onehot(y).  It is
never formed: ⟨g_i, g_j⟩ = (e_i·e_j)(h_i·h_j + 1).
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Pool
from pdac_cli.density.relative import log_softmax


def residuals(logits: Array, targets: Array) -> Array:
    """Return e = softmax(logits) − onehot(y) in float64: (n, K), (n,) -> (n, K)."""
    e: Array = np.exp(log_softmax(logits))
    e[np.arange(len(e)), targets] -= 1
    return e


def pool_residuals(pool: Pool, start: int, stop: int) -> Array:
    """Return e of rows start to stop of a pool: (stop − start, K)."""
    return residuals(pool.logits(start, stop), pool.targets[start:stop])


def gram(h: Array, e: Array, other_h: Array, other_e: Array) -> Array:
    """Return ⟨g_i, g_j⟩ of rows and other rows: (n, D), (n, K), (m, D), (m, K) -> (n, m)."""
    products: Array = (e @ other_e.T) * (h @ other_h.T + 1)
    return products


def total_gradient(h: Array, e: Array) -> Array:
    """Return Σ e_i ⊗ [h_i, 1]: (n, D), (n, K) -> (K, D + 1)."""
    return np.concatenate([e.T @ h, e.sum(axis=0)[:, None]], axis=1)


def along(h: Array, e: Array, direction: Array) -> Array:
    """Return ⟨g_i, V⟩ of every row with one direction V: (n, D), (n, K), (K, D + 1) -> (n,)."""
    inner: Array = np.einsum("nk,nk->n", e, h @ direction[:, :-1].T + direction[:, -1])
    return inner

"""Densities of rows under every class, so that classes can be compared, and rows drawn from them.

Each class has directions of its own, and a density of d projected numbers cannot be compared with one of d others.  So
a row's part outside its class's directions counts as well: as in probabilistic PCA it is Gaussian, with one variance v
in all D − d_y directions, the same in all classes,

    log p(x, y) = log p̂(y) + log p(ξ | y) − |x − h̄_y − W_y ξ|² / 2v − (D − d_y)/2 · log 2πv.

Where d_y = D nothing is outside, and this is Eq. (9).
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.model import Model, Scorer

_LEAST = 1e-9  # of the mean square of a feature: a variance below it is rounding


def rest_variance(model: Model, total: float) -> float:
    """Return v; total is the mean squared distance of the fitted rows from the means of their classes."""
    used = np.arange(model.W.shape[2]) < model.dims[:, None]  # (C, d)
    spread = np.square(model.chol).sum(axis=-1) + np.square(model.mu)  # (C, L, d) E[ξ²]
    inside = np.where(used, np.einsum("cl,cld->cd", model.alpha, spread), 0.0).sum(axis=1)
    share = model.counts / model.counts.sum()
    n_features = model.mean.shape[1]
    outside = float(share @ (n_features - model.dims))
    size = (total + float(share @ np.square(model.mean, dtype=np.float64).sum(axis=1))) / n_features
    if outside == 0:
        return 1.0
    return max((total - float(share @ inside)) / outside, _LEAST * size) or 1.0


def log_joint(model: Model, rest: float, h: Array) -> Array:
    """Return log p(x, y) of every row with every class: h (n, D), rest v -> (n, C)."""
    scorer, n_features = Scorer.of(model), model.mean.shape[1]
    out = np.empty((len(h), len(model.labels)))
    for c, dims in enumerate(model.dims.tolist()):
        x = h.astype(np.float64) - model.mean[c]
        xi = x @ model.W[c, :, :dims].astype(np.float64)
        out[:, c] = scorer.log_conditional(h, c) + model.log_prior[c]
        if dims < n_features:
            beyond = np.maximum(np.einsum("nd,nd->n", x, x) - np.einsum("nd,nd->n", xi, xi), 0.0)
            out[:, c] -= beyond / (2 * rest) + (n_features - dims) / 2 * np.log(2 * np.pi * rest)
    return out


def log_of_class(model: Model, h: Array, codes: Array) -> Array:
    """Return log p̂(z), Eq. (9), of rows with the classes they have: h (n, D), codes (n,) -> (n,)."""
    scorer, out = Scorer.of(model), np.empty(len(h))
    for c in np.unique(codes):
        own = codes == c
        out[own] = scorer.log_conditional(h[own], int(c)) + model.log_prior[c]
    return out


def draw_rows(model: Model, rest: float, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return rows drawn from the model and the positions of their classes: (count, D), (count,)."""
    n_features = model.mean.shape[1]
    codes = np.sort(rng.choice(len(model.labels), count, p=model.counts / model.counts.sum()))
    rows = np.empty((count, n_features))
    for c, size in zip(*np.unique(codes, return_counts=True), strict=True):
        dims = int(model.dims[c])
        W = model.W[c, :, :dims].astype(np.float64)
        drawn = rng.choice(model.alpha.shape[1], size, p=model.alpha[c] / model.alpha[c].sum())
        noise = rng.standard_normal((size, dims))
        xi = model.mu[c, drawn, :dims] + np.einsum("nij,nj->ni", model.chol[c, drawn, :dims, :dims], noise)
        beyond = rng.standard_normal((size, n_features)) * np.sqrt(rest)
        rows[codes == c] = model.mean[c] + beyond + (xi - beyond @ W) @ W.T
    return rows, codes

"""The projected Gaussian mixture of a class as its rows arrive, Eqs. (13)–(17): the model of Algorithm 2.

The paper updates a class on its rows of each batch.  Those may be one or two, and a mixture of seven full covariances
cannot move half-way to the moments of two rows and stay a density.  So a class's rows are held until there are enough
of them (``step_rows``, or half as many as it had seen at its last update); the EM step is then taken on the class's
latest ``step_rows`` rows, after components that are of more use elsewhere have changed places (see `regroup`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.mixture import Mixtures, cholesky, coefficients, e_step, quadratic
from pdac_cli.density.model import Model, initial_rows
from pdac_cli.density.moments import GUARD, DenseMoments, Moments, SketchMoments
from pdac_cli.density.projection import fix_signs
from pdac_cli.density.rebase import carry, floored, streaming_em, with_dims
from pdac_cli.options.stream import StreamDensityOptions, StreamSolver, Updates


@dataclass(frozen=True)
class Fitted:
    """A class's density, in units of the class's `unit`."""

    mean: Array  # (D,) h̄ when it was fitted
    basis: Array  # (D, k) directions followed, the first d_y of which are W
    mixture: Mixtures  # C = 1
    theta: Array  # (1, L', K) of the mixture
    log_likelihood: float  # mean log p(ξ|y) of the rows of the last EM step, before it

    @property
    def dims(self) -> int:
        """d_y."""
        return int(self.mixture.dims[0])

    @property
    def W(self) -> Array:  # noqa: N802 -- the method's own letter
        """(D, d_y), Eq. (15)."""
        return self.basis[:, : self.dims]


@dataclass
class StreamedClass:
    """What is known of one class: moments of the rows up to its last update, and the rows since."""

    label: int
    moments: Moments
    unit: float = 1.0  # a power of two near the extent of the first rows
    fitted: Fitted | None = None  # None: too few rows so far, or all of them the same
    pending: list[Array] = field(default_factory=list)  # each (n, D)
    waiting: int = 0  # rows pending
    kept: Array | None = None  # (m, D) rows before those for the next EM step, while steps come sooner than step_rows

    @property
    def seen(self) -> int:
        """n_y, Eq. (13)."""
        return self.moments.count + self.waiting


def score(groups: Sequence[tuple[StreamedClass, Array]], h: Array) -> Array:
    """Return log p(ξ|y) of rows, Eq. (5), NaN where the class has no density: (n, D) float64 -> (n,).

    `groups` are the classes and the positions of their rows; the mixtures are evaluated for all rows in one call.
    """
    known = [(one.fitted, one.unit, rows) for one, rows in groups if one.fitted is not None]
    log_p = np.full(len(h), np.nan)
    if not known:
        return log_p
    at = np.concatenate([rows for _, _, rows in known])
    xi = np.zeros((len(at), known[0][0].mixture.mu.shape[2]))
    start = 0
    for fitted, unit, rows in known:
        xi[start : start + len(rows), : fitted.dims] = (h[rows] / unit - fitted.mean) @ fitted.W
        start += len(rows)
    owner = np.repeat(np.arange(len(known)), [len(rows) for _, _, rows in known])
    theta = np.concatenate([fitted.theta for fitted, _, _ in known])[owner]  # (n, L', K)
    phi = quadratic(xi[:, :, None], np.ones((len(at), 1)))  # (n, K, 1)
    _, scored = e_step(theta, phi, known[0][0].mixture.alpha.shape[1])
    volume = np.array([fitted.dims * np.log(unit) for fitted, unit, _ in known])
    log_p[at] = scored[:, 0] - volume[owner]
    return log_p


def new_class(label: int, n_features: int, options: StreamDensityOptions) -> StreamedClass:
    """Return a class of which nothing has been seen."""
    if options.solver is StreamSolver.SKETCH:
        return StreamedClass(label, SketchMoments.empty(n_features, options.dim + GUARD))
    return StreamedClass(label, DenseMoments.empty(n_features, options.solver))


def add_rows(known: StreamedClass, h: Array, options: StreamDensityOptions, seed: int) -> None:
    """Take in rows (n, D) of the class, and update its density if enough of them have come together."""
    known.pending.append(h)
    known.waiting += len(h)
    first = max(options.components, options.dim) + 1
    enough = first if known.fitted is None else min(options.step_rows, known.moments.count // 2)
    if known.waiting >= enough:
        update(known, options, seed)


def update(known: StreamedClass, options: StreamDensityOptions, seed: int) -> None:
    """Fold the pending rows in, Eqs. (13)–(14); turn the basis and carry the mixture (15); one EM step (16)–(17)."""
    h = np.concatenate(known.pending)
    latest = h if known.kept is None else np.concatenate([known.kept, h])[-max(options.step_rows, len(h)) :]
    printed = options.updates is Updates.PRINTED
    x = _fold(known, h, options)
    before = known.fitted
    if printed:
        values, basis = known.moments.decomposition(options.dim + GUARD)
    else:
        values, basis = known.moments.directions(x, None if before is None else before.basis, options.dim + GUARD)
    dims = _rank(values[: options.dim], len(basis))
    if dims == 0:
        return
    basis, variance = fix_signs(basis), options.units.variance(float(values[:dims].mean()), known.unit)
    scaled = x if latest is h else np.divide(latest, known.unit, dtype=np.float64)
    xi = (scaled - known.moments.mean) @ basis[:, :dims]
    known.kept = latest if known.moments.count // 2 < options.step_rows else None
    if before is None:
        mixture = _start(xi, variance, known.label, options, seed)
    else:
        mixture = _in_basis(known, before, basis[:, :dims], variance, options)
    regroup = options.step_rows > 1  # 1: the paper's update, and nothing beside it
    mixture, log_likelihood = streaming_em(mixture, xi, options.beta, options.ridge * variance, regroup=regroup)
    known.fitted = Fitted(known.moments.mean, basis, mixture, coefficients(mixture), log_likelihood)


def to_model(classes: Sequence[StreamedClass], options: StreamDensityOptions) -> Model:
    """Return the densities as an ordinary model: all rows seen in the moments, the directions converged.

    A class without a density yet gets a flat one.  The classes themselves stay as they are.
    """
    parts = [_settle(known, options) for known in sorted(classes, key=lambda known: known.label)]
    width, comps = options.dim, options.components
    model = Model(
        labels=np.array([one.label for one in parts]),
        counts=np.array([one.count for one in parts]),
        mean=np.stack([one.mean * one.unit for one in parts]),
        unit=np.array([one.unit for one in parts]),
        W=np.zeros((len(parts), len(parts[0].mean), width)),
        dims=np.array([0 if one.fitted is None else one.fitted.dims for one in parts]),
        alpha=np.tile(np.eye(1, comps), (len(parts), 1)),
        mu=np.zeros((len(parts), comps, width)),
        chol=np.tile(np.eye(width), (len(parts), comps, 1, 1)),
        log_likelihood=np.full((len(parts), 1), np.nan),
    )
    for c, one in enumerate(parts):
        if one.fitted is not None:
            scale = np.where(np.arange(width) < one.fitted.dims, one.unit, 1.0)
            model.W[c, :, : one.fitted.dims] = one.fitted.W
            model.alpha[c] = one.fitted.mixture.alpha[0]
            model.mu[c] = one.fitted.mixture.mu[0] * scale
            model.chol[c] = cholesky(one.fitted.mixture.sigma[0]) * scale[:, None]
            model.log_likelihood[c] = one.fitted.log_likelihood - one.fitted.dims * np.log(one.unit)
    return model


def variance_outside(classes: Sequence[StreamedClass], options: StreamDensityOptions) -> float:
    """Return the variance of all rows seen in a direction outside their class's projection, pooled over the classes."""
    outside = directions = 0.0
    for known in classes:
        copy = replace(known, moments=deepcopy(known.moments), pending=list(known.pending))
        if copy.pending:
            _fold(copy, np.concatenate(copy.pending), options)
        dims = 0 if known.fitted is None else known.fitted.dims
        inside = copy.moments.count * float(copy.moments.decomposition(options.dim)[0][:dims].sum()) if dims else 0.0
        outside += max(copy.moments.total() - inside, 0.0) * copy.unit**2
        directions += copy.moments.count * (len(copy.moments.mean) - dims)
    return outside / directions if outside > 0 else 1.0


@dataclass(frozen=True)
class _Settled:
    """A class at the end: all its rows in the mean, its directions converged."""

    label: int
    count: int
    unit: float
    mean: Array  # (D,) in the unit
    fitted: Fitted | None


def _settle(known: StreamedClass, options: StreamDensityOptions) -> _Settled:
    """Return the class with every row folded in; it stays itself as it is."""
    copy = replace(known, moments=deepcopy(known.moments), pending=list(known.pending))
    if copy.pending:
        _fold(copy, np.concatenate(copy.pending), options)
    fitted = known.fitted
    if fitted is not None:
        values, basis = copy.moments.decomposition(options.dim)
        dims = _rank(values, len(basis))
        W = fix_signs(basis[:, :dims])
        variance = options.units.variance(float(values[:dims].mean()), copy.unit)
        mixture = _in_basis(copy, fitted, W, variance, options)
        fitted = replace(fitted, mean=copy.moments.mean, basis=W, mixture=mixture)
    return _Settled(known.label, copy.moments.count, copy.unit, copy.moments.mean, fitted)


def _fold(known: StreamedClass, h: Array, options: StreamDensityOptions) -> Array:
    """Take the pending rows h (n, D) into the moments and return them in the class's unit: (n, D)."""
    known.pending, known.waiting = [], 0
    if known.moments.count == 0:
        known.unit = _unit(h.astype(np.float64))
    x: Array = np.divide(h, known.unit, dtype=np.float64)
    known.moments.fold(x, shifted=options.updates is Updates.CARRIED)
    return x


def _unit(h: Array) -> float:
    """Return a power of two near the extent of the rows (n, D), near their size where they are all the same."""
    extent = float((h.max(axis=0) / 2 - h.min(axis=0) / 2).max()) or float(np.abs(h).max())
    return 2.0 ** float(np.ceil(np.log2(extent))) if extent > 0 else 1.0


def _rank(values: Array, n_features: int) -> int:
    """Return how many of the eigenvalues, descending, are above rounding noise."""
    noise = 4 * np.sqrt(n_features) * np.finfo(np.float64).eps
    return int(np.count_nonzero(values > max(float(values[:1].sum()), 0.0) * noise))


def _start(xi: Array, variance: float, label: int, options: StreamDensityOptions, seed: int) -> Mixtures:
    """Return the initial mixture: means at L of the rows (n, d_y), α = 1/L, Σ = identity × variance."""
    comps, width, dims = options.components, options.dim, xi.shape[1]
    chosen = initial_rows(label, len(xi), comps, seed)
    mu = np.zeros((1, comps, width))
    mu[0, :, :dims] = xi[chosen]
    diagonal = np.where(np.arange(width) < dims, variance, 1.0)
    sigma = np.tile(np.diag(diagonal), (1, comps, 1, 1))
    return Mixtures(np.full((1, comps), 1 / comps), mu, sigma, np.array([dims]))


def _in_basis(
    known: StreamedClass, before: Fitted, W: Array, variance: float, options: StreamDensityOptions
) -> Mixtures:
    """Return the mixture of `before` in the basis W (D, d_y) and about the mean of the moments, Eq. (15).

    As printed, its numbers stay what they are, whatever the coordinates now mean.
    """
    if options.updates is Updates.PRINTED:
        return with_dims(before.mixture, W.shape[1])
    outside = W - before.W @ (before.W.T @ W)
    beyond = outside.T @ known.moments.times(outside)
    beyond = (beyond + beyond.T) / 2
    carried = carry(before.mixture, before.W, W, before.mean - known.moments.mean, beyond)
    return floored(carried, options.ridge * variance)

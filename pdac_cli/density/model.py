"""The projected Gaussian mixture model of a data set: one projection and one mixture per class, Eqs. (1)–(9)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.blocks import ROWS, Allocate, ClassRows, empty_blocks, fill, segments
from pdac_cli.density.device import NUMPY, Device, Workspace
from pdac_cli.density.em import expectation_maximisation, start
from pdac_cli.density.mixture import Mixtures, cholesky, coefficients, e_step, quadratic
from pdac_cli.density.projection import Projection, fit_projection, project, projected, single_row
from pdac_cli.options.shared import DensityOptions
from pdac_cli.rng import Purpose, row_uniforms


@dataclass(frozen=True)
class Model:
    """The densities of C classes.  What a small class does not use of d and L is padding."""

    labels: Array  # (C,) int64, ascending
    counts: Array  # (C,) int64, n_y
    mean: Array  # (C, D) h̄_y
    unit: Array  # (C,) what rows are divided by while computing: 1, or a power of two near an extreme extent
    W: Array  # (C, D, d)
    dims: Array  # (C,) int64, d_y; 0: flat density
    alpha: Array  # (C, L)
    mu: Array  # (C, L, d)
    chol: Array  # (C, L, d, d) lower Cholesky factors of Σ
    log_likelihood: Array  # (C, G + 1) mean log p(ξ|y) before each EM step and after the last, NaN where not reached

    @property
    def log_prior(self) -> Array:
        """log p̂(y) = log(n_y / n), Eq. (8): (C,)."""
        prior: Array = np.log(self.counts / self.counts.sum())
        return prior

    @property
    def size(self) -> int:
        """Bytes of W, μ, Σ (its factor) and α: what the paper counts as the model's storage."""
        return self.W.nbytes + self.mu.nbytes + self.chol.nbytes + self.alpha.nbytes

    def step_log_likelihood(self) -> Array:
        """Return the mean log-likelihood of all rows at each EM step (paper's figure 3): (G + 1,)."""
        history = np.array(self.log_likelihood)
        for step in range(1, history.shape[1]):  # a class that stopped early stays where it was
            history[:, step] = np.where(np.isnan(history[:, step]), history[:, step - 1], history[:, step])
        return np.average(history, axis=0, weights=self.counts)


def fit_classes(
    classes: Sequence[ClassRows],
    options: DensityOptions,
    seed: int,
    device: Device = NUMPY,
    allocate: Allocate = np.zeros,
    workspace: Workspace | None = None,
) -> Model:
    """Fit the classes, in the order given; a class's answer depends on its own rows alone."""
    workspace = workspace or Workspace()
    projections: list[Projection] = []
    blocks = empty_blocks([rows.count for rows in classes], options.dim, allocate)
    for c, rows in enumerate(classes):
        if rows.count == 1:  # of which there may be many, and each takes a while for nothing
            projections.append(single_row(rows, options.solver))
            continue
        projection, centred = fit_projection(rows, options.dim, options.solver, device, workspace)
        projections.append(projection)
        for first, xi in projected(centred, projection.W):
            fill(blocks, c, first, xi)
    dims = np.array([p.W.shape[1] for p in projections])
    unit = np.array([p.unit for p in projections])
    # The mixtures are fitted in the class's unit and turned back at the end.
    variance = np.array(
        [options.units.variance(p.variance.mean() if len(p.variance) else 1.0, p.unit) for p in projections]
    )
    chosen = [initial_rows(rows.label, rows.count, options.components, seed) for rows in classes]
    mixtures, history = expectation_maximisation(
        blocks,
        start(blocks, dims, variance, chosen, options.components),
        options.ridge * variance,
        options.iterations,
        options.tol,
        device,
        workspace,
    )
    W = np.zeros((len(classes), classes[0].n_features, options.dim), projections[0].W.dtype)
    for c, p in enumerate(projections):
        W[c, :, : dims[c]] = p.W
    scale = _scale(dims, unit, options.dim)
    return Model(
        labels=np.array([rows.label for rows in classes]),
        counts=blocks.counts,
        mean=np.stack([p.mean for p in projections]),
        unit=unit,
        W=W,
        dims=dims,
        alpha=mixtures.alpha,
        mu=mixtures.mu * scale[:, None],
        chol=cholesky(mixtures.sigma) * scale[:, None, :, None],
        log_likelihood=history - (dims * np.log(unit))[:, None],
    )


def clipped_components(options: DensityOptions, counts: Iterable[int]) -> DensityOptions:
    """Return the options with no more components than the largest class has rows: none can use more."""
    return replace(options, components=min(options.components, max(int(count) for count in counts)))


def merge_models(models: Sequence[Model]) -> Model:
    """Return one model of all classes, in order of their labels."""
    order = np.argsort(np.concatenate([m.labels for m in models]))
    return Model(*(np.concatenate([getattr(m, f.name) for m in models])[order] for f in fields(Model)))


def initial_rows(label: int, count: int, components: int, seed: int) -> Array:
    """Return the min(L, n_y) distinct rows of a class whose projections are the first means (Floyd's algorithm)."""
    wanted = min(components, count)
    uniform = row_uniforms(seed, Purpose.INIT_MEANS, np.arange(wanted), label)
    chosen: list[int] = []
    for last, u in zip(range(count - wanted, count), uniform, strict=True):
        row = int(u * (last + 1))
        chosen.append(last if row in chosen else row)
    return np.array(chosen)


@dataclass(frozen=True)
class Scorer:
    """The log-density of rows under a model."""

    model: Model
    theta: Array  # (C, L', K)

    @classmethod
    def of(cls, model: Model) -> Scorer:
        """Prepare a model for scoring."""
        scale = _scale(model.dims, model.unit, model.W.shape[2])
        chol = model.chol / scale[:, None, :, None]
        sigma = chol @ chol.swapaxes(-1, -2)
        return cls(model, coefficients(Mixtures(model.alpha, model.mu / scale[:, None], sigma, model.dims)))

    def log_conditional(self, h: Array, c: int) -> Array:
        """Return log p(ξ|y) of rows of the c-th class, Eq. (5): (n, D) -> (n,).

        Rows of a class scored in pieces get the same bits as in one call if every piece but the last is whole blocks:
        BLAS may sum in another order at another place in a block.
        """
        model, out = self.model, np.empty(len(h))
        for first, last in segments(len(h)):
            blocks = empty_blocks([last - first], model.W.shape[2])
            fill(blocks, 0, 0, project(h[first:last], model.mean[c], model.W[c], float(model.unit[c])))
            phi = quadratic(blocks.xi, np.ones((len(blocks.xi), ROWS)))
            _, log_p = e_step(self.theta[c][None], phi, model.alpha.shape[1])
            out[first:last] = log_p.ravel()[: last - first]
        out -= model.dims[c] * np.log(model.unit[c])
        return out


def _scale(dims: Array, unit: Array, dim: int) -> Array:
    """Return each class's unit in the dimensions it uses and one in the others: (C, d)."""
    return np.where(np.arange(dim) < dims[:, None], unit[:, None], 1.0)

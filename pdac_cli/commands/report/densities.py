"""What a report shows of the density itself: how its fit went, and what it would weigh with other numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pdac_cli.pipeline.views import SetView
from pdac_cli.reports.charts import Chart, Heat, Item, Joined

_DIMS = (2, 5, 10, 20, 50)
_COMPONENTS = (1, 3, 7, 10, 20)


def density_items(view: SetView) -> Iterator[Item]:
    """Yield the log-likelihood by EM step and the size by d and L."""
    steps = view.model.step_log_likelihood()
    if len(steps) > 1 and np.isfinite(steps).all():
        line = Joined("all classes", list(range(len(steps))), steps.tolist())
        yield Chart.single("likelihood", "Log-likelihood by EM step", "step", "mean over rows", [line])
    classes, n_features, dim = view.model.W.shape
    components = view.model.alpha.shape[1]
    dims = sorted({*(d for d in _DIMS if d <= n_features), dim})
    counts = sorted({*_COMPONENTS, components})
    sizes = np.array([[_bytes(view, classes, n_features, d, k) / 1e6 for d in dims] for k in counts])
    about = f"W, means, covariances and weights in MB; here d is {dim} and L is {components}."
    heat = Heat("MB", [f"d {d}" for d in dims], [f"L {k}" for k in counts], sizes, digits=2)
    yield Chart.single("size", "Size of the density by d and L", "projected dimensions", "components", [heat], about)


def _bytes(view: SetView, classes: int, n_features: int, dim: int, components: int) -> int:
    """Return `Model.size` of other numbers of dimensions and components."""
    model = view.model
    of_mixtures = components * (dim * model.mu.itemsize + dim**2 * model.chol.itemsize + model.alpha.itemsize)
    return classes * (n_features * dim * model.W.itemsize + of_mixtures)

"""Rows as they are looked at: two directions of their class's density, how dense they are, and what is kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pdac_cli.arrays import Array, Chunk
from pdac_cli.console import Console
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.density.model import Model, Scorer
from pdac_cli.engine.plan import Plan, count_classes
from pdac_cli.engine.sources import MemorySource
from pdac_cli.errors import DataError
from pdac_cli.files.featureset import FeatureSet
from pdac_cli.files.results.model import StoredModel, check_fits
from pdac_cli.options.shared import DensityOptions, InputOptions
from pdac_cli.pipeline.fitting import DensitySetup, fit_source
from pdac_cli.selection.sampling import EffectiveSize

_ANGLES = np.linspace(0, 2 * np.pi, 49)
_SPREAD = 2.0  # standard deviations of an outline
_LABEL_ROWS = 1 << 20
_LEAST_WEIGHT = 0.01  # of a component that is outlined


@dataclass(frozen=True)
class ClassView:
    """The shown rows of one class, with its mixture in the first two directions."""

    label: int
    name: str
    total: int  # rows of the class in the file
    rows: Array  # (m,) global row numbers, ascending
    xi: Array  # (m, 2)
    log_p: Array  # (m,) log p̂(z), Eq. (9)
    h: Array  # (m, D) as the density takes them
    outlines: tuple[Array, ...]  # (49, 2) each

    def kept(self, rows: Array) -> Array:
        """Return which of the shown rows are among these: (m,)."""
        found: Array = np.isin(self.rows, rows)
        return found

    def mean_distance(self, chosen: Array) -> float:
        """Return the distance of the mean of the chosen rows (m,) from that of all, in units of the rows' spread."""
        centred = self.h - self.h.mean(axis=0)
        spread = float(np.sqrt((centred**2).sum(axis=1).mean()))
        if not chosen.any() or spread == 0:
            return float("nan")
        return float(np.linalg.norm(centred[chosen].mean(axis=0))) / spread

    def effective_size(self, temperature: float) -> float:
        """Return (Σπ)²/Σπ² of a draw by density^temperature."""
        found = EffectiveSize(1)
        found.add(temperature * self.log_p, np.zeros(len(self.log_p), np.int64))
        return float(found.sizes()[0])


@dataclass(frozen=True)
class SetView:
    """A feature file as it is looked at."""

    classes: tuple[ClassView, ...]
    model: Model
    fitted: bool  # here, and not read from a file
    total: int  # usable rows

    @property
    def shown(self) -> int:
        """How many rows are shown."""
        return sum(len(one.rows) for one in self.classes)


def uniform_distance(total: int, kept: int) -> float:
    """Return the root mean square of `mean_distance` when `kept` of `total` rows are drawn without replacement."""
    return float(np.sqrt((total - kept) / (kept * (total - 1)))) if total > 1 and kept else float("nan")


def view_of(
    source: FeatureSet,
    kept: Sequence[Array],
    given: StoredModel | None,
    where: Path,
    density: DensityOptions,
    input_: InputOptions,
    most: int,
    plan: Plan,
    console: Console,
) -> SetView:
    """Look at the rows, at no more than `most` of them besides those that are kept."""
    room = max(1, plan.memory // (8 * source.n_features * 8))
    ids, labels = _labels(source)
    chosen = _sample(ids, kept, min(most, room))
    if len(chosen) < len(ids):
        console.note(f"note: {len(chosen):,} of {len(ids):,} rows are shown, evenly spaced, and those that are kept")
    chosen, sample = _read(source, chosen, input_.drop_nonfinite, plan, console)
    classes = count_classes(sample, plan, input_)
    if given is not None:
        check_fits(given, where, source.n_features, classes.labels, source.label_names)
        density = replace(density, normalize=bool(given.options.get("normalize")))
        model = given.model
    else:
        density = replace(density, dim=min(density.dim, source.n_features))
        model = fit_source(sample, classes, DensitySetup(density), plan, console)
    scorer = Scorer.of(model)
    names, places = source.label_names, model.labels.tolist()
    counts = dict(zip(*(part.tolist() for part in np.unique(labels, return_counts=True)), strict=True))
    views = []
    for label in classes.labels.tolist():
        members = np.flatnonzero(sample.y == label)
        h = sample.h[members].astype(np.float64)
        rows = unit_rows(h) if density.normalize else h
        c = places.index(label)
        xi = (rows - model.mean[c]) @ model.W[c][:, :2]
        log_p = scorer.log_conditional(rows.astype(model.mean.dtype), c) + model.log_prior[c]
        xi = np.pad(xi, ((0, 0), (0, 2 - xi.shape[1])))
        name = names[label] if names else str(label)
        views.append(ClassView(label, name, counts[label], chosen[members], xi, log_p, rows, _outlines(model, c)))
    return SetView(tuple(views), model, given is None, len(ids))


def input_path(source: FeatureSet) -> str:
    """Return what messages call the set."""
    return source.files[0]


def _labels(source: FeatureSet) -> tuple[Array, Array]:
    parts = list(source.label_chunks(_LABEL_ROWS))
    if not parts:
        raise DataError(f"{input_path(source)}: no usable row is left; expected at least one; see --ignore-label")
    ids, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    return ids, labels


def _sample(ids: Array, kept: Sequence[Array], most: int) -> Array:
    """Return the rows to show, ascending: all, or evenly spaced ones with those that are kept."""
    if len(ids) <= most:
        return ids
    spaced = ids[np.linspace(0, len(ids) - 1, most).round().astype(np.int64)]
    found: Array = np.unique(np.concatenate([spaced, *(np.intersect1d(ids, rows) for rows in kept)]))
    return found


def _read(source: FeatureSet, chosen: Array, drop: bool, plan: Plan, console: Console) -> tuple[Array, MemorySource]:
    """Read the chosen rows and return which they are: those that are not finite are left out where asked for."""
    step = plan.rows_at_once(source)
    with console.progress("reading", source.n if drop else len(chosen)) as tick:
        parts = []
        if drop:
            for chunk in source.chunks(step):
                wanted = np.isin(chunk.ids, chosen)
                parts.append(Chunk(chunk.ids[wanted], chunk.h[wanted], chunk.y[wanted]))
                tick(len(chunk.ids))
        else:
            for start in range(0, len(chosen), step):
                parts.append(source.read_rows(chosen[start : start + step]))
                tick(len(parts[-1].ids))
    if not sum(len(part.ids) for part in parts):
        raise DataError(f"{input_path(source)}: no usable row is left; expected at least one; see --drop-nonfinite")
    ids, h, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "h", "y"))
    return ids, MemorySource(h, y, files=source.files, label_names=source.label_names)


def _outlines(model: Model, c: int) -> tuple[Array, ...]:
    """Return an ellipse of two standard deviations around each component of the c-th class."""
    if model.dims[c] < 2:
        return ()
    circle = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)
    found = []
    for alpha, mu, chol in zip(model.alpha[c], model.mu[c], model.chol[c], strict=True):
        if alpha >= _LEAST_WEIGHT:
            # The first two rows of a lower factor are the factor of the first two coordinates' covariance.
            found.append(mu[:2] + _SPREAD * circle @ chol[:2, :2].T)
    return tuple(found)

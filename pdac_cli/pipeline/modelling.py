"""The model of a set: the density of every class and the one that all classes share, as a model file keeps them."""

from __future__ import annotations

from dataclasses import asdict

from pdac_cli.arrays import Source
from pdac_cli.console import Console
from pdac_cli.engine.plan import Classes, Plan
from pdac_cli.files.results.model import StoredModel
from pdac_cli.pipeline.fitting import DensitySetup, fit_source
from pdac_cli.pipeline.row_access import SourceRows, note_directions
from pdac_cli.pipeline.stored_pools import LogitColumns


def model_of_source(source: Source, classes: Classes, setup: DensitySetup, plan: Plan, console: Console) -> StoredModel:
    """Fit the densities of the source's classes, Eqs. (1)–(8), and what they share, Eq. (23)."""
    model = fit_source(source, classes, setup, plan, console)
    note_directions(source.n_features, console)
    rows = SourceRows(source, classes, LogitColumns(0, classes.labels), setup, plan, console, narrow=True)
    space = rows.common_space()
    return StoredModel(model, source.fingerprint, source.label_names, asdict(setup.options), setup.seed, space)

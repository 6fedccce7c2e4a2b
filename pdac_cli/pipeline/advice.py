"""What is known to choose better in the case at hand: one line, at most once a run.

Measured with heads trained on the kept rows alone, on frozen features: see the evidence in `presets`.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.options.methods import ABOUT, DRAWN
from pdac_cli.options.select import DensityKind, SelectOptions
from pdac_cli.pipeline.selecting import Chosen

_MANY = 20  # rows a class up to which some methods were measured to be poorer everywhere


def advice(options: SelectOptions, chosen: Chosen) -> str | None:
    """Return what is known to be better than what was asked for, if anything is."""
    if len(chosen.classes.labels) < 2:
        return None  # one class, or no labels: nothing was measured
    each = len(chosen.answer.ranking.ids) / np.count_nonzero(chosen.classes.counts)
    if options.method == DRAWN and options.draw.density_kind is DensityKind.CLASS and options.temperature > 0:
        return _poorer("rows dense within their own class")
    if ABOUT[options.method].outdone and each <= _MANY:
        return _poorer(f"up to {_MANY} rows a class by {options.method}")
    return None


def _poorer(what: str) -> str:
    return (
        f"note: for classifiers trained on the kept rows alone, {what} were poorer than the default's on all feature "
        "sets measured"
    )

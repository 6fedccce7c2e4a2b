"""Whether logits mean anything for the labels, told from a sample before they are used."""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array, Source
from pdac_cli.console import Console
from pdac_cli.files.features import FeatureSet

_BLOCKS, _BLOCK_ROWS = 16, 128  # of the sample, spread over the set
_FEWEST_ROWS = 32  # that tell agreement from chance
_DEVIATIONS = 2.0  # above chance


def warn_of_chance(source: Source, labels: Array, console: Console) -> None:
    """Warn of logits that agree with the labels (C,) no better than chance.

    Chance is what the largest logits would agree if they were dealt to the rows at random: Σ_c P(argmax = c) P(y = c).
    Only files are looked at: the logits of a network that is here are its own.
    """
    if not isinstance(source, FeatureSet) or not source.has_logits:
        return
    chunk = source.read_rows(_sample(source.n), logits=True, leave_out=True)
    if chunk.logits is None or not len(chunk.y):
        return
    known = np.isin(chunk.y, labels)
    logits, y = chunk.logits[known], chunk.y[known]
    if logits.shape[1] < 2 or not len(y):
        return
    likely = logits.argmax(axis=1)
    values = np.unique(y)
    chance = float(sum(np.mean(likely == value) * np.mean(y == value) for value in values))
    agreed, spread = float(np.mean(likely == y)), np.sqrt(chance * (1 - chance) / len(y))
    if len(values) > 1 and len(y) >= _FEWEST_ROWS and agreed <= chance + _DEVIATIONS * spread:
        console.warn(
            f"{source.files[0]}: the largest of {logits.shape[1]:,} logits is the label's in {agreed:.1%} of the rows, "
            f"no better than chance ({chance:.1%}): column k should be that of label k; add "
            "--head to train a linear head in their place"
        )


def _sample(n: int) -> Array:
    """Return rows in evenly spaced blocks, all where there are few: ascending."""
    if n <= _BLOCKS * _BLOCK_ROWS:
        return np.arange(n)
    starts = np.linspace(0, n - _BLOCK_ROWS, _BLOCKS).astype(np.int64)
    return np.unique(starts[:, None] + np.arange(_BLOCK_ROWS))

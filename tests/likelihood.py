"""Held-out log-likelihood of the streamed density beside the offline fit's, on rows that do not drift."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from pdac_cli.density.model import Model, Scorer, fit_classes
from pdac_cli.density.streaming import add_rows, new_class, to_model
from pdac_cli.options.shared import DensityOptions
from pdac_cli.options.stream import StreamDensityOptions
from tests.oracles import MemoryRows, clustered, features

HELD_OUT = 2000


@dataclass(frozen=True)
class Sample:
    """Rows of one class to learn from, (n, D), and others of the same distribution to judge by."""

    kind: str
    number: int
    learnt: np.ndarray
    held_out: np.ndarray


@dataclass(frozen=True)
class Likelihoods:
    """Mean log-likelihood of the held-out rows, one entry per seed of the initial rows."""

    offline: np.ndarray
    stream: np.ndarray

    @property
    def gap(self) -> float:
        """Return how far the stream's mean is below the offline fit's, in parts of it; negative where it is above."""
        return float((self.offline.mean() - self.stream.mean()) / abs(self.offline.mean()))

    @property
    def worst(self) -> float:
        """Return the same for the worst seed."""
        return float(((self.offline - self.stream) / np.abs(self.offline)).max())

    @property
    def spread(self) -> float:
        """Return how far the offline fit's own seeds lie apart, in parts of their mean."""
        return float(np.ptp(self.offline) / abs(self.offline.mean()))


def samples(clusters: int, rows: int, dims: tuple[int, ...] = (32, 64), count: int = 4) -> Iterator[Sample]:
    """Yield sets of well separated Gaussian clusters in random order; one cluster has a falling spectrum instead."""
    for dim in dims:
        for number in range(count):
            if clusters == 1:
                h = features(rows + HELD_OUT, dim, seed=number)
            else:
                h = clustered(rows + HELD_OUT, dim, clusters, seed=30 + number + dim)
            h = h[np.random.default_rng(number).permutation(len(h))].astype("f4")
            name = f"{clusters} clusters, {rows:,} x {dim}" if clusters > 1 else f"one Gaussian, {rows:,} x {dim}"
            yield Sample(name, number, h[:rows], h[rows:])


def from_files(train: Path, test: Path) -> Iterator[Sample]:
    """Yield each class of a feature file with its rows in another."""
    with h5py.File(train) as learnt, h5py.File(test) as held_out:
        h, y, g, z = learnt["features"][:], learnt["labels"][:], held_out["features"][:], held_out["labels"][:]
    for label in np.unique(y):
        yield Sample(f"{train.stem}, {h.shape[1]:,} features", int(label), h[y == label], g[z == label])


def measure(sample: Sample, seeds: int, batch: int = 3) -> Likelihoods:
    """Fit both densities from the same rows, the stream `batch` of them at a time."""
    found = [(_offline(sample, seed), _streamed(sample, seed, batch)) for seed in range(seeds)]
    scores = [[Scorer.of(model).log_conditional(sample.held_out, 0).mean() for model in pair] for pair in found]
    offline, stream = np.array(scores).T
    return Likelihoods(offline, stream)


def _offline(sample: Sample, seed: int) -> Model:
    return fit_classes([MemoryRows(0, sample.learnt)], DensityOptions(), seed)


def _streamed(sample: Sample, seed: int, batch: int) -> Model:
    options = StreamDensityOptions()
    known = new_class(0, sample.learnt.shape[1], options)
    for start in range(0, len(sample.learnt), batch):
        add_rows(known, sample.learnt[start : start + batch], options, seed)
    return to_model([known], options)

"""Rows without labels, parted by k-means out of core: their clusters take the place of classes."""

from __future__ import annotations

import warnings

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.console import Console
from pdac_cli.density.common_rows import unit_rows
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.errors import UsageError
from pdac_cli.files.featureset import FeatureSet

_BLOCK_BYTES, _MOST_ROWS, _LEAST_ROWS = 1 << 25, 8192, 1024
_PASSES = 2  # over all rows; centres move little after the first
_SAMPLE = 20  # rows for each cluster that the first centres are drawn from, at least


def clustered(source: FeatureSet, clusters: int, normalize: bool, seed: int, console: Console) -> FeatureSet:
    """Return the rows labelled by scikit-learn's MiniBatchKMeans on rows of unit length, or as they are.

    Blocks are of a fixed number of rows and the first centres are drawn from rows all over the set, so that neither
    memory nor the order of the classes in a file changes the answer more than k-means itself does.
    """
    from sklearn.cluster import MiniBatchKMeans

    rows = max(_LEAST_ROWS, min(_MOST_ROWS, _BLOCK_BYTES // (4 * source.n_features)), 3 * clusters)
    count = min(source.n, max(_SAMPLE * clusters, rows))
    sample = source.read_rows(np.arange(count) * source.n // count, leave_out=True).h
    if len(np.unique(sample, axis=0)) < clusters:
        raise UsageError(
            f"--clusters is {clusters:,} and {len(sample):,} rows looked at have fewer different ones; "
            "expected at most as many clusters; lower --clusters"
        )
    codes = np.zeros(source.n, np.int32)
    with one_blas_thread(), console.progress("clustering", (_PASSES + 1) * source.n) as tick, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, on Windows' threads and on clusters that are not found
        means = MiniBatchKMeans(clusters, init="k-means++", n_init=3, batch_size=rows, random_state=seed)
        means.fit(_taken(sample, normalize))
        moving = MiniBatchKMeans(clusters, init=means.cluster_centers_, n_init=1, batch_size=rows, random_state=seed)
        for _ in range(_PASSES):
            for chunk in source.chunks(rows):
                moving.partial_fit(_taken(chunk.h, normalize)) if len(chunk.h) else None
                tick(len(chunk.h))
        for chunk in source.chunks(rows):
            codes[chunk.ids] = moving.predict(_taken(chunk.h, normalize))
            tick(len(chunk.h))
    return source.relabelled(codes)


def _taken(h: Array, normalize: bool) -> Array:
    """Return rows (m, D) as k-means takes them."""
    return np.ascontiguousarray(unit_rows(h) if normalize else h, np.float32)

"""Reservoir sampling whose acceptance follows the density, Eqs. (18) and (19).

Every random number is a function of (seed, position in the stream), so how the rows are cut into batches changes
nothing but the ε they come with.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.options.stream import Acceptance
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.selection.streams.interface import Batch, KeepContext


def admit(context: KeepContext, batch: Batch, epsilon: Array) -> None:
    """Take in the next rows of the stream, Eq. (19): epsilon (n,)."""
    buffer = context.buffer
    position = np.arange(buffer.seen, buffer.seen + len(epsilon))
    buffer.seen += len(epsilon)
    room = buffer.fill(batch.columns)
    enter = admitted(position, epsilon, buffer.budget, context.acceptance, context.seed)
    enter[:room] = False
    which = np.flatnonzero(enter)
    slot = np.floor(row_uniforms(context.seed, Purpose.REPLACE, position[which]) * buffer.budget).astype(np.int64)
    buffer.put(slot, batch.columns, which)  # in order: a later row may replace an earlier one of the same batch


def admitted(position: Array, epsilon: Array, budget: int, acceptance: Acceptance, seed: int) -> Array:
    """Return which rows enter a full buffer, Eq. (19): position, epsilon (n,) -> (n,).

    c is uniform on {1, …, n} with n the rows seen, this one included; a row enters if c ≤ N·ε, or as printed in the
    paper if c·ε ≤ N.  With ε = 1 both are c ≤ N: plain reservoir sampling.
    """
    n = position + 1
    c = 1 + np.floor(row_uniforms(seed, Purpose.ADMIT, position) * n)
    enter: Array = c <= budget * epsilon if acceptance is Acceptance.DENSITY else c * epsilon <= budget
    return enter


def relative_to_batch(log_p: Array) -> Array:
    """Return ε = π·|B| over the rows of one batch, Eq. (18), 1 where there is no density: (n,) -> (n,)."""
    epsilon = np.ones(len(log_p))
    known = ~np.isnan(log_p)
    if known.any():
        w = np.exp(log_p[known] - log_p[known].max())
        epsilon[known] = w / w.mean()
    return epsilon


def latest(recent: Array, log_p: Array, window: int) -> Array:
    """Return, for each row of one class, the log-densities of the class's last `window` rows up to it: (n, window).

    `recent` (m,) are those before log_p (n,); where there are fewer than `window`, the rest is −∞.
    """
    both = np.concatenate([recent, log_p])
    out = np.full((len(log_p), window), -np.inf)
    for k in range(len(log_p)):
        stop = len(recent) + k + 1
        last = both[max(0, stop - window) : stop]
        out[k, : len(last)] = last
    return out


def relative_to_latest(log_p: Array, last: Array) -> Array:
    """Return ε of rows over the latest rows of their class, themselves included: log_p (n,), last (n, w) -> (n,).

    Eq. (18) with those rows as its batch.  A class of which every batch holds one row would have ε = 1 for ever if
    it were compared within the batch.
    """
    largest = last.max(axis=1)
    total = np.exp(last - largest[:, None]).sum(axis=1)
    epsilon: Array = np.exp(log_p - largest) * np.isfinite(last).sum(axis=1) / total
    return epsilon

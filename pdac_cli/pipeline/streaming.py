"""A stream, from files or from memory: its batches, what is checked before its first row, which settings decide it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict

import numpy as np

from pdac_cli.arrays import Array, Chunk
from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.index.index_schema import Option
from pdac_cli.options.stream import StreamRule
from pdac_cli.selection.streams.interface import StreamingMethod
from pdac_cli.selection.streams.methods import STREAMING_METHODS

_READ_BYTES = 1 << 24  # of features read at once


def rows_read_at_once(rows: int, n_features: int, itemsize: int) -> int:
    """Return how many rows to read at once, whole batches of `rows`."""
    return rows * max(1, _READ_BYTES // (rows * n_features * itemsize))


def batches_of(chunks: Iterable[Chunk], rows: int) -> Iterator[Chunk]:
    """Cut chunks into batches: batch k holds those of the rows k·rows to (k + 1)·rows, by their ids."""
    for chunk in chunks:
        number = chunk.ids // rows
        for k in np.unique(number):
            own = slice(*np.searchsorted(number, [k, k + 1]))
            beside = None if chunk.logits is None else chunk.logits[own]
            yield Chunk(chunk.ids[own], chunk.h[own], chunk.y[own], beside)


def check_has_no_network(rule: StreamRule, method: StreamingMethod) -> None:
    """Refuse a method that asks a network that learns: a stream of features has none."""
    if method.needs_network:
        able = ", ".join(name.value for name, other in STREAMING_METHODS.items() if not other.needs_network)
        name = rule.method.value
        raise UsageError(
            f"--method {name} needs {method.needs_network}, and pdac stream has no network that learns; "
            f"expected one of: {able}; for {name} use pdac train-cl --setting online"
        )


def check_dim(rule: StreamRule, method: StreamingMethod, n_features: int) -> None:
    """Refuse more dimensions than there are features."""
    if method.needs_density and rule.density.dim > n_features:
        raise UsageError(f"--dim is {rule.density.dim}, the data has {n_features} features; expected at most as many")


def outcome_options(rule: StreamRule, method: StreamingMethod) -> dict[str, Option]:
    """Return the options that decide the outcome, as they are stored."""
    density = asdict(rule.density) if method.needs_density else {}
    settings = rule.settings.of(rule.method)
    steered = {"density": rule.density_kind.value, "steer": rule.steer} if method.is_steered else {}
    return {
        "budget": rule.budget,
        "batch": rule.batch,
        "seed": rule.seed,
        "method": rule.method.value,
        "acceptance": rule.acceptance.value,
        "allocation": rule.allocation.value,
        "window": rule.window,
        "temperature": rule.temperature,
        **steered,
        **{name.replace("_", "-"): value for name, value in {**density, **settings}.items()},
    }


def check_logit_columns(logits: Array, labels: Array, renamed: bool, where: str) -> None:
    """Refuse logits (n, K) whose columns are not the stream's labels (n,)."""
    if labels.max() >= logits.shape[1]:
        raise DataError(
            f"{where}: 'logits' has {logits.shape[1]:,} columns and there is a label {labels.max():,}; "
            "expected a column for every label from 0 on"
        )
    if renamed:
        raise DataError(
            f"{where}: its labels are names, or its classes are named in another order than the stream's, so that "
            "the columns of 'logits' are not its classes; expected labels as numbers, alike in all files"
        )

"""The two sources that are not files: rows in memory, and the rows of another source changed on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pdac_cli.arrays import Array, Chunk, Divisible, Source
from pdac_cli.density import kernel
from pdac_cli.density.blocks import work_dtype
from pdac_cli.density.common_rows import common_rows, common_width, unit_rows
from pdac_cli.errors import UsageError


@dataclass(frozen=True)
class MemorySource:
    """Rows in memory; see `arrays.Source`."""

    h: Array  # (m, D) float16, float32 or float64
    y: Array  # (m,) whole numbers
    logits: Array | None = None  # (m, K)
    row_ids: Array | None = None  # (m,) ascending; None: 0 to m − 1
    total: int | None = None  # rows of the data these are from; None: m
    fingerprint: str = "memory"  # what identifies the rows, where an index is to refer to them
    files: tuple[str, ...] = ()
    label_names: tuple[str, ...] | None = None
    logit_labels: Array | None = None

    @property
    def has_logits(self) -> bool:
        """Whether there are logits beside the features."""
        return self.logits is not None

    @property
    def n(self) -> int:
        """How many rows there are."""
        return len(self.h) if self.total is None else self.total

    @property
    def n_features(self) -> int:
        """The number of features D."""
        return int(self.h.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the rows are stored as."""
        return self.h.dtype

    def chunks(self, rows: int, *, logits: bool = False) -> Iterator[Chunk]:
        """Yield the rows, `rows` at a time."""
        for ids, part in self._parts(rows):
            yield Chunk(
                ids, self.h[part], self.y[part], self.logits[part] if logits and self.logits is not None else None
            )

    def label_chunks(self, rows: int) -> Iterator[tuple[Array, Array]]:
        """Yield ids and labels."""
        for ids, part in self._parts(rows):
            yield ids, self.y[part]

    def take(self, ids: Array, out: Array) -> None:
        """Lay the features of the rows of these ids into out (m, D), as its dtype."""
        places = ids if self.row_ids is None else np.searchsorted(self.row_ids, ids)
        whole = self.h.flags.c_contiguous and out.dtype == self.h.dtype
        if whole and kernel.takes(out):
            kernel.compiled.gather(self.h, places, out, self.n_features)
        elif whole:
            np.take(self.h, places, axis=0, out=out, mode="clip")  # "raise" would copy once more
        else:
            out[...] = self.h[places]

    def _parts(self, rows: int) -> Iterator[tuple[Array, slice]]:
        for at in range(0, len(self.h), rows):
            stop = min(at + rows, len(self.h))
            yield np.arange(at, stop) if self.row_ids is None else self.row_ids[at:stop], slice(at, stop)


@dataclass(frozen=True)
class MappedSource:
    """The rows of another source, each chunk changed on the way; see `arrays.Source`.

    Ids and labels stay.  `change` is given the logits where `reads_logits` or where they are asked for and not added.
    """

    source: Source
    change: Callable[[Chunk], Chunk]
    n_features: int
    dtype: np.dtype[Any]
    reads_logits: bool = False  # `change` needs the source's logits
    adds_logits: bool = False  # `change` makes logits, and is left out where none are asked for
    logit_rows: int | None = None  # rows at a time where logits are made, for whoever sums otherwise in another place
    logit_labels: Array | None = None

    @property
    def n(self) -> int:
        """How many rows there are, unusable ones included."""
        return self.source.n

    @property
    def has_logits(self) -> bool:
        """Whether there are logits beside the features."""
        return self.adds_logits or (self.source.has_logits and not self.reads_logits)

    @property
    def fingerprint(self) -> str:
        """What identifies the set."""
        return self.source.fingerprint

    @property
    def files(self) -> tuple[str, ...]:
        """Where it comes from."""
        return self.source.files

    @property
    def label_names(self) -> tuple[str, ...] | None:
        """Names of the classes, where they have names."""
        return self.source.label_names

    def chunks(self, rows: int, *, logits: bool = False) -> Iterator[Chunk]:
        """Yield the usable rows, about `rows` at a time, or fewer where those read are wider than those given."""
        rows = max(1, rows * min(self.n_features, self.source.n_features) // self.source.n_features)
        if self.adds_logits:
            found = self.source.chunks(self.logit_rows or rows if logits else rows)
            return map(self.change, found) if logits else found
        return map(self.change, self.source.chunks(rows, logits=logits or self.reads_logits))

    def label_chunks(self, rows: int) -> Iterator[tuple[Array, Array]]:
        """Yield ids and labels of the usable rows."""
        return self.source.label_chunks(rows)

    def ranges(self, rows: int) -> Sequence[Source]:
        """Return the source in parts of `rows` consecutive ids; see `arrays.Divisible`."""
        return [replace(self, source=part) for part in divisible(self.source).ranges(rows)]

    def note_unused(self, dropped: int, ignored: int) -> None:
        """Tell the source how many rows were left out in a pass."""
        divisible(self.source).note_unused(dropped, ignored)

    def unused(self) -> tuple[int, int]:
        """Return how many rows were left out in the last pass."""
        return divisible(self.source).unused()


def divisible(source: Source) -> Divisible:
    """Return the source as one of which parts can be sent; rows of arrays cannot be read elsewhere."""
    if not isinstance(source, Divisible):
        raise UsageError("rows in memory cannot be sent to a cluster; expected feature files; work in this process")
    return source


def normalized(source: Source) -> Source:
    """Return the rows divided by their length."""

    return MappedSource(source, _unit, source.n_features, work_dtype(source.dtype))


def narrowed(source: Source) -> Source:
    """Return the rows as the space that all classes share takes them: in fewer directions where features are many."""

    width = common_width(source.n_features)
    return source if width == source.n_features else MappedSource(source, _common, width, work_dtype(source.dtype))


def with_logits_beside(source: Source, n_logits: int) -> Source:
    """Return the rows as they are stored for many passes: in the precision they are computed in, logits as features."""
    dtype = work_dtype(source.dtype)
    return MappedSource(source, partial(_beside, dtype), source.n_features + n_logits, dtype, reads_logits=n_logits > 0)


def _unit(chunk: Chunk) -> Chunk:
    return replace(chunk, h=unit_rows(chunk.h))


def _common(chunk: Chunk) -> Chunk:
    return replace(chunk, h=common_rows(chunk.h))


def _beside(dtype: np.dtype[Any], chunk: Chunk) -> Chunk:
    h = chunk.h.astype(dtype, copy=False)
    if chunk.logits is not None:
        h = np.concatenate([h, chunk.logits.astype(dtype)], axis=1)
    return Chunk(chunk.ids, h, chunk.y)

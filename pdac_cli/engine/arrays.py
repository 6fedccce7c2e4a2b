"""Rows in memory as a source, for callers that have arrays and no files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdac_cli.density import kernel
from pdac_cli.density.blocks import Array


@dataclass(frozen=True)
class ArrayChunk:
    """Some rows; see `source.Chunk`."""

    ids: Array  # (m,)
    h: Array  # (m, D)
    y: Array  # (m,)
    logits: Array | None = None  # (m, K)


@dataclass(frozen=True)
class ArraySource:
    """All rows; see `source.Source`."""

    h: Array  # (n, D) float16, float32 or float64
    y: Array  # (n,) whole numbers
    fingerprint: str = "memory"  # what identifies the rows, where an index is to refer to them
    files: tuple[str, ...] = ()
    label_names: tuple[str, ...] | None = None
    logits: Array | None = None  # (n, K)

    @property
    def has_logits(self) -> bool:
        """Whether there are logits beside the features."""
        return self.logits is not None

    @property
    def n(self) -> int:
        """How many rows there are."""
        return len(self.h)

    @property
    def dim(self) -> int:
        """The number of features D."""
        return int(self.h.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the rows are stored as."""
        return self.h.dtype

    def chunks(self, rows: int, *, logits: bool = False) -> Iterator[ArrayChunk]:
        """Yield the rows, `rows` at a time."""
        for at in range(0, self.n, rows):
            part = slice(at, at + rows)
            z = self.logits[part] if logits and self.logits is not None else None
            yield ArrayChunk(np.arange(at, min(at + rows, self.n)), self.h[part], self.y[part], z)

    def take(self, ids: Array, out: Array) -> None:
        """Lay the features of the rows of these ids into out (m, D), as its dtype."""
        whole = self.h.flags.c_contiguous and out.dtype == self.h.dtype
        if whole and kernel.takes(out):
            kernel.compiled.gather(self.h, ids, out, self.dim)
        elif whole:
            np.take(self.h, ids, axis=0, out=out, mode="clip")  # "raise" would copy once more
        else:
            out[...] = self.h[ids]

    def label_chunks(self, rows: int) -> Iterator[tuple[Array, Array]]:
        """Yield ids and labels."""
        for chunk in self.chunks(rows):
            yield chunk.ids, chunk.y

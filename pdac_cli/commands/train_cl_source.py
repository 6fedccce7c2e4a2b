"""The rows of one task as a set to choose from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdac_cli.density.blocks import Array
from pdac_cli.engine.arrays import ArrayChunk


@dataclass(frozen=True)
class TaskSource:
    """The rows of one task, by their numbers in the data; see `engine.source.Source`."""

    ids: Array  # (m,) ascending
    h: Array  # (m, D)
    y: Array  # (m,)
    logits: Array  # (m, K), column k is that of label k
    n: int  # rows of the data
    fingerprint: str
    files: tuple[str, ...]
    label_names: tuple[str, ...] | None
    has_logits: bool = True

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
        for at in range(0, len(self.ids), rows):
            part = slice(at, at + rows)
            yield ArrayChunk(self.ids[part], self.h[part], self.y[part], self.logits[part] if logits else None)

    def label_chunks(self, rows: int) -> Iterator[tuple[Array, Array]]:
        """Yield ids and labels."""
        for chunk in self.chunks(rows):
            yield chunk.ids, chunk.y

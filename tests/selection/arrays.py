"""Rows in memory as methods are given them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import PIECE_ROWS, Candidates
from pdac_cli.engine.local import OneFollower
from pdac_cli.options.select import Allocation
from pdac_cli.selection.interface import Request, blocks
from pdac_cli.selection.methods import METHODS


@dataclass(frozen=True)
class ArrayPool:
    key: tuple[int, ...]
    h: np.ndarray
    codes: np.ndarray
    ids: np.ndarray
    z: np.ndarray | None = None

    @property
    def count(self):
        return len(self.h)

    @property
    def n_features(self):
        return self.h.shape[1]

    @property
    def dtype(self):
        return self.h.dtype

    @property
    def targets(self):
        return self.codes

    def read(self, start, stop):
        return self.h[start:stop]

    def logits(self, start, stop):
        return self.z[start:stop]

    def map(self, work):
        return [work(start, stop) for start, stop in blocks(self.count)]

    def follow(self, begin):
        return OneFollower(begin(self, 0, self.count))


class ArrayPools(list):
    def each(self, work, units, tick=None, *, threads=False):
        return (work([self[k] for k in unit.numbers], unit) for unit in units)


@dataclass(frozen=True)
class ArrayRows:
    h: np.ndarray
    codes: np.ndarray
    logits: np.ndarray | None = None
    log_p: np.ndarray | None = None
    chunk: int = 1000

    def candidates(self):
        for part in self._parts():
            logits = None if self.logits is None else self.logits[part]
            codes = self.codes[part]
            yield Candidates(np.arange(len(self.codes))[part], codes, None, self.h[part], logits, codes)

    def pieces(self, work):
        by_piece = {}
        for some in self.candidates():
            for piece in np.unique(some.ids // PIECE_ROWS):
                at = some.ids // PIECE_ROWS == piece
                cut = {name: None if (v := getattr(some, name)) is None else v[at] for name in vars(some)}
                by_piece.setdefault(piece, []).append(Candidates(**cut))
        return (work(iter(several)) for several in by_piece.values())

    def scored(self):
        for part in self._parts():
            yield Candidates(np.arange(len(self.codes))[part], self.codes[part], self.log_p[part])

    def _parts(self):
        return [slice(at, at + self.chunk) for at in range(0, len(self.codes), self.chunk)]

    @contextmanager
    def pools(self, joint):
        groups = [np.arange(len(self.codes))]
        if not joint:
            groups = [np.flatnonzero(self.codes == c) for c in range(self.codes.max() + 1)]
        logits = self.logits
        yield ArrayPools(
            ArrayPool(() if joint else (c,), self.h[g], self.codes[g], g, None if logits is None else logits[g])
            for c, g in enumerate(groups)
        )


def pool_of(h, codes=None, z=None):
    """All rows as one pool."""
    codes = np.zeros(len(h), int) if codes is None else codes
    return ArrayPool((), np.asarray(h), codes, np.arange(len(h)), z)


def request(budget, counts, allocation=Allocation.JOINT, seed=0, **more):
    return Request(budget, np.atleast_1d(counts), allocation, 1.0, seed, **more)


def select(name, rows, budget, allocation=None, seed=0, temperature=1.0, **more):
    """The ranking by a method of the table."""
    method = METHODS[name]
    asked = Request(budget, np.bincount(rows.codes), allocation or method.allocation, temperature, seed, **more)
    return method.select(rows, asked)

"""SPDAC: of a class's stored rows and the new one, the one goes that is least dense and least needed.

Among k + 1 rows of unit length u the row i of the largest −T log r_i − β |k μ − Σ u + u_i|² / (1 − |μ|²) is given up:
Eq. (11) by the relative density r, steered as Eq. (24).  μ is the mean of all rows of the class seen so far, each
weighted by r as of its arrival.  Classes share the buffer evenly: one with less than its share takes the place of such
a row of the class with most rows.  No random number decides which row goes.
"""

from __future__ import annotations

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.common_rows import common_rows, common_width, unit_rows
from pdac_cli.selection.streams.er import replay
from pdac_cli.selection.streams.interface import Batch, KeepContext, StreamingMethod
from pdac_cli.selection.streams.running_density import PIECE, RunningDensity, on_grid

_LEAST_WEIGHT = 1e-6  # of a row in its class's mean
_LEAST_SPREAD = 1e-6  # of a class: less is rounding


def keep(context: KeepContext, batch: Batch) -> None:
    """Offer the rows one by one."""
    width = common_width(batch.h.shape[1])
    kept = _Kept(context, width)
    for start, stop, place in on_grid(context.buffer.seen, len(batch)):
        given = common_rows(batch.h[start:stop])
        piece = np.zeros((PIECE, width), given.dtype)
        piece[place : place + stop - start] = given
        u = unit_rows(piece).astype(np.float32)
        log_q = kept.density.log_posteriors(u)
        for i in range(start, stop):
            if kept.offer(batch, i, u[place + i - start], log_q[place + i - start]):
                log_q = kept.density.log_posteriors(u)


class _Kept:
    """The stored rows, and of each class what its rows aim at; its arrays are the method's memory."""

    def __init__(self, context: KeepContext, n_features: int) -> None:
        self.buffer, self.memo = context.buffer, context.memo
        self._temperature, self._steer, self._again = context.temperature, context.steer, context.again
        if not self.memo:
            self.memo |= {"label": np.empty(0, np.int64), "weight": np.empty(0)}
            self.memo |= {"aim": np.empty((0, n_features)), "stored": np.empty((0, n_features))}
            self.memo["unit"] = np.zeros((self.buffer.budget, n_features), np.float32)  # the stored rows
            self.memo["code"] = np.full(self.buffer.budget, -1)  # and their classes
        self.codes = {label: code for code, label in enumerate(self.memo["label"].tolist())}
        self.density = RunningDensity(self.memo, n_features, context.seed)

    def offer(self, batch: Batch, i: int, u: Array, log_q: Array) -> bool:
        """Offer row i of a batch; return whether rows are judged anew from here on."""
        code = self._code(int(batch.y[i]))
        log_r = float(log_q[code]) if self.density.is_judged(code) else 0.0
        weight = max(float(np.exp(log_r)), _LEAST_WEIGHT)
        self.memo["weight"][code] += weight
        self.memo["aim"][code] += weight * u.astype(np.float64)
        self.buffer.seen += 1
        self.density.see(code, u)
        held = self._held(batch, i)
        if held is None:
            self._take(batch, i, code, u, log_r)
        else:  # the row as the network has it now
            self.memo["stored"][code] += u.astype(np.float64) - self.memo["unit"][held]
            self.memo["unit"][held], self.buffer.columns["log_r"][held] = u, log_r
        if self.density.is_due():
            return self._renew()
        return False

    def _held(self, batch: Batch, i: int) -> int | None:
        """Return where the row is stored, if it came in an earlier pass."""
        if not self._again:
            return None
        return self.buffer.slot_of(int(batch.columns["source"][i]), int(batch.columns["row"][i]))

    def _code(self, label: int) -> int:
        """Return the number of a class, in order of appearance."""
        if label not in self.codes:
            self.codes[label] = len(self.codes)
            for name in ("label", "weight", "aim", "stored"):
                column = self.memo[name]
                self.memo[name] = np.concatenate([column, np.zeros((1, *column.shape[1:]), column.dtype)])
            self.memo["label"][-1] = label
        return self.codes[label]

    def _take(self, batch: Batch, i: int, code: int, u: Array, log_r: float) -> None:
        """Store the row, where a stored one goes for it or there is room."""
        row = {name: column[i : i + 1] for name, column in batch.columns.items()} | {"log_r": np.array([log_r])}
        if self.buffer.fill(row):
            slot: int | None = self.buffer.size - 1
        else:
            slot = self._given_up(code, u, log_r)
            if slot is not None:
                self.memo["stored"][self.memo["code"][slot]] -= self.memo["unit"][slot]
                self.buffer.put(np.array([slot]), row, np.array([0]))
        if slot is not None:
            self.memo["unit"][slot], self.memo["code"][slot] = u, code
            self.memo["stored"][code] += u

    def _given_up(self, code: int, u: Array, log_r: float) -> int | None:
        """Return the slot of the row that goes; None: the new one."""
        held = self.memo["code"]
        mine = np.flatnonzero(held == code)
        if len(mine) < self.buffer.budget // len(self.codes):
            largest = int(np.argmax(np.bincount(held)))
            slots = np.flatnonzero(held == largest)
            lack = self._mean(largest) * (len(slots) - 1) - self.memo["stored"][largest]
            return int(slots[np.argmax(self._ease(largest, self.memo["unit"][slots], lack, self._log_r(slots)))])
        if not len(mine):
            return None
        lack = self._mean(code) * len(mine) - self.memo["stored"][code] - u
        rows = np.concatenate([u[None], self.memo["unit"][mine]])  # of equal ones the new one goes
        gone = int(np.argmax(self._ease(code, rows, lack, np.append(log_r, self._log_r(mine)))))
        return int(mine[gone - 1]) if gone else None

    def _ease(self, code: int, u: Array, lack: Array, log_r: Array) -> Array:
        """Return how easily each of a class's rows is given up: u (k, D), lack (D,), log_r (k,) -> (k,)."""
        mean = self._mean(code)
        spread = max(1.0 - float(mean @ mean), _LEAST_SPREAD)
        squares = np.einsum("kd,kd->k", u, u, dtype=np.float64)
        moved = 2 * (u @ lack.astype(np.float32)).astype(np.float64) + squares  # |lack + u|² − |lack|²
        ease: Array = -self._temperature * log_r - self._steer / spread * moved
        return ease

    def _mean(self, code: int) -> Array:
        mean: Array = self.memo["aim"][code] / self.memo["weight"][code]
        return mean

    def _log_r(self, slots: Array) -> Array:
        log_r: Array = self.buffer.columns["log_r"][slots]
        return log_r

    def _renew(self) -> bool:
        """Renew what rows are judged by, and judge the stored ones."""
        gaussian = self.density.renew()
        if gaussian is None:
            return False
        held = self.memo["code"]
        for code in np.unique(held[held >= 0]):
            if self.density.is_judged(code):
                slots = np.flatnonzero(held == code)
                log_r, log_p = self.density.judged(gaussian, code, self.memo["unit"][slots])
                self.buffer.columns["log_r"][slots], self.buffer.columns["log_density"][slots] = log_r, log_p
        return True


SPDAC = StreamingMethod(keep, replay, needs_features=True, columns=("log_r",), is_steered=True, knows_stored=True)

"""The relative density of a stream's rows, Eqs. (22) and (23), from moments that follow the stream.

What a row is compared with is renewed at places in the stream that depend on the rows before them and on nothing else,
and every product is taken over pieces that lie on a fixed grid of the stream: how the rows are cut into batches does
not change a bit.  All that is known is in arrays, which are the method's memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density.relative import Calibration, ClassMoments, CommonGaussian, calibrate, judge, log_softmax
from pdac_cli.rng import Purpose, row_uniforms

PIECE = 32  # rows scored at once
_WAITING = 256  # rows that wait for the moments at most
_SAMPLE = 1000  # rows that τ and ε are fitted to
_FIRST_ROOM = 64  # of them at first
_GROWTH, _LEAST = 1.2, 50  # the model is renewed when so many times the rows, and so many more, have been seen,
_NEW_CLASS = 100  # or after so many rows where there is another class of
SETTLED = 8  # rows, as it takes to judge a class's rows


def on_grid(start: int, rows: int) -> Iterator[tuple[int, int, int]]:
    """Cut rows that begin at a place of the stream at multiples of PIECE: (first, last + 1, place in the piece)."""
    at = 0
    while at < rows:
        place = (start + at) % PIECE
        stop = min(at + PIECE - place, rows)
        yield at, stop, place
        at = stop


class RunningDensity:
    """Moments of all rows, a sample of them, and the means and covariance that rows are judged by for now."""

    def __init__(self, memo: dict[str, Array], n_features: int, seed: int) -> None:
        self._memo, self._seed = memo, seed
        if "counts" not in memo:
            empty = ClassMoments.empty(0, n_features)
            memo |= {"counts": empty.counts, "mean": empty.mean, "scatter": empty.scatter}
            memo |= {"waiting": np.zeros((_WAITING, n_features), np.float32), "waiting_code": _codes(_WAITING)}
            memo |= {"sample": np.zeros((_FIRST_ROOM, n_features), np.float32), "sample_code": _codes(_FIRST_ROOM)}
            memo |= {"linear": np.empty((0, n_features)), "constant": np.empty(0), "calibration": np.array([1.0, 0.0])}
            memo |= {"judged_by": np.empty(0), "clock": np.zeros(4, np.int64), "rows": _codes(0)}

    @property
    def seen(self) -> int:
        """How many rows have been seen."""
        return int(self._memo["clock"][0])

    def log_posteriors(self, u: Array) -> Array:
        """Return log r of new rows for each class of the model, none at first: (PIECE, D) -> (PIECE, C)."""
        memo = self._memo
        if not len(memo["constant"]):
            return np.empty((len(u), 0))
        return log_softmax(memo["calibration"][0] * (u.astype(np.float64) @ memo["linear"].T + memo["constant"]))

    def is_judged(self, code: int) -> bool:
        """Whether rows of a class can be compared with other classes."""
        known = self._memo["judged_by"]
        return code < len(known) and bool(known[code] >= SETTLED)

    def see(self, code: int, u: Array) -> None:
        """Count a row of a class, codes in order of appearance."""
        memo = self._memo
        clock, position = memo["clock"], self.seen
        if code == len(memo["rows"]):
            memo["rows"] = np.append(memo["rows"], 0)
        memo["rows"][code] += 1
        memo["waiting"][clock[3]], memo["waiting_code"][clock[3]] = u, code
        clock[0] += 1
        clock[3] += 1
        self._draw(position, code, u)
        if clock[3] == _WAITING:
            self._count_waiting()

    def is_due(self) -> bool:
        """Whether the model is to be renewed at this place of the stream."""
        seen, last, known, _ = self._memo["clock"].tolist()
        return bool(
            seen >= _GROWTH * last + _LEAST
            or (seen >= last + _NEW_CLASS and np.count_nonzero(self._memo["rows"] >= SETTLED) > known)
        )

    def renew(self) -> CommonGaussian | None:
        """Take means, covariance, τ and ε from all rows seen; None while there are not two classes to compare."""
        self._count_waiting()
        memo = self._memo
        memo["clock"][1:3] = self.seen, np.count_nonzero(memo["counts"] >= SETTLED)
        if memo["clock"][2] < 2:
            return None
        gaussian = CommonGaussian(ClassMoments(memo["counts"], memo["mean"], memo["scatter"]))
        memo["linear"] = gaussian.means @ gaussian.whiten
        memo["constant"] = gaussian.excess / (2 * memo["counts"]) - gaussian.squares / 2
        memo["judged_by"] = memo["counts"].copy()
        fitted = self._calibration(gaussian)
        memo["calibration"] = np.array([fitted.tau, fitted.epsilon])
        return gaussian

    def judged(self, gaussian: CommonGaussian, code: int, u: Array) -> tuple[Array, Array]:
        """Return log r and log p of counted rows of a class, each judged without itself: (n, D) -> (n,), (n,)."""
        found = judge(gaussian.scores_without(u, code), code, gaussian.counts, Calibration(*self._memo["calibration"]))
        return found.log_r, found.log_p

    def _draw(self, position: int, code: int, u: Array) -> None:
        """Keep a plain reservoir of the rows."""
        memo, room = self._memo, len(self._memo["sample"])
        if position == room < _SAMPLE:
            room = min(2 * room, _SAMPLE)
            for name in ("sample", "sample_code"):
                old = memo[name]
                memo[name] = np.zeros((room, *old.shape[1:]), old.dtype)
                memo[name][:position] = old
        slot = position
        if position >= _SAMPLE:
            drawn = row_uniforms(self._seed, Purpose.CALIBRATE, np.array([position]))[0]
            slot = int(drawn * (position + 1))
        if slot < _SAMPLE:
            memo["sample"][slot], memo["sample_code"][slot] = u, code

    def _calibration(self, gaussian: CommonGaussian) -> Calibration:
        """Fit τ and ε to the sample's rows of classes that have rows enough."""
        drawn = min(self.seen, _SAMPLE)
        codes = self._memo["sample_code"][:drawn]
        scores, labels = [], []
        for code in np.unique(codes):
            if gaussian.counts[code] >= SETTLED:
                rows = self._memo["sample"][:drawn][codes == code]
                scores.append(gaussian.scores_without(rows, code))
                labels.append(np.full(len(rows), code))
        return calibrate(np.concatenate(scores), np.concatenate(labels)) if scores else Calibration()

    def _count_waiting(self) -> None:
        """Take the rows that wait into the moments: Chan's update, Eqs. (13) and (14), of their classes alone."""
        memo, rows = self._memo, int(self._memo["clock"][3])
        counts, mean = _grown(memo["counts"], len(memo["rows"])), _grown(memo["mean"], len(memo["rows"]))
        codes, place, new = np.unique(memo["waiting_code"][:rows], return_inverse=True, return_counts=True)
        u = memo["waiting"][:rows].astype(np.float64)
        own = np.zeros((len(codes), u.shape[1]))
        np.add.at(own, place, u)
        own /= new[:, None]
        share = new / (counts[codes] + new)
        apart = own - mean[codes]
        spread = np.concatenate([u - own[place], apart * np.sqrt(counts[codes] * share)[:, None]])
        memo["scatter"] += spread.T @ spread
        mean[codes] += apart * share[:, None]
        counts[codes] += new
        memo["counts"], memo["mean"] = counts, mean
        memo["clock"][3] = 0


def _codes(rows: int) -> Array:
    return np.zeros(rows, np.int64)


def _grown(array: Array, rows: int) -> Array:
    """Return the array with zeros for more rows."""
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])

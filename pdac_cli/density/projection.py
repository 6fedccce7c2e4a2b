"""The variance-maximising projection of one class, Eqs. (1)–(4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from pdac_cli.density.blocks import ROWS, Array, ClassRows, block_count, segments, work_dtype
from pdac_cli.density.device import NUMPY, Device
from pdac_cli.density.eigenvectors import lanczos, top_eigenvectors
from pdac_cli.options.shared import Solver

_KEEP = 1 << 25  # numbers: a class up to this size is read once and kept, a larger one is read on every pass
_SMALL, _LARGE = 2.0**-40, 2.0**60  # between these a class's mean square distance is safe in single precision
_FAR = 2.0**-8  # of the mean's square: rounding in a mean above this may shift a class by 1e-5 of its extent
_SQUARE = 1 << 26  # numbers: a covariance above this size is never formed


@dataclass(frozen=True)
class Projection:
    """Where a class lies and along which directions it varies most."""

    mean: Array  # (D,) h̄_y, Eq. (1)
    W: Array  # (D, d_y), Eq. (3); d_y = 0 for a class that does not vary
    variance: Array  # (d_y,) eigenvalues of H̄_y, descending, in unit²
    unit: float  # what rows are divided by so that no scale overflows: 1, or a power of two near an extreme extent


def project(h: Array, mean: Array, W: Array, unit: float) -> Array:
    """Return W_yᵀ(h − h̄_y) / unit, Eq. (4), with zeros to whole blocks: (n, D) -> (blocks, d, ROWS)."""
    out = _whole_blocks(len(h), h.shape[1], mean.dtype)
    out[: len(h)] = h
    _centre(out[: len(h)], mean, unit)
    return project_centred(out, W)


def project_centred(centred: Array, W: Array) -> Array:
    """Return W_yᵀ of rows that are centred and fill whole blocks: (blocks · ROWS, D) -> (blocks, d, ROWS)."""
    features, dim = W.shape
    padded = np.zeros((-(-dim // 4) * 4, features), W.dtype)  # BLAS likes a multiple of four
    padded[:dim] = W.T
    return (padded @ centred.reshape(-1, ROWS, features).swapaxes(1, 2))[:, :dim]


def fit_projection(rows: ClassRows, dim: int, solver: Solver, device: Device = NUMPY) -> tuple[Projection, Centred]:
    """Return the class's mean and top `dim` directions, Eqs. (1)–(3), fewer where its rank is lower; and its rows."""
    dtype = np.dtype(np.float64) if solver is Solver.EXACT else work_dtype(rows.dtype)
    centred = Centred(rows, dtype)
    variance, W = _top_directions(centred, dim, solver, device)
    keep = variance > variance[:1] * (4 * np.sqrt(rows.dim) * np.finfo(dtype).eps)  # above rounding noise
    projection = Projection(centred.mean, fix_signs(W[:, keep]), variance[keep].astype(np.float64), centred.unit)
    return projection, centred


def fix_signs(W: Array) -> Array:
    """Flip each column so that its entry of largest magnitude is positive: (D, d) -> (D, d)."""
    largest = np.argmax(np.abs(W), axis=0)
    flip = np.where(W[largest, np.arange(W.shape[1])] < 0, -1, 1).astype(W.dtype)
    return np.ascontiguousarray(W * flip)


class _Covariance(LinearOperator):  # type: ignore[misc]
    """The covariance (2) of a class by its products alone, one pass over the rows each."""

    def __init__(self, centred: Centred) -> None:
        super().__init__(centred.dtype, (len(centred.mean),) * 2)
        self.centred = centred

    def _matvec(self, x: Array) -> Array:
        product: Array = np.zeros(len(x), self.dtype)
        for _, part in self.centred:
            product += part.T @ (part @ x)
        product /= self.centred.rows.count
        return product

    matvec = _matvec


class Centred:
    """A class's rows minus their mean (1), in its unit, segment by segment; small classes are read only once."""

    def __init__(self, rows: ClassRows, dtype: np.dtype[Any]) -> None:
        self.rows, self.dtype = rows, dtype
        self.unit, self.constant = 1.0, False
        self._kept = self._read(0, rows.count) if rows.count * rows.dim <= _KEEP else None
        mean = self._mean(self._raw())
        self.mean: Array = mean.astype(dtype)
        with np.errstate(over="ignore"):  # infinite: the values themselves are looked at
            self._size = float(mean @ mean)
        if self._kept is not None:
            _centre(self._kept[: rows.count], self.mean, self.unit)

    def changed(self, squares: float) -> bool:
        """Given the mean square distance from the mean, choose unit and mean anew if need be; say if that was so."""
        # Where squares leave the safe range or are no more than rounding, look at the values themselves.
        looked = not max(_SMALL, 1e-10 * self._size) < squares < _LARGE
        if looked:
            self._look()
            squares = self.squares()
        # Where the mean is far above the extent, the centred rows' mean is not yet zero.
        far = self._size * _FAR > squares * self.unit * self.unit
        if far:
            self._correct()
        return looked or far

    @property
    def small(self) -> bool:
        """Whether all rows are in memory."""
        return self._kept is not None

    def together(self) -> Array:
        """Return all rows at once: (n, D)."""
        kept = np.concatenate([part for _, part in self]) if self._kept is None else self._kept
        return kept[: self.rows.count]

    def __iter__(self) -> Iterator[tuple[int, Array]]:
        """Yield each segment's first row and its rows, filled up with zeros to whole blocks."""
        for start, stop in segments(self.rows.count):
            if self._kept is not None:
                yield start, self._kept[start : start + block_count(stop - start) * ROWS]
            else:
                part = self._read(start, stop)
                _centre(part[: stop - start], self.mean, self.unit)
                yield start, part

    def _read(self, start: int, stop: int) -> Array:
        """Return rows start to stop as they are, filled up with zeros to whole blocks."""
        out = _whole_blocks(stop - start, self.rows.dim, self.dtype)
        self.rows.read_into(start, out[: stop - start])
        return out

    def _raw(self) -> Iterator[Array]:
        for start, stop in segments(self.rows.count):
            yield self._kept[start:stop] if self._kept is not None else self._read(start, stop)[: stop - start]

    def _mean(self, parts: Iterable[Array]) -> Array:
        """Return the mean of the rows: (D,)."""
        mean = np.zeros(self.rows.dim)
        for part in parts:
            mean += np.full(len(part), 1 / self.rows.count, self.dtype) @ part
        return mean

    def squares(self) -> float:
        """Return the mean square distance from the mean."""
        with np.errstate(over="ignore"):
            return sum(float(np.vdot(part, part)) for _, part in self) / self.rows.count

    def _look(self) -> None:
        """See whether all rows are the same, and choose the unit by their extent."""
        low, high = np.full(self.rows.dim, np.inf), np.full(self.rows.dim, -np.inf)
        for start, stop in segments(self.rows.count):
            part = self._read(start, stop)[: stop - start]
            np.minimum(low, part.min(axis=0), out=low)
            np.maximum(high, part.max(axis=0), out=high)
        extent = float(np.max(high / 2 - low / 2))
        self.constant = extent == 0.0
        if self.constant:
            self.mean = low.astype(self.dtype)
        elif not 2.0**-20 < extent < 2.0**20:
            self.unit = float(2.0 ** np.ceil(np.log2(extent)))
        if self._kept is not None:
            self._kept = self._read(0, self.rows.count)
            _centre(self._kept[: self.rows.count], self.mean, self.unit)

    def _correct(self) -> None:
        """Take off the mean what the centred rows' mean still is."""
        old, rest = self.mean, self._mean(part for _, part in self)
        self.mean = (old + rest * self.unit).astype(self.dtype)
        if self._kept is not None:
            self._kept[: self.rows.count] -= ((self.mean - old) / self.unit).astype(self.dtype)


def _whole_blocks(n: int, features: int, dtype: np.dtype[Any]) -> Array:
    """Return room for n rows, filled up with zeros to whole blocks: (blocks · ROWS, D)."""
    out = np.empty((block_count(n) * ROWS, features), dtype)
    out[n:] = 0
    return out


def _centre(h: Array, mean: Array, unit: float) -> None:
    """Turn h (n, D) into (h − mean) / unit."""
    h -= mean
    if unit != 1.0:
        h *= mean.dtype.type(1.0 / unit)


def _top_directions(centred: Centred, dim: int, solver: Solver, device: Device) -> tuple[Array, Array]:
    """Return the largest eigenvalues of the covariance (2), in units of unit², and their eigenvectors (3)."""
    count, features = centred.rows.count, len(centred.mean)
    formed = solver is Solver.EXACT or min(count, features) ** 2 <= _SQUARE
    products = _products(centred, device) if formed else None
    if centred.changed(centred.squares() if products is None else float(products.trace()) / count) and formed:
        products = _products(centred, device)
    if centred.constant:
        return np.zeros(0), np.zeros((features, 0), centred.dtype)
    if products is None:
        return lanczos(_Covariance(centred), dim)
    values, W = _eigenvectors(products, min(dim, count, features), solver, device)
    if count < features:
        W = centred.together().T @ W
        norms = np.linalg.norm(W, axis=0)
        W /= np.where(norms > 0, norms, 1)
    return values / count, W


def _products(centred: Centred, device: Device) -> Any:
    """Return the n × n products of the rows, or the D × D ones of the features, whichever are fewer.

    They have the same non-zero eigenvalues, n times the covariance's.
    """
    count, features = centred.rows.count, len(centred.mean)
    with np.errstate(over="ignore", invalid="ignore"):  # see `Centred.changed`
        if centred.small or count < features:
            rows = device.move(centred.together())
            return rows @ rows.T if count < features else rows.T @ rows
        products = device.move(np.zeros((features, features), centred.dtype))
        for _, part in centred:
            moved = device.move(part)
            products += moved.T @ moved
        return products


def _eigenvectors(A: Any, count: int, solver: Solver, device: Device) -> tuple[Array, Array]:
    """Return the top eigenvectors of a matrix on the device; other devices than NumPy's decompose it in full."""
    if device.is_numpy:
        return top_eigenvectors(A, count, solver)
    values, vectors = map(device.host, device.xp.linalg.eigh(A))
    return values[::-1][:count], np.ascontiguousarray(vectors[:, ::-1][:, :count])

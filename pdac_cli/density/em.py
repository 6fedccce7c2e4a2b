"""Expectation–maximisation of many classes at once, Eqs. (5)–(7), with few and large calls.

A class's rows are worked on in pieces of up to ``PIECE`` blocks; pieces of the same length, one of each class, are
stacked and worked on in one call.  Products are taken piece by piece and sums added piece by piece, in order, so that
no class's answer depends on the others (see `blocks`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import Any

import numpy as np

from pdac_cli.density.blocks import ROWS, Array, block_count
from pdac_cli.density.device import NUMPY, Device
from pdac_cli.density.mixture import (
    Mixtures,
    coefficients_of,
    mixtures_of,
    moments_of,
    quadratic,
    quadratic_shape,
    responsibilities,
    second_moments,
)

Allocate = Callable[[tuple[int, ...]], Array]  # zeros of this shape, wherever there is room

PIECE = 80  # blocks, 10,240 rows: enough to hide Python's part, few enough to stay in the cache
_FACTORS = 8  # rows whose densities are multiplied before a logarithm is taken
_KEEP = 512  # blocks, 35 MB of φ in ten dimensions: above this, φ is made anew in every step


class Room:
    """A thread's memory for large temporary arrays: the system need not give it anew, and clear it, for every class."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def take(self, use: str, shape: tuple[int, ...]) -> Array:
        """Return room for double precision numbers; what was there for the same use is lost."""
        size = prod(shape)
        if use not in self._arrays or len(self._arrays[use]) < size:
            self._arrays[use] = np.empty(size)
        return self._arrays[use][:size].reshape(shape)


@dataclass(frozen=True)
class Blocks:
    """The projected rows of C classes, block by block, class after class."""

    xi: Array  # (B, d, R), 0 beyond d_y and beyond the class's rows
    starts: Array  # (C + 1,) the first block of each class
    counts: Array  # (C,) rows of each class


def empty_blocks(counts: Sequence[int], dim: int, allocate: Allocate = np.zeros) -> Blocks:
    """Return blocks for classes of these sizes, to be filled by `fill`."""
    starts = np.concatenate([[0], np.cumsum([block_count(n) for n in counts])])
    return Blocks(allocate((int(starts[-1]), dim, ROWS)), starts, np.array(counts))


def fill(blocks: Blocks, c: int, at: int, xi: Array) -> None:
    """Lay projected rows of class c, from its row `at` (the first of a block) on, into their blocks.

    xi (blocks, d_y, ROWS) has zeros after the class's last row.
    """
    first = blocks.starts[c] + at // ROWS
    blocks.xi[first : first + len(xi), : xi.shape[1]] = xi


def start(blocks: Blocks, dims: Array, variance: Array, chosen: Sequence[Array], comps: int) -> Mixtures:
    """Return the initial mixtures: means at the chosen rows of each class, α = 1/L_y, Σ = identity × variance (C,)."""
    classes, dim = len(blocks.counts), blocks.xi.shape[1]
    alpha, mu = np.zeros((classes, comps)), np.zeros((classes, comps, dim))
    for c, rows in enumerate(chosen):
        alpha[c, : len(rows)] = 1 / len(rows)
        mu[c, : len(rows)] = blocks.xi[blocks.starts[c] + rows // ROWS, :, rows % ROWS]
    diagonal = np.where(np.arange(dim) < dims[:, None], variance[:, None], 1.0)
    sigma = np.broadcast_to((diagonal[:, :, None] * np.eye(dim))[:, None], (classes, comps, dim, dim)).copy()
    return Mixtures(alpha, mu, sigma, dims)


def expectation_maximisation(
    blocks: Blocks,
    mixtures: Mixtures,
    ridge: Array,
    iterations: int,
    tol: float | None,
    device: Device = NUMPY,
    room: Room | None = None,
) -> tuple[Mixtures, Array]:
    """Run EM and return the mixtures and the mean log-likelihood before each step and after the last.

    The likelihoods are (C, iterations + 1), NaN after a class that stopped because it gained less than `tol`.
    """
    comps, dims, counts = mixtures.alpha.shape[1], mixtures.dims, blocks.counts
    alpha, moments = mixtures.alpha.copy(), second_moments(mixtures)
    history = np.full((len(alpha), iterations + 1), np.nan)
    active = _by_tail(blocks)
    room = room or Room()
    stacks = _stacks(blocks, active, room)
    for step in range(iterations + 1):
        theta = coefficients_of(alpha[active], moments[active], dims[active])
        sums, log_likelihood = _sweep(stacks, theta, comps, device, last=step == iterations)
        history[active, step] = log_likelihood / counts[active]
        if tol is not None and step:
            going = history[active, step] - history[active, step - 1] >= tol
            if not going.all():
                active, sums = active[going], sums[going]
                stacks = _stacks(blocks, active, room)
        if step == iterations or not len(active):
            break
        weights = sums[:, :comps, 0]
        alpha[active] = weights / weights.sum(axis=1, keepdims=True)  # the rows' number but for rounding
        moments[active] = moments_of(sums, comps, dims[active], ridge[active])
    fitted = mixtures_of(alpha, moments, dims)
    # A component that is not used keeps its padding.
    sigma = np.where((mixtures.alpha > 0)[..., None, None], fitted.sigma, mixtures.sigma)
    return Mixtures(alpha, fitted.mu, sigma, dims), history


@dataclass(frozen=True)
class _Stack:
    """Pieces of S classes that are worked on in one call."""

    xi: Array  # (B, d, R) of all classes
    places: slice  # of the S classes among those worked on
    firsts: Array  # (S,) the first block of each piece
    rows: Array  # (S,) rows of each that are not padding
    length: int  # of each, in blocks
    room: Array  # where φ is made, for this stack alone if it is kept
    kept: list[Any] | None  # phi (S, K, n) on the device, once it is made; None where it is made anew in every step

    def phi(self, device: Device) -> Any:
        """Return the quadratic features on the device: (S, K, n)."""
        if self.kept:
            return self.kept[0]
        xi = self.xi[self.firsts[:, None] + np.arange(self.length)]  # (S, blocks, d, R)
        xi = xi.swapaxes(1, 2).reshape(len(xi), -1, self.length * ROWS)
        valid = np.arange(self.length * ROWS) < self.rows[:, None]
        phi = quadratic(device.move(xi), device.move(valid), device.move(self.room), device.xp)
        if self.kept is not None:
            self.kept.append(phi)
        return phi


def _by_tail(blocks: Blocks) -> Array:
    """Return the classes in order of their last pieces' lengths, so that those of one length are neighbours: (C,)."""
    return np.argsort((np.diff(blocks.starts) - 1) % PIECE, kind="stable")


def _stacks(blocks: Blocks, classes: Array, room: Room) -> list[_Stack]:
    """Cut the classes into pieces and stack the last pieces of one length; a class's come in order."""
    starts, ends, counts = blocks.starts[classes], blocks.starts[classes + 1], blocks.counts[classes]
    keep = (ends - starts).sum() <= _KEEP

    def stack(places: slice, firsts: Array, length: int) -> None:
        rows = np.minimum(counts[places] - (firsts - starts[places]) * ROWS, length * ROWS)
        shape = quadratic_shape(len(firsts), blocks.xi.shape[1], length * ROWS)
        phi = room.take(f"phi {len(stacks) if keep else 0}", shape)
        stacks.append(_Stack(blocks.xi, places, firsts, rows, length, phi, [] if keep else None))

    stacks: list[_Stack] = []
    lengths = (ends - starts - 1) % PIECE + 1
    for place, (first, end) in enumerate(zip(starts, ends - lengths, strict=True)):
        for at in range(first, end, PIECE):
            stack(slice(place, place + 1), np.array([at]), PIECE)
    at = 0
    for length, alike in groupby(lengths.tolist()):
        stop = at + len(list(alike))
        for place in range(at, stop, PIECE // length):
            some = slice(place, min(place + PIECE // length, stop))
            stack(some, (ends - lengths)[some], length)
        at = stop
    return stacks


def _sweep(stacks: Sequence[_Stack], theta: Array, comps: int, device: Device, last: bool) -> tuple[Array, Array]:
    """Return the sums r·φᵀ (C, L', K), not after the last step, and the log-likelihoods (C,), added piece by piece."""
    sums, log_likelihood = np.zeros_like(theta), np.zeros(len(theta))
    for stack in stacks:
        phi = stack.phi(device)
        r, largest, total = responsibilities(device.move(theta[stack.places]), phi, comps, device.xp, quick=not last)
        # One logarithm for the product of a few rows; a padding row has the factor L.
        products = device.host(device.xp.prod(total.reshape(len(phi), _FACTORS, -1), 1)).astype(np.float64)
        padding = stack.length * ROWS - stack.rows
        log_likelihood[stack.places] += device.host(device.xp.sum(largest, 1)) - padding * np.log(comps)
        log_likelihood[stack.places] += np.log(products).sum(1)
        if not last:
            sums[stack.places] += device.host(r @ phi.swapaxes(1, 2))
    return sums, log_likelihood

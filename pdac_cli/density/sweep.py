"""What one step of expectation–maximisation needs of the rows: likelihoods, Eqs. (5)–(6), and sums for Eq. (7).

A class's rows are worked on in pieces of up to ``PIECE`` blocks; pieces of the same length, one of each class, are
stacked and worked on in one call.  Products are taken piece by piece and sums added piece by piece, in order, so that
no class's answer depends on the others (see `blocks`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.density import kernel
from pdac_cli.density.blocks import ROWS, Blocks
from pdac_cli.density.device import Device, Workspace
from pdac_cli.density.mixture import quadratic, quadratic_shape, responsibilities

PIECE = 80  # blocks, 10,240 rows: enough to hide Python's part, few enough to stay in the cache
_FACTORS = 8  # rows whose densities are multiplied before a logarithm is taken
_KEEP = 512  # blocks, 35 MB of φ in ten dimensions: above this, φ is made anew in every step


def by_tail(blocks: Blocks) -> Array:
    """Return the classes in order of their last pieces' lengths, so that those of one length are neighbours: (C,)."""
    return np.argsort((np.diff(blocks.starts) - 1) % PIECE, kind="stable")


class RowSweep(Protocol):
    """Passes over the rows of some classes."""

    def __call__(self, theta: Array, *, last: bool) -> tuple[Array, Array]:
        """Return the sums r·φᵀ (C, L', K), not after the last step, and the log-likelihoods (C,): theta (C, L', K)."""


def sweep_over(blocks: Blocks, classes: Array, comps: int, device: Device, workspace: Workspace) -> RowSweep:
    """Return the passes over these classes' rows: in C where it was compiled, or by the device's products."""
    if device.is_numpy and kernel.compiled is not None:
        return _Compiled(blocks, classes, comps)
    return _Stacked(blocks, classes, comps, device, workspace)


class _Compiled:
    """Passes made in C."""

    def __init__(self, blocks: Blocks, classes: Array, comps: int) -> None:
        self.xi, self.comps = blocks.xi, comps
        self.firsts, self.counts = (part[classes].astype(np.int64) for part in (blocks.starts, blocks.counts))

    def __call__(self, theta: Array, *, last: bool) -> tuple[Array, Array]:
        sums, log_likelihood = np.zeros_like(theta), np.zeros(len(theta))
        out = sums[:0] if last else sums
        sizes = self.xi.shape[1], self.comps, theta.shape[1]
        kernel.compiled.sweep(self.xi, self.firsts, self.counts, theta, out, log_likelihood, *sizes)
        return sums, log_likelihood


class _Stacked:
    """Passes made of matrix products."""

    def __init__(self, blocks: Blocks, classes: Array, comps: int, device: Device, workspace: Workspace) -> None:
        self.comps, self.device = comps, device
        self._stacks = _stacks(blocks, classes, workspace)

    def __call__(self, theta: Array, *, last: bool) -> tuple[Array, Array]:
        sums, log_likelihood = np.zeros_like(theta), np.zeros(len(theta))
        device = self.device
        for stack in self._stacks:
            phi, coefficients = stack.phi(device), device.move(theta[stack.places])
            r, largest, total = responsibilities(coefficients, phi, self.comps, device.xp, quick=not last)
            # One logarithm for the product of a few rows; a padding row has the factor L.
            products = device.host(device.xp.prod(total.reshape(len(phi), _FACTORS, -1), 1)).astype(np.float64)
            padding = stack.length * ROWS - stack.rows
            log_likelihood[stack.places] += device.host(device.xp.sum(largest, 1)) - padding * np.log(self.comps)
            log_likelihood[stack.places] += np.log(products).sum(1)
            if not last:
                sums[stack.places] += device.host(r @ phi.swapaxes(1, 2))
        return sums, log_likelihood


@dataclass(frozen=True)
class _Stack:
    """Pieces of S classes that are worked on in one call."""

    xi: Array  # (B, d, R) of all classes
    places: slice  # of the S classes among those worked on
    firsts: Array  # (S,) the first block of each piece
    rows: Array  # (S,) rows of each that are not padding
    length: int  # of each, in blocks
    space: Array  # where φ is made, for this stack alone if it is kept
    kept: list[Any] | None  # phi (S, K, n) on the device, once it is made; None where it is made anew in every step

    def phi(self, device: Device) -> Any:
        """Return the quadratic features on the device: (S, K, n)."""
        if self.kept:
            return self.kept[0]
        xi = self.xi[self.firsts[:, None] + np.arange(self.length)]  # (S, blocks, d, R)
        xi = xi.swapaxes(1, 2).reshape(len(xi), -1, self.length * ROWS)
        valid = np.arange(self.length * ROWS) < self.rows[:, None]
        phi = quadratic(device.move(xi), device.move(valid), device.move(self.space), device.xp)
        if self.kept is not None:
            self.kept.append(phi)
        return phi


def _stacks(blocks: Blocks, classes: Array, workspace: Workspace) -> list[_Stack]:
    """Cut the classes into pieces and stack the last pieces of one length; a class's come in order."""
    starts, ends, counts = blocks.starts[classes], blocks.starts[classes + 1], blocks.counts[classes]
    keep = (ends - starts).sum() <= _KEEP

    def stack(places: slice, firsts: Array, length: int) -> None:
        rows = np.minimum(counts[places] - (firsts - starts[places]) * ROWS, length * ROWS)
        shape = quadratic_shape(len(firsts), blocks.xi.shape[1], length * ROWS)
        phi = workspace.take(f"phi {len(stacks) if keep else 0}", shape)
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

"""Labelled images in a fixed order, loaded as batches of bytes: from files, or from arrays."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdac_cli.errors import DataError
from pdac_cli.learning.data.preprocessing import Preprocessing, UnfitImage

Size = tuple[int, int]


@dataclass(frozen=True)
class Bad:
    """An image that cannot be used."""

    row: int
    name: str
    reason: str


@dataclass(frozen=True)
class Loaded:
    """Images of consecutive rows, x (m, channels, h, w) of bytes or of floats in [0, 1]; zeros where one is bad."""

    x: Tensor
    bad: tuple[Bad, ...] = ()


class Images(Protocol):
    """Rows in an order that depends on the data alone."""

    kind: str  # names the convention of preprocessing
    ids: NDArray[np.bytes_]  # (n,)
    labels: NDArray[np.int64]  # (n,)
    label_names: tuple[str, ...] | None
    digest: str  # of the list: order, ids, labels, sizes

    def size(self, how: Preprocessing) -> Size:
        """Height and width that all images have after resizing and cropping."""

    def load(self, start: int, stop: int, how: Preprocessing, size: Size) -> Loaded:
        """Rows start to stop; safe to be called from several threads."""


class FileImages:
    """One file per image."""

    def __init__(
        self, kind: str, root: Path, names: Sequence[str], sizes: Sequence[int], labels: Sequence[int],
        label_names: Sequence[str],
    ) -> None:  # fmt: skip
        self.kind, self._root, self._names = kind, root, list(names)
        self.ids = encoded(self._names)
        self.labels = np.asarray(labels, np.int64)
        # A folder's name may be no UTF-8; escaped, it can be stored as text.
        shown = (name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for name in label_names)
        self.label_names: tuple[str, ...] | None = tuple(shown)
        self.digest = digest_of(self.ids, self.labels, np.asarray(sizes, np.int64))

    def size(self, how: Preprocessing) -> Size:
        """The size of the first image that can be read."""
        for row in range(len(self._names)):
            decoded = self._decode(row, how)
            if isinstance(decoded, Tensor):
                return decoded.shape[-2], decoded.shape[-1]
        raise DataError(f"{self._root}: none of its {len(self._names):,} images can be read; expected image files")

    def load(self, start: int, stop: int, how: Preprocessing, size: Size) -> Loaded:
        """Decode the files of rows start to stop."""
        # Channels last, as images are decoded and as networks run fastest.
        x = torch.zeros((stop - start, *size, how.channels), dtype=torch.uint8).permute(0, 3, 1, 2)
        bad = []
        for row in range(start, stop):
            decoded = self._decode(row, how)
            if isinstance(decoded, Bad):
                bad.append(decoded)
            elif decoded.shape[-2:] != size:
                found = "x".join(map(str, decoded.shape[-2:]))
                raise DataError(
                    f"{self._root / self._names[row]}: {found} pixels, the first image has {size[0]}x{size[1]}; "
                    "expected one size; add --resize and --crop, such as --resize 256 --crop 224"
                )
            else:
                x[row - start] = decoded
        return Loaded(x, tuple(bad))

    def _decode(self, row: int, how: Preprocessing) -> Tensor | Bad:
        path = self._root / self._names[row]
        try:
            with path.open("rb") as stream:
                image = how.read(stream)
        except Exception as problem:  # noqa: BLE001 -- Pillow's decoders raise anything on files that are damaged
            return self._bad(row, problem)
        try:
            return how.decode(image)
        except UnfitImage as problem:
            return self._bad(row, problem)

    def _bad(self, row: int, problem: Exception) -> Bad:
        name = str(self._root / self._names[row])
        return Bad(row, name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"), _plain(problem))


class ArrayImages:
    """Images as an array: ``take`` gives rows, (m, h, w), (m, h, w, channels) or (m, channels, h, w)."""

    def __init__(
        self, kind: str, path: Path, take: Callable[[NDArray[np.int64]], NDArray[Any]], shape: tuple[int, ...],
        dtype: np.dtype[Any], rows: NDArray[np.int64], ids: NDArray[np.bytes_], labels: NDArray[np.int64],
        label_names: tuple[str, ...] | None,
    ) -> None:  # fmt: skip
        if len(shape) not in (3, 4) or 0 in shape:
            raise DataError(
                f"{path}: images of shape {shape}; expected (n, h, w), (n, h, w, channels) or (n, channels, h, w)"
            )
        if dtype != np.uint8 and dtype.kind != "f":
            raise DataError(f"{path}: images of type {dtype}; expected bytes (uint8), or floats from 0 to 1")
        self.kind, self._path, self._take, self._shape, self._rows = kind, path, take, shape, rows
        self.ids, self.labels, self.label_names = ids, labels, label_names
        self.digest = digest_of(ids, labels, np.array(shape), rows)
        self._lock = threading.Lock()

    def size(self, how: Preprocessing) -> Size:
        """The size of the first image, which all share."""
        x = self._read(0, 1, how)
        return x.shape[-2], x.shape[-1]

    def load(self, start: int, stop: int, how: Preprocessing, size: Size) -> Loaded:  # noqa: ARG002 (one for all)
        """Read rows start to stop."""
        return Loaded(self._read(start, stop, how))

    def _read(self, start: int, stop: int, how: Preprocessing) -> Tensor:
        with self._lock:  # a compressed archive has one position to read from
            images = self._take(self._rows[start:stop])
        if images.dtype != np.uint8:
            self._check_floats(images, start)
            images = images.astype(np.float32)
        x = self._planes(torch.from_numpy(np.ascontiguousarray(images)), how.channels)
        try:
            fitted: Tensor = how.geometry(x)
        except UnfitImage as problem:
            raise DataError(f"{self._path}: {problem}") from problem
        return fitted

    def _planes(self, x: Tensor, channels: int) -> Tensor:
        """As (m, channels, h, w), without copying; grey images fill all channels of a network for colours."""
        if x.ndim == 3:
            x = x[..., None]
        if x.shape[-1] in (channels, 1):
            x = x.permute(0, 3, 1, 2)
        elif x.shape[1] not in (channels, 1):
            raise DataError(
                f"{self._path}: images of shape {self._shape}, the network takes {channels} channels; "
                f"expected (n, h, w, {channels}) or (n, {channels}, h, w)"
            )
        return x.expand(-1, channels, -1, -1)

    def _check_floats(self, images: NDArray[Any], start: int) -> None:
        low, high = images.reshape(len(images), -1).min(1), images.reshape(len(images), -1).max(1)
        bad = ~((low >= 0) & (high <= 1))
        if bad.any():
            row = int(np.argmax(bad))
            raise DataError(
                f"{self._path}: image {self._rows[start + row]:,} ranges from {low[row]:.4g} to {high[row]:.4g}; "
                "expected floats from 0 to 1, or bytes; save the images before standardising them"
            )


def encoded(names: Sequence[str]) -> NDArray[np.bytes_]:
    """Names as an array of bytes of one width, (n,)."""
    return np.array([name.encode("utf-8", "surrogateescape") for name in names], "S")


def digest_of(*arrays: NDArray[Any]) -> str:
    """One SHA-256 for some arrays, with their types and shapes."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _plain(problem: BaseException) -> str:
    """The reason alone, without the objects and paths that PIL puts around it."""
    text = " ".join(str(problem).split()).split(" <")[0]
    if isinstance(problem, OSError) and problem.strerror:
        text = problem.strerror.lower()
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:100] or type(problem).__name__

"""Everything a continual run learns from, in memory as tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pdac_cli.arrays import Array
from pdac_cli.errors import DataError
from pdac_cli.learning.data.images import Images, Size
from pdac_cli.learning.data.preprocessing import CONVENTIONS, Convention, Preprocessing, own_size, settle
from pdac_cli.learning.data.tasks import hold_out
from pdac_cli.options.extract import PreprocessingOptions

TEST_SHARE = 0.2  # of every class, held out where the data has no test part
_LOAD_ROWS = 1024


@dataclass(frozen=True)
class Origin:
    """Where the training samples come from, as an index file names it."""

    fingerprint: str
    files: tuple[str, ...]
    rows: Array  # (n,) of each training sample in its source, ascending
    total: int  # rows of the source


@dataclass(frozen=True)
class Samples:
    """Training and test samples; y are positions among `labels`."""

    x: Tensor  # (n, channels, h, w) bytes or floats in [0, 1], or features (n, D) float32
    y: Tensor  # (n,) int64
    x_test: Tensor
    y_test: Tensor
    labels: Array  # (C,) ascending
    label_names: tuple[str, ...] | None
    origin: Origin
    how: Preprocessing | None  # None: features, taken as they are

    def inputs(self, rows: Array) -> Array:
        """Return training rows (m,) as they are, one vector each: (m, channels · h · w), float32."""
        return self.x[torch.from_numpy(rows).to(self.x.device)].flatten(1).float().cpu().numpy()

    def to(self, device: torch.device) -> Samples:
        """Return the same samples on a device."""
        x, y, x_test, y_test = (tensor.to(device) for tensor in (self.x, self.y, self.x_test, self.y_test))
        return replace(self, x=x, y=y, x_test=x_test, y_test=y_test)


@dataclass(frozen=True)
class LoadedPart:
    """Inputs with their labels, before they are cut into training and test samples."""

    x: Tensor
    labels: Array  # (n,)
    rows: Array  # (n,) in their source
    label_names: tuple[str, ...] | None

    def take(self, rows: Array) -> LoadedPart:
        """Return some of the rows (m,)."""
        return replace(self, x=self.x[torch.from_numpy(rows)], labels=self.labels[rows], rows=self.rows[rows])


def join(
    train: LoadedPart,
    test: LoadedPart | None,
    fingerprint: str,
    files: tuple[str, ...],
    total: int,
    how: Preprocessing | None,
) -> Samples:
    """Return the samples of a training and a test part; without the latter some of every class are held out."""
    if test is None:
        # Of all seeds the same rows, so that they are tested on the same; the base seed has no say in it.
        out = hold_out(train.labels, TEST_SHARE, seed=0)
        train, test = train.take(np.flatnonzero(~out)), train.take(np.flatnonzero(out))
    if train.label_names != test.label_names:
        raise DataError("the training and the test part name their classes differently; expected the same names")
    if train.x.shape[1:] != test.x.shape[1:]:
        shapes = [tuple(part.x.shape[1:]) for part in (train, test)]
        raise DataError(f"training samples are of shape {shapes[0]}, test samples of {shapes[1]}; expected one shape")
    labels = np.unique(train.labels)
    known = np.isin(test.labels, labels)  # classes that are never learned are not tested
    test = test.take(np.flatnonzero(known))
    y, y_test = (torch.from_numpy(np.searchsorted(labels, part.labels)) for part in (train, test))
    origin = Origin(fingerprint, files, train.rows, total)
    return Samples(train.x, y, test.x, y_test, labels, train.label_names, origin, how)


def first_rows(samples: Samples, count: int) -> Samples:
    """Return the samples with at most so many training rows of every class, the first; the test rows stay."""
    y = samples.y.numpy()
    kept = np.sort(np.concatenate([np.flatnonzero(y == c)[:count] for c in range(len(samples.labels))]))
    place, origin = torch.from_numpy(kept), samples.origin
    return replace(samples, x=samples.x[place], y=samples.y[place], origin=replace(origin, rows=origin.rows[kept]))


def load_features(h: Array, labels: Array, rows: Array, label_names: tuple[str, ...] | None) -> LoadedPart:
    """Return features h (n, D) as inputs."""
    return LoadedPart(torch.from_numpy(h.astype(np.float32)), labels, rows, label_names)


def load_images(images: Images, rows: Array | None, how: Preprocessing) -> LoadedPart:
    """Return all images as bytes or floats, resized and cropped and not yet standardised."""
    size: Size = images.size(how)
    parts = []
    for start in range(0, len(images.labels), _LOAD_ROWS):
        loaded = images.load(start, min(len(images.labels), start + _LOAD_ROWS), how, size)
        if loaded.bad:
            bad = loaded.bad[0]
            raise DataError(f"{bad.name}: cannot be read as an image ({bad.reason}); expected an undamaged one")
        parts.append(loaded.x)
    # Made anew, not merely contiguous: grey images stored channels last count as both, and the backward pass of torch's
    # convolutions writes beyond its memory on such strides.
    x = torch.cat(parts).clone(memory_format=torch.contiguous_format)
    return LoadedPart(x, images.labels, np.arange(len(x)) if rows is None else rows, images.label_names)


def preprocessing_of(
    kind: str, channels: int, resize: tuple[int, ...] | None, meta: dict[str, Any], x: Tensor | None
) -> Preprocessing:
    """Settle what is done to images: by a first checkpoint, the dataset's convention, or the images x themselves."""
    usual = own_size(CONVENTIONS.get(kind, Convention()))
    if usual.mean is None and x is not None:
        scale = 255.0 if x.dtype == torch.uint8 else 1.0
        planes = x.double().transpose(0, 1).flatten(1) / scale  # (channels, n·h·w)
        std = planes.std(1, correction=0).clamp(min=1e-6)
        usual = Convention(tuple(planes.mean(1).tolist()), tuple(std.tolist()))
    elif usual.mean is None:
        usual = Convention((0.0,), (1.0,))
    return settle(PreprocessingOptions(resize=resize), meta, usual, channels)

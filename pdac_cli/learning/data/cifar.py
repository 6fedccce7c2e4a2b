"""CIFAR-10 and CIFAR-100 as they lie on disk.

The binary form is plain bytes and is preferred.  The Python form is pickles, which could run code: torchvision
compares their checksums with those of the published files before it unpickles any, and so nothing else is read.
"""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torchvision import datasets

from pdac_cli.errors import DataError
from pdac_cli.learning.data.downloads import NETWORK_ERRORS, unreachable
from pdac_cli.learning.data.images import ArrayImages, encoded
from pdac_cli.options.extract import Split

_PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class _Binary:
    """The published binary files: records of label bytes, the last of which counts, then pixels (3, 32, 32)."""

    folder: str
    parts: dict[Split, tuple[str, ...]]
    names: str
    label_bytes: int
    classes: int


_BINARY = {
    "cifar10": _Binary(
        "cifar-10-batches-bin",
        {Split.TRAIN: tuple(f"data_batch_{k}.bin" for k in range(1, 6)), Split.TEST: ("test_batch.bin",)},
        "batches.meta.txt",
        1,
        10,
    ),
    "cifar100": _Binary(
        "cifar-100-binary", {Split.TRAIN: ("train.bin",), Split.TEST: ("test.bin",)}, "fine_label_names.txt", 2, 100
    ),
}
_PYTHON: dict[str, Any] = {"cifar10": datasets.CIFAR10, "cifar100": datasets.CIFAR100}


def open_cifar(scheme: str, path: Path, split: Split, download: bool) -> ArrayImages:
    """Read one part of the dataset that lies in ``path`` or in its usual folder there."""
    form, python = _BINARY[scheme], _PYTHON[scheme]
    for root in (path / form.folder, path):
        if (root / form.parts[split][0]).is_file():
            return _images(scheme, root, split, *_read_binary(root, form, split))
    root = path.parent if path.name == python.base_folder else path
    if not (root / python.base_folder).is_dir() and not download:
        raise DataError(
            f"{path}: holds no {scheme} (neither {form.folder} nor {python.base_folder}); "
            "expected the dataset unpacked there; check the path, or add --download"
        )
    return _images(scheme, root, split, *_read_python(python, root, split, download))


def _images(
    scheme: str, root: Path, split: Split, x: NDArray[np.uint8], y: NDArray[np.int64], names: list[str]
) -> ArrayImages:
    rows = np.arange(len(x))
    ids = encoded([f"{split.value}-{row:05d}" for row in rows])
    label_names = tuple(names) if names else None
    return ArrayImages(scheme, root, x.__getitem__, x.shape, x.dtype, rows, ids, y, label_names)


def _read_binary(root: Path, form: _Binary, split: Split) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[str]]:
    """Images (n, 3, 32, 32), labels (n,) and class names."""
    size = form.label_bytes + _PIXELS
    parts = []
    for name in form.parts[split]:
        try:
            data = np.fromfile(root / name, np.uint8)
        except OSError:
            raise DataError(f"{root / name}: cannot be read; expected all of the dataset's files") from None
        if len(data) == 0 or len(data) % size:
            raise DataError(
                f"{root / name}: has {len(data):,} bytes; expected a multiple of {size:,}; copy the file again"
            )
        parts.append(data.reshape(-1, size))
        largest = int(parts[-1][:, form.label_bytes - 1].max())
        if largest >= form.classes:  # as in a file that lost a byte and its end
            raise DataError(
                f"{root / name}: has the label {largest}; expected 0 to {form.classes - 1}; copy the file again"
            )
    records = np.concatenate(parts)
    labels = records[:, form.label_bytes - 1].astype(np.int64)
    listed = root / form.names
    names = listed.read_text(encoding="utf-8").split() if listed.is_file() else []
    if names and labels.max() >= len(names):
        raise DataError(f"{listed}: has {len(names)} names, a label is {labels.max()}; expected a name for every class")
    return records[:, form.label_bytes :].reshape(-1, 3, 32, 32), labels, names


def _read_python(
    python: Any, root: Path, split: Split, download: bool
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[str]]:
    """Images (n, 32, 32, 3), labels (n,) and class names, of files whose checksums are the published ones."""
    try:
        with redirect_stdout(io.StringIO()):  # torchvision prints where results belong
            found = python(str(root), train=split is Split.TRAIN, download=download)
    except NETWORK_ERRORS as problem:
        if download:
            raise unreachable(python.url, root, problem) from None
        raise DataError(
            f"{root / python.base_folder}: its files are not those published (checksums differ or files are missing), "
            "and they are pickles, so none was read; expected the original; fetch it again with --download"
        ) from None
    return found.data, np.asarray(found.targets, np.int64), list(found.classes)

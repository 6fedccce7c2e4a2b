"""The sample's images, and what an extraction wrote."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
from PIL import Image

SAMPLE = Path(__file__).parents[3] / "sample_data"


CHECKPOINT, IMAGES, FEATURES = (SAMPLE / n for n in ("digits-resnet18.pt", "digits-images.h5", "digits.h5"))


def read(path: Path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {name: dataset[:] for name, dataset in file.items()}


def attributes(path: Path) -> dict:
    with h5py.File(path) as file:
        return {name: value.decode() if isinstance(value, bytes) else value for name, value in file.attrs.items()}


def left_beside(path: Path) -> list[str]:
    """What a run left in the output's folder besides the output."""
    return sorted(entry.name for entry in path.parent.iterdir() if entry.name.startswith((".", path.name + ".")))


def folder_of_digits(root: Path) -> Path:
    images = read(IMAGES)
    for number, (image, label) in enumerate(zip(images["images"][:30, ..., 0], images["labels"], strict=False)):
        path = root / f"digit-{label}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    return root

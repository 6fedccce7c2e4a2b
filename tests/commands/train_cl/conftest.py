"""What small continual runs learn from."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.commands.train_cl.runs import CLASSES


@pytest.fixture
def features(feature_file) -> Path:
    """400 rows of four classes with a `split`: a fifth are for testing."""
    path = feature_file(n=400, dim=12, classes=CLASSES)
    with h5py.File(path, "r+") as file:
        file["split"] = (np.arange(400) % 5 == 4).astype("u1")
    return path


@pytest.fixture
def images(tmp_path) -> Path:
    """240 grey 8x8 images of four classes, told apart by where they are bright."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 4
    x = rng.integers(0, 80, (240, 8, 8, 1))
    for k, label in enumerate(y):
        x[k, 4 * (label // 2) : 4 * (label // 2) + 4, 4 * (label % 2) : 4 * (label % 2) + 4] += 120
    path = tmp_path / "images.h5"
    with h5py.File(path, "w") as file:
        file["images"], file["labels"], file["split"] = x.astype("u1"), y, (np.arange(240) // 4 % 4 == 3).astype("u1")
    return path

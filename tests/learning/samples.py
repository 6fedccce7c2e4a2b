"""Images and features to learn from, made on the spot."""

from __future__ import annotations

import numpy as np
import torch

from pdac_cli.learning.data.preprocessing import Preprocessing
from pdac_cli.learning.data.samples import Origin, Samples

CPU = torch.device("cpu")


def image_samples(n: int = 20, channels: int = 3, size: int = 8, classes: int = 4) -> Samples:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.integers(0, 256, (n, channels, size, size), np.uint8))
    y = torch.arange(n) % classes
    how = Preprocessing(channels, (0.4,) * channels, (0.2,) * channels)
    return Samples(x, y, x, y, np.arange(classes), None, Origin("f", (), np.arange(n), n), how)


def feature_samples(n: int = 40, dim: int = 6, classes: int = 4) -> Samples:
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((n, dim)).astype("f4"))
    y = torch.arange(n) % classes
    return Samples(x, y, x, y, np.arange(classes), None, Origin("f", (), np.arange(n), n), None)

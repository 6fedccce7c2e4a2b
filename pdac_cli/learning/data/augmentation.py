"""Random crops and mirror images of whole batches, on the device."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad as frame


class Augmenter:
    """Images x (n, channels, h, w), framed once in black; any crop of the frame is then one indexing of a view."""

    def __init__(self, x: Tensor, pad: int, flip: bool) -> None:
        self.pad, self.flip = pad, flip
        _, _, height, width = x.shape
        framed = frame(x, (pad, pad, pad, pad)) if pad else x
        self._crops = framed.unfold(2, height, 1).unfold(3, width, 1)  # (n, channels, 2·pad+1, 2·pad+1, h, w), a view

    def take(self, rows: Tensor, rng: np.random.Generator, part: slice) -> Tensor:
        """Return `part` of a batch of `rows` (b,), each image cropped and mirrored at random: (b', channels, h, w).

        The draws are made for the whole batch, whatever part of it is taken here.
        """
        shifts = rng.integers(0, 2 * self.pad + 1, (2, len(rows)))
        mirrored = rng.random(len(rows)) < 0.5 if self.flip else np.zeros(len(rows), bool)
        down, across = torch.from_numpy(shifts[:, part]).to(rows.device)
        x = self._crops[rows[part], :, down, across]
        if self.flip:
            chosen = torch.from_numpy(mirrored[part]).to(rows.device)
            x = torch.where(chosen[:, None, None, None], x.flip(3), x)
        return x

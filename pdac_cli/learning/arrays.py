"""The density's products on a torch device."""

from __future__ import annotations

import numpy as np
import torch

from pdac_cli.density.blocks import Array
from pdac_cli.density.device import Device
from pdac_cli.errors import UsageError
from pdac_cli.learning.devices import choose_device


def density_device(name: str) -> Device:
    """Return the device of that name for `density`; the mixtures need double precision, which Apple's GPUs lack."""
    device = choose_device(name)
    if device.type == "mps":
        raise UsageError("--device mps has no double precision, which the mixtures need; leave --device out")
    torch.set_num_threads(1)  # the classes are what runs in parallel

    def move(array: Array) -> torch.Tensor:
        return torch.tensor(array, device=device)

    def host(tensor: torch.Tensor) -> Array:
        return np.asarray(tensor.cpu().numpy())

    return Device(torch, move, host)

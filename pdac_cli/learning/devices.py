"""Which device computes, and what its failures mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch

from pdac_cli.arrays import Array
from pdac_cli.density.device import Device
from pdac_cli.errors import ModelError, StorageError, UsageError
from pdac_cli.options.extract import Amp

_TYPES = {Amp.BF16: torch.bfloat16, Amp.FP16: torch.float16}


def choose_device(name: str) -> torch.device:
    """``auto`` is cuda, then mps, then cpu; a device that is asked for must be there."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = name.partition(":")
    if kind not in ("cpu", "cuda", "mps") or (number and not number.isdecimal()) or (number and kind != "cuda"):
        raise UsageError(f"--device is {name}; expected auto, cpu, cuda, cuda:NUMBER or mps")
    if kind == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if int(number or 0) >= count:
            raise ModelError(
                f"--device {name}: torch {torch.__version__} finds {count} CUDA devices; expected "
                f"{'at least one' if not number else f'number {number} to be there'}; use --device auto, "
                "or install a driver and a torch that fit"
            )
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ModelError(f"--device mps: torch {torch.__version__} finds no Apple GPU; use --device auto")
    return torch.device(name)


def autocast(device: torch.device, amp: Amp) -> AbstractContextManager[object]:
    """Mixed precision on a GPU; none on a CPU, where it is not faster."""
    if amp is Amp.OFF:
        return nullcontext()
    if device.type == "cpu":
        raise UsageError(f"--amp {amp.value} on the CPU; expected a GPU; leave --amp out")
    if device.type == "cuda" and amp is Amp.BF16 and not torch.cuda.is_bf16_supported():
        raise UsageError("--amp bf16: this GPU has no bfloat16; use --amp fp16")
    return torch.autocast(device.type, dtype=_TYPES[amp])


@contextmanager
def device_errors(batch_size: int) -> Iterator[None]:
    """Say what to do when the device's memory does not hold a batch."""
    try:
        yield
    except torch.OutOfMemoryError:
        smaller = max(1, batch_size // 2)
        raise StorageError(
            f"the device's memory does not hold a batch of {batch_size}; expected room for it; "
            f"try --batch-size {smaller} or --amp bf16"
        ) from None


def torch_version() -> str:
    """The version of torch, which is part of what decides the last bits of a feature."""
    return str(torch.__version__)


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

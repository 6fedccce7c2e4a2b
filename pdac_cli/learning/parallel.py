"""Several processes that learn as one: each takes a share of every batch, and all agree on everything else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process among those that torchrun has started."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    @property
    def part(self) -> slice:
        """This process's share of a batch."""
        return slice(self.rank, None, self.world)

    def shared(self, value: T) -> T:
        """Return the first process's value in all of them."""
        if self.world == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0)
        return box[0]

    def agreed(self, asked: bool) -> bool:
        """Return whether any process was asked."""
        if self.world == 1:
            return asked
        answers: list[Any] = [None] * self.world
        dist.all_gather_object(answers, asked)
        return any(answers)

    def gathered(self, h: NDArray[Any], count: int) -> NDArray[Any]:
        """Return the rows (count, D) of which every process has its share."""
        if self.world == 1:
            return h
        parts: list[Any] = [None] * self.world
        dist.all_gather_object(parts, h)
        out = np.empty((count, *h.shape[1:]), h.dtype)
        for rank, part in enumerate(parts):
            out[rank :: self.world] = part
        return out

    def check_same(self, rows: NDArray[Any]) -> None:
        """Raise if the processes do not hold the same rows, which would be a bug of ours."""
        if self.world > 1:
            held: list[Any] = [None] * self.world
            dist.all_gather_object(held, rows.tolist())
            if any(other != held[0] for other in held):
                raise RuntimeError("the processes hold different buffers")

    def summed(self, value: Tensor) -> Tensor:
        """Return the sum over the processes of a number that needs no gradient."""
        if self.world > 1:
            dist.all_reduce(value)
        return value

    def wrapped(self, network: nn.Module, device: torch.device) -> nn.Module:
        """Return the module whose gradients are averaged over the processes."""
        if self.world == 1:
            return network
        ids = [device.index] if device.type == "cuda" else None
        return DistributedDataParallel(network, device_ids=ids, broadcast_buffers=False)


@contextmanager
def joined_ranks(device: torch.device) -> Iterator[Ranks]:
    """Join the processes that torchrun has started; without it this process is alone."""
    world = int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1
    if world == 1:
        yield Ranks()
        return
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Ranks(dist.get_rank(), world)
    finally:
        dist.destroy_process_group()


def local_device(name: str) -> str:
    """Return the device of this process: of several processes on one machine, each has its own GPU."""
    local = os.environ.get("LOCAL_RANK")
    wants_gpu = name == "cuda" or (name == "auto" and torch.cuda.is_available())
    return f"cuda:{local}" if local is not None and wants_gpu else name


class _Sum(torch.autograd.Function):
    """The sum over the processes, with a gradient: that of a sum is the sum of the gradients."""

    @staticmethod
    def forward(_context: Any, value: Tensor) -> Tensor:
        value = value.clone()
        dist.all_reduce(value)
        return value

    @staticmethod
    def backward(_context: Any, *gradients: Tensor) -> Tensor:
        gradient = gradients[0].clone()
        dist.all_reduce(gradient)
        return gradient


class JointBatchNorm(nn.BatchNorm2d):
    """Batch normalisation over the joint batch of all processes; torch's own runs on GPUs only."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x (n, channels, h, w) normalised by the moments over all processes."""
        if not self.training:
            return super().forward(x)
        count = _all_sum(x.new_tensor([x.numel() / x.shape[1]]))
        mean = _all_sum(x.sum((0, 2, 3))) / count
        centred = x - mean[None, :, None, None]
        variance = _all_sum((centred * centred).sum((0, 2, 3))) / count
        with torch.no_grad():
            if self.running_mean is not None and self.running_var is not None:
                step = self.momentum or 0.0
                self.running_mean.lerp_(mean.detach(), step)
                self.running_var.lerp_(variance.detach() * count / (count - 1), step)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return centred * scale[None, :, None, None] + self.bias[None, :, None, None]


def with_joint_norms(network: nn.Module) -> nn.Module:
    """Replace every batch normalisation, in place, by one over the joint batch."""
    for module in network.modules():
        if type(module) is nn.BatchNorm2d:
            module.__class__ = JointBatchNorm
    return network


def _all_sum(value: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(value)
    return total

"""How long a step of training takes on this machine, found by taking a few."""

from __future__ import annotations

import time

import torch
from torch.nn.functional import cross_entropy

from pdac_cli.learning.devices import choose_device
from pdac_cli.learning.networks.heads import new_network

_STEPS = 3


def step_seconds(shape: tuple[int, ...], classes: int, width: int, hidden: int, batch: int, device: str) -> float:
    """Return the seconds of one step on a batch of samples of a shape: the fastest of a few, after one to warm up."""
    place = choose_device(device)
    network = new_network(shape, classes, width, hidden, None, seed=0).to(place).train()
    optimizer = torch.optim.SGD(network.parameters(), 0.01)
    x, y = torch.zeros((batch, *shape), device=place), torch.zeros(batch, dtype=torch.int64, device=place)
    found = []
    for _ in range(1 + _STEPS):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = cross_entropy(network(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        loss.item()  # waits for the device
        found.append(time.perf_counter() - start)
    return min(found[1:])

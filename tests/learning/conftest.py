"""Networks small enough to run everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pdac_cli.learning.networks.backbones import ResNet18, resnet18

torch.set_num_threads(1)


@pytest.fixture
def tiny() -> ResNet18:
    """A ResNet18 of width 4 for colour images, with batch statistics other than 0 and 1."""
    torch.manual_seed(0)
    network = resnet18(5, width=4)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    return network.eval()


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file that exists only if something ran that must not."""
    return tmp_path / "canary"

"""What is trained: a ResNet18, or a head on features of a backbone that stays as it is."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from pdac_cli.errors import ModelError
from pdac_cli.learning.networks.backbones import describe_state, resnet18
from pdac_cli.rng import Purpose, generator

_DRAWING = threading.Lock()


class FeatureHead(nn.Module):
    """Features (n, D) → logits (n, num_classes), through one hidden layer or none."""

    def __init__(self, n_features: int, hidden: int, num_classes: int) -> None:
        super().__init__()
        layers = [nn.Linear(n_features, hidden), nn.ReLU(), nn.Linear(hidden, num_classes)] if hidden else []
        self.fc: nn.Module = nn.Sequential(*layers) if hidden else nn.Linear(n_features, num_classes)

    def features(self, x: Tensor) -> Tensor:
        """Return the features themselves (n, D): the backbone is frozen."""
        return x

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, num_classes)."""
        logits: Tensor = self.fc(x)
        return logits


class Both(nn.Module):
    """A network that returns the features (n, D) it has computed on the way, beside the logits (n, num_classes)."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return features and logits."""
        h: Tensor = self.network.features(x)  # type: ignore[operator]
        return h, self.network.fc(h)  # type: ignore[operator]


def new_network(
    shape: tuple[int, ...], num_classes: int, width: int, hidden: int, state: Mapping[str, Tensor] | None, seed: int
) -> nn.Module:
    """Return a network for samples of a shape, (D,) or (channels, h, w), with first weights of its own.

    From a checkpoint's `state` all but the classifier is taken.  The weights are a function of the seed.
    """
    # torch's layers draw from its global generator: one network at a time, and it is put back afterwards.
    with _DRAWING, torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(seed, Purpose.NETWORK).integers(2**62)))
        if len(shape) == 1:
            return FeatureHead(shape[0], hidden, num_classes)
        if state is None:
            return resnet18(num_classes, width=width, in_channels=shape[0])
        form = describe_state(state)
        if form.in_channels != shape[0]:
            raise ModelError(f"the checkpoint takes {form.in_channels} channels, the images have {shape[0]}")
        network = resnet18(num_classes, width=form.width, stem=form.stem, in_channels=form.in_channels)
        own = network.state_dict()
        own.update({name: value for name, value in state.items() if not name.startswith("fc.")})
        network.load_state_dict(own)
        return network

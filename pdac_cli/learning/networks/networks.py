"""From a checkpoint to a network that gives penultimate features and logits.

Without a name the checkpoint is a ResNet18 whose form its shapes tell.  With the name of a torchvision classifier the
network is torchvision's, its head sized by the checkpoint, and the features are whatever goes into that head.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from torchvision import models

from pdac_cli.errors import ModelError, UsageError
from pdac_cli.learning.networks.backbones import describe_state, shortened, state_differences
from pdac_cli.learning.networks.checkpoints import Checkpoint

RESNET18 = "resnet18"
_PUBLISHED_CLASSES = 1000  # the head every torchvision classifier is built with, by which it is found
_NEAR_NAMES = 4

Head = nn.Linear | nn.Conv2d


class FeatureNetwork(nn.Module):
    """Images (n, channels, h, w) → features (n, D), the input of ``head``, and logits (n, K)."""

    def __init__(self, network: nn.Module, head: Head) -> None:
        super().__init__()
        self.network = network
        self._input: Tensor | None = None
        head.register_forward_pre_hook(self._keep)
        self.num_classes, self.n_features = head.weight.shape[:2]

    def _keep(self, _module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        self._input = inputs[0]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return features (n, D) and logits (n, K); a convolutional head's input is averaged over positions."""
        logits: Tensor = self.network(x)
        h, self._input = self._input, None
        if h is None:
            raise ModelError("the network did not run its head; expected a classifier")
        return (h.mean((2, 3)) if h.ndim == 4 else h.flatten(1)), logits


@dataclass(frozen=True)
class Built:
    """A network in eval mode, what it is called, and what its form asks of images."""

    network: FeatureNetwork
    arch: str
    layer: str  # whose input the features are
    channels: int
    small_images: bool  # trained on images of their own size, as the CIFAR form is

    @property
    def has_flat_head(self) -> bool:
        """Whether the head gives all classes equal logits, as one that was never trained and set to zero does."""
        head: Any = self.network.network.get_submodule(self.layer)
        alike = bool((head.weight == head.weight[:1]).all())
        return len(head.weight) > 1 and alike and (head.bias is None or bool((head.bias == head.bias[0]).all()))


def build_network(checkpoint: Checkpoint, arch: str | None) -> Built:
    """Build the network the checkpoint is of and load it; refuse, with a few of the differences, what does not fit."""
    arch = arch or _named_in(checkpoint.meta)
    if arch is not None:
        check_arch(arch)
    built = _resnet18(checkpoint) if arch in (None, RESNET18) else _torchvision(checkpoint, str(arch))
    built.network.eval().requires_grad_(requires_grad=False)
    return built


def check_arch(arch: str) -> None:
    """Refuse a name that is none of torchvision's classifiers."""
    known = models.list_models(module=models)
    if arch not in known:
        family = arch.rstrip("0123456789").split("_")[0]
        near = [name for name in known if family and name.startswith(family)] or known
        raise UsageError(
            f"--arch {arch}: no such network; expected one of torchvision's {len(known)} classifiers, such as "
            f"{', '.join(near[:_NEAR_NAMES])}"
        )


def _named_in(meta: Mapping[str, Any]) -> str | None:
    arch = meta.get("arch")
    return arch if isinstance(arch, str) and arch in models.list_models(module=models) else None


def _resnet18(checkpoint: Checkpoint) -> Built:
    try:
        form = describe_state(checkpoint.state)
    except ModelError as problem:
        raise ModelError(f"{checkpoint.path}: {problem}; name another network with --arch") from None
    network = form.build()
    network.load_state_dict(checkpoint.state)
    small = form.stem == "cifar"
    return Built(FeatureNetwork(network, network.fc), f"{RESNET18}-{form.stem}", "fc", form.in_channels, small)


def _torchvision(checkpoint: Checkpoint, arch: str) -> Built:
    state = checkpoint.state
    network: nn.Module = models.get_model(arch, weights=None, **_arguments(arch, state))
    heads = _heads(network)
    for name, head in heads.items():
        weight = state.get(f"{name}.weight")
        if weight is not None and weight.ndim == head.weight.ndim:
            heads[name] = _resized(head, len(weight))
            _replace(network, name, heads[name])
    _load(checkpoint, network, arch)
    layer = list(heads)[-1]  # the auxiliary heads of some networks come before the real one
    first = next(module for module in network.modules() if isinstance(module, nn.Conv2d))
    return Built(FeatureNetwork(network, heads[layer]), arch, layer, first.in_channels, small_images=False)


def _arguments(arch: str, state: Mapping[str, Tensor]) -> dict[str, Any]:
    """What a builder needs to know beyond the number of classes, read from the checkpoint's shapes."""
    if arch in ("googlenet", "inception_v3"):
        auxiliary = any(key.startswith(("aux1.", "AuxLogits.")) for key in state)
        return {"init_weights": False, "aux_logits": auxiliary}
    positions, patches = state.get("encoder.pos_embedding"), state.get("conv_proj.weight")
    if positions is None or patches is None or positions.ndim != 3 or patches.ndim != 4:
        return {}
    tokens = positions.shape[1] - 1  # one per patch of a square image, after the class's own
    return {"image_size": math.isqrt(max(1, tokens)) * patches.shape[-1]} if arch.startswith("vit_") else {}


def _heads(network: nn.Module) -> dict[str, Head]:
    """The layers that give logits: linear ones or, where a network has none, a 1×1 convolution."""
    named = dict(network.named_modules())
    linear = {n: m for n, m in named.items() if isinstance(m, nn.Linear) and m.out_features == _PUBLISHED_CLASSES}
    convolutions = {n: m for n, m in named.items() if isinstance(m, nn.Conv2d) and m.out_channels == _PUBLISHED_CLASSES}
    return {**linear} or {**convolutions}


def _resized(head: Head, classes: int) -> Head:
    bias = head.bias is not None
    if isinstance(head, nn.Linear):
        return nn.Linear(head.in_features, classes, bias=bias)
    return nn.Conv2d(head.in_channels, classes, kernel_size=1, bias=bias)


def _replace(network: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, last = name.rpartition(".")
    setattr(network.get_submodule(parent), last, module)


def _load(checkpoint: Checkpoint, network: nn.Module, arch: str) -> None:
    state = network.state_dict()  # carries the versions that some modules ask for, which a checkpoint may not
    differences = state_differences(_shapes(checkpoint.state), _shapes(state))
    if differences:
        raise ModelError(
            f"{checkpoint.path}: not a {arch} of torchvision: {shortened(differences)}; "
            "name the network it was saved from with --arch"
        )
    state.update(checkpoint.state)
    network.load_state_dict(state)


def _shapes(state: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {key: tuple(value.shape) for key, value in state.items()}

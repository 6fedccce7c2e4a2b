"""ResNet18 in the two forms the field uses, with torchvision's parameter names.

``stem='imagenet'`` is torchvision's network: a 7×7 convolution of stride 2 and a max-pool.  ``stem='cifar'``
is the form for small images: a 3×3 convolution of stride 1 and no max-pool.  Width 64 is ResNet18 proper.
torchvision's own class fixes both the width and the stem, so the network is written out here; a test holds
the two to equal outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from pdac_cli.errors import ModelError

Stem = Literal["cifar", "imagenet"]

STEM_OF_KERNEL: dict[tuple[int, ...], Stem] = {(3, 3): "cifar", (7, 7): "imagenet"}
SHOWN_DIFFERENCES = 3


@dataclass(frozen=True)
class ResNet18Form:
    """What a ResNet18 state dict says of its network."""

    stem: Stem
    width: int
    num_classes: int
    in_channels: int

    def build(self) -> ResNet18:
        """Return a freshly initialised network of this form."""
        return resnet18(self.num_classes, width=self.width, stem=self.stem, in_channels=self.in_channels)


class BasicBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut, (n, c_in, h, w) → (n, c_out, h/stride, w/stride)."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.downsample: nn.Module | None = None
        if stride != 1 or c_in != c_out:
            shortcut = nn.Conv2d(c_in, c_out, 1, stride=stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(c_out))

    def forward(self, x: Tensor) -> Tensor:
        """Return relu(shortcut(x) + residual(x))."""
        residual = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        residual += x if self.downsample is None else self.downsample(x)
        out: Tensor = self.relu(residual)
        return out


class ResNet18(nn.Module):
    """Images (n, in_channels, h, w) → features (n, 8·width) → logits (n, num_classes)."""

    def __init__(self, num_classes: int, width: int, stem: Stem, in_channels: int) -> None:
        super().__init__()
        if stem == "imagenet":
            self.conv1 = nn.Conv2d(in_channels, width, 7, stride=2, padding=3, bias=False)
            self.maxpool: nn.Module = nn.MaxPool2d(3, stride=2, padding=1)
        else:
            self.conv1 = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
            self.maxpool = nn.Identity()
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = _stage(width, width, stride=1)
        self.layer2 = _stage(width, 2 * width, stride=2)
        self.layer3 = _stage(2 * width, 4 * width, stride=2)
        self.layer4 = _stage(4 * width, 8 * width, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(8 * width, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, x: Tensor) -> Tensor:
        """Return the penultimate features (n, 8·width): the last block's mean over positions."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return torch.flatten(self.avgpool(x), 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (n, num_classes)."""
        logits: Tensor = self.fc(self.features(x))
        return logits


def resnet18(num_classes: int, *, width: int = 64, stem: Stem = "cifar", in_channels: int = 3) -> ResNet18:
    """Build a ResNet18; its state dict is torchvision's when ``width=64, stem='imagenet', in_channels=3``."""
    return ResNet18(num_classes, width, stem, in_channels)


def describe_state(state: Mapping[str, object]) -> ResNet18Form:
    """Read a ResNet18's form from the shapes of its tensors; refuse what would not load into it."""
    found = {key: tuple(value.shape) for key, value in state.items() if isinstance(value, Tensor)}
    form = _form_of_ends(found)
    with torch.device("meta"):
        expected = {key: tuple(value.shape) for key, value in form.build().state_dict().items()}
    differences = state_differences(found, expected)
    if differences:
        raise ModelError(f"not a ResNet18 of width {form.width}: {shortened(differences)}")
    return form


def state_differences(found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Say where the shapes of a state dict differ from those a network expects, one item per tensor."""
    # torchvision's older checkpoints have no num_batches_tracked, and nothing that is computed here needs it.
    missing = [key for key in expected if key not in found and not key.endswith("num_batches_tracked")]
    return [
        *(f"no '{key}'" for key in missing),
        *(f"unknown '{key}'" for key in found if key not in expected),
        *(
            f"'{key}' is {found[key]}, expected {shape}"
            for key, shape in expected.items()
            if key in found and found[key] != shape
        ),
    ]


def shortened(items: list[str]) -> str:
    """Join the first few items and count the rest."""
    more = len(items) - SHOWN_DIFFERENCES
    return "; ".join(items[:SHOWN_DIFFERENCES]) + (f"; and {more:,} more differences" if more > 0 else "")


def _stage(c_in: int, c_out: int, stride: int) -> nn.Sequential:
    return nn.Sequential(BasicBlock(c_in, c_out, stride), BasicBlock(c_out, c_out, stride=1))


def _form_of_ends(found: Mapping[str, tuple[int, ...]]) -> ResNet18Form:
    """Read the form from the first convolution and the head, which fix every other shape."""
    missing = [key for key in ("conv1.weight", "fc.weight") if key not in found]
    if missing:
        raise ModelError(
            f"not a ResNet18: no {_quoted(missing)} in its {len(found):,} tensors ({_quoted(list(found))}); "
            "expected torchvision's names: 'conv1.weight', 'layer1.0.conv1.weight', …, 'fc.weight'"
        )
    conv, head = found["conv1.weight"], found["fc.weight"]
    if len(conv) != 4 or conv[2:] not in STEM_OF_KERNEL or min(conv) < 1:
        raise ModelError(
            f"not a ResNet18: 'conv1.weight' is {conv}, expected (width, channels, 3, 3) or (width, channels, 7, 7)"
        )
    if len(head) != 2 or min(head) < 1:
        raise ModelError(f"not a ResNet18: 'fc.weight' is {head}, expected (classes, {8 * conv[0]})")
    return ResNet18Form(STEM_OF_KERNEL[conv[2:]], width=conv[0], num_classes=head[0], in_channels=conv[1])


def _quoted(keys: list[str]) -> str:
    shown = [f"'{key}'" for key in keys[:SHOWN_DIFFERENCES]]
    return ", ".join(shown if len(keys) <= SHOWN_DIFFERENCES else [*shown, "…"])

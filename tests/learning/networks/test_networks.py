"""Networks built from checkpoints, against torchvision's own with the head taken off."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torchvision import models

from pdac_cli.errors import ModelError, UsageError
from pdac_cli.learning.networks.backbones import ResNet18
from pdac_cli.learning.networks.checkpoints import Checkpoint
from pdac_cli.learning.networks.networks import build_network

# name, image size, arguments, path of the head
FAMILIES = [
    ("resnet34", 32, {}, "fc"),
    ("mobilenet_v2", 32, {}, "classifier.1"),
    ("mobilenet_v3_small", 32, {}, "classifier.3"),
    ("efficientnet_b0", 32, {}, "classifier.1"),
    ("densenet121", 32, {}, "classifier"),
    ("convnext_tiny", 32, {}, "classifier.2"),
    ("shufflenet_v2_x0_5", 32, {}, "fc"),
    ("regnet_y_400mf", 32, {}, "fc"),
    ("mnasnet0_5", 32, {}, "classifier.1"),
    ("swin_t", 32, {}, "head"),
    ("vit_b_32", 64, {"image_size": 64}, "heads.head"),
    ("googlenet", 64, {"init_weights": False}, "fc"),
    ("inception_v3", 75, {"init_weights": False, "aux_logits": False}, "fc"),
]


def checkpoint(network: nn.Module, **meta: object) -> Checkpoint:
    return Checkpoint(Path("net.pt"), dict(network.state_dict()), dict(meta), "", ())


def torchvisions(name: str, **arguments: object) -> nn.Module:
    torch.manual_seed(0)
    network = models.get_model(name, weights=None, num_classes=7, **arguments).eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    return network


@pytest.mark.parametrize(("name", "size", "arguments", "head"), FAMILIES, ids=[row[0] for row in FAMILIES])
def test_features_are_the_output_without_the_head(name: str, size: int, arguments: dict, head: str) -> None:
    theirs = torchvisions(name, **arguments)
    built = build_network(checkpoint(theirs), name)
    x = torch.randn(2, 3, size, size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        h, logits = built.network(x)
        expected = theirs(x)
        parent, _, last = head.rpartition(".")
        setattr(theirs.get_submodule(parent), last, nn.Identity())
        features = theirs(x)
    assert (built.layer, built.network.num_classes, built.network.n_features) == (head, 7, features.shape[1])
    assert torch.equal(logits, expected)
    assert torch.equal(h, features)
    assert not built.small_images


def test_a_convolutional_heads_input_is_averaged() -> None:
    theirs = torchvisions("squeezenet1_1")
    built = build_network(checkpoint(theirs), "squeezenet1_1")
    x = torch.randn(2, 3, 48, 48, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        h, logits = built.network(x)
        torch.testing.assert_close(h, theirs.features(x).mean((2, 3)))
        assert torch.equal(logits, theirs(x))


@pytest.mark.parametrize("arch", [None, "resnet18"])
def test_resnet18_of_any_form_needs_no_name(tiny: ResNet18, arch: str | None) -> None:
    built = build_network(checkpoint(tiny), arch)
    x = torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    h, logits = built.network(x)
    with torch.no_grad():
        assert torch.equal(h, tiny.features(x))
        assert torch.equal(logits, tiny(x))
    assert (built.arch, built.layer, built.channels, built.small_images) == ("resnet18-cifar", "fc", 3, True)
    assert not built.network.training
    assert not any(parameter.requires_grad for parameter in built.network.parameters())


def test_torchvisions_resnet18_needs_no_name() -> None:
    built = build_network(checkpoint(torchvisions("resnet18")), None)
    assert (built.arch, built.small_images, built.network.num_classes) == ("resnet18-imagenet", False, 7)


def test_the_metadata_may_name_the_network() -> None:
    theirs = torchvisions("mobilenet_v2")
    assert build_network(checkpoint(theirs, arch="mobilenet_v2"), None).arch == "mobilenet_v2"
    with pytest.raises(ModelError, match="not a ResNet18"):
        build_network(checkpoint(theirs, arch="my own"), None)


def test_half_precision_checkpoints_load(tiny: ResNet18) -> None:
    halves = {k: v.half() if v.is_floating_point() else v for k, v in tiny.state_dict().items()}
    built = build_network(Checkpoint(Path("net.pt"), halves, {}, "", ()), None)
    assert next(built.network.parameters()).dtype == torch.float32


def test_another_network_is_refused_with_differences() -> None:
    theirs = checkpoint(torchvisions("resnet34"))
    with pytest.raises(
        ModelError, match=r"^net.pt: not a ResNet18 of width 64: unknown 'layer1.2.conv1.weight'.*--arch"
    ):
        build_network(theirs, None)
    with pytest.raises(
        ModelError, match=r"not a resnet50 of torchvision: no 'layer1.0.conv3.weight'.*more differences"
    ):
        build_network(theirs, "resnet50")


def test_unknown_names_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match=r"--arch resnet19: no such network.*resnet101"):
        build_network(checkpoint(nn.Linear(2, 2)), "resnet19")
    with pytest.raises(UsageError, match="no such network"):
        build_network(checkpoint(nn.Linear(2, 2)), "fasterrcnn_resnet50_fpn")

"""The ResNet18 of ``pdac_cli.learning.networks.backbones`` against torchvision's, and forms read back from shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torchvision

from pdac_cli.errors import ModelError
from pdac_cli.learning.networks.backbones import ResNet18Form, describe_state, resnet18

State = dict[str, torch.Tensor]


def torchvision_resnet18(num_classes: int) -> torch.nn.Module:
    torch.manual_seed(0)
    theirs = torchvision.models.resnet18(weights=None, num_classes=num_classes)
    for module in theirs.modules():  # statistics other than 0 and 1, so that eval mode tests them
        if isinstance(module, torch.nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
    return theirs


@pytest.mark.parametrize("training", [False, True])
def test_outputs_equal_torchvisions_exactly(training: bool) -> None:
    theirs = torchvision_resnet18(7).train(training)
    ours = resnet18(7, stem="imagenet")
    ours.load_state_dict(theirs.state_dict())
    ours.train(training)
    x = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(ours(x), theirs(x))


def test_state_dict_loads_into_torchvision() -> None:
    ours = resnet18(5, stem="imagenet")
    theirs = torchvision.models.resnet18(weights=None, num_classes=5)
    theirs.load_state_dict(ours.state_dict())
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_features_equal_torchvisions_input_to_fc() -> None:
    theirs = torchvision_resnet18(4).eval()
    ours = resnet18(4, stem="imagenet").eval()
    ours.load_state_dict(theirs.state_dict())
    theirs.fc = torch.nn.Identity()
    x = torch.randn(2, 3, 40, 56, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        assert torch.equal(ours.features(x), theirs(x))
        assert torch.equal(ours.fc(ours.features(x)), ours(x))


def test_cifar_stem_keeps_resolution() -> None:
    """A 32×32 image reaches the average pool as 4×4 in the CIFAR form, as 1×1 in torchvision's."""
    sizes = {}
    for stem in ("cifar", "imagenet"):
        network = resnet18(2, width=4, stem=stem).eval()
        reached: list[torch.Tensor] = []
        network.layer4.register_forward_hook(lambda _module, _x, out, reached=reached: reached.append(out))
        network(torch.zeros(1, 3, 32, 32))
        sizes[stem] = tuple(reached[0].shape[2:])
    assert sizes == {"cifar": (4, 4), "imagenet": (1, 1)}


def test_width_64_cifar_has_the_known_parameter_count() -> None:
    """11,173,962 is the count usually reported for ResNet18 on CIFAR-10."""
    assert sum(p.numel() for p in resnet18(10).parameters()) == 11_173_962


@pytest.mark.parametrize("stem", ["cifar", "imagenet"])
@pytest.mark.parametrize(("width", "num_classes", "in_channels"), [(8, 10, 1), (3, 1, 3), (64, 200, 4)])
def test_form_is_read_back(stem: str, width: int, num_classes: int, in_channels: int) -> None:
    network = resnet18(num_classes, width=width, stem=stem, in_channels=in_channels)
    form = describe_state(network.state_dict())
    assert form == ResNet18Form(stem, width, num_classes, in_channels)
    form.build().load_state_dict(network.state_dict())
    with torch.no_grad():
        assert network.eval().features(torch.zeros(2, in_channels, 16, 16)).shape == (2, 8 * width)


def test_torchvisions_own_state_is_described() -> None:
    assert describe_state(torchvision_resnet18(1000).state_dict()) == ResNet18Form("imagenet", 64, 1000, 3)


def test_old_checkpoints_without_batch_counts_are_described_and_load() -> None:
    state = dict(resnet18(3, width=2).state_dict())
    old = {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}
    assert len(old) < len(state)
    describe_state(old).build().load_state_dict(old)


def _prefixed(state: State) -> State:
    return {f"module.{key}": value for key, value in state.items()}


def _without_layer4(state: State) -> State:
    return {key: value for key, value in state.items() if not key.startswith("layer4")}


REFUSED: list[tuple[Callable[[State], State], list[str]]] = [
    (lambda _: {}, ["no 'conv1.weight', 'fc.weight' in its 0 tensors"]),
    (_prefixed, ["no 'conv1.weight', 'fc.weight' in its 122 tensors", "'module.conv1.weight'", "expected"]),
    (_without_layer4, ["width 2", "no 'layer4.0.conv1.weight'", "and 22 more differences"]),
    (lambda s: {**s, "layer1.2.conv1.weight": torch.zeros(2, 2, 3, 3)}, ["unknown 'layer1.2.conv1.weight'"]),
    (lambda s: {**s, "fc.bias": torch.zeros(4)}, ["'fc.bias' is (4,), expected (3,)"]),
    (lambda s: {**s, "fc.weight": torch.zeros(3, 17)}, ["'fc.weight' is (3, 17), expected (3, 16)"]),
    (lambda s: {**s, "fc.weight": torch.zeros(3)}, ["'fc.weight' is (3,), expected (classes, 16)"]),
    (
        lambda s: {**s, "conv1.weight": torch.zeros(2, 3, 5, 5)},
        ["'conv1.weight' is (2, 3, 5, 5), expected (w"],
    ),
    (lambda s: {**s, "conv1.weight": torch.zeros(0, 3, 3, 3)}, ["'conv1.weight' is (0, 3, 3, 3)"]),
]


@pytest.mark.parametrize(("damage", "words"), REFUSED)
def test_other_states_are_refused(damage: Callable[[State], State], words: list[str]) -> None:
    with pytest.raises(ModelError) as caught:
        describe_state(damage(dict(resnet18(3, width=2).state_dict())))
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("name", ["resnet34", "resnet50", "vgg11"])
def test_other_networks_are_refused(name: str) -> None:
    with torch.device("meta"):
        state = torchvision.models.get_model(name, weights=None).state_dict()
    with pytest.raises(ModelError, match="not a ResNet18"):
        describe_state(state)

"""Preprocessing against torchvision's own preset, and where each step is taken from."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms._presets import ImageClassification

from pdac_cli.errors import ModelError, UsageError
from pdac_cli.learning.data.preprocessing import (
    CONVENTIONS,
    IMAGENET,
    Convention,
    Preprocessing,
    contradiction,
    own_size,
    settle,
)
from pdac_cli.options.extract import STATISTICS, PreprocessingOptions

NOTHING = PreprocessingOptions()


def picture(height: int, width: int, mode: str = "RGB") -> Image.Image:
    rng = np.random.default_rng(height * width)
    return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)).convert(mode)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P"])
@pytest.mark.parametrize(("height", "width"), [(50, 40), (33, 90)])
def test_equals_torchvisions_preset(height: int, width: int, mode: str) -> None:
    image = picture(height, width, mode)
    how = settle(PreprocessingOptions(resize=(36,), crop=(32,)), {}, IMAGENET, 3)
    ours = how.standardise(how.decode(image)[None])[0]
    theirs = ImageClassification(crop_size=32, resize_size=36)(image.convert("RGB"))
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_standardising_leaves_its_input_alone() -> None:
    how = Preprocessing(1, (0.25,), (0.5,))
    floats = torch.full((1, 1, 2, 2), 0.75)
    assert torch.equal(how.standardise(floats), torch.ones(1, 1, 2, 2))
    assert torch.equal(floats, torch.full((1, 1, 2, 2), 0.75))
    assert torch.equal(how.standardise(torch.full((1, 1, 2, 2), 255, dtype=torch.uint8)), torch.full((1, 1, 2, 2), 1.5))


def test_options_come_before_metadata_before_convention() -> None:
    meta = {"mean": [0.1], "std": torch.tensor([0.2, 0.3, 0.4]), "image_size": [20, 24]}
    how = settle(PreprocessingOptions(mean=(0.7,)), meta, CONVENTIONS["cifar10"], 3)
    assert how.mean == (0.7, 0.7, 0.7)
    assert how.std == pytest.approx((0.2, 0.3, 0.4))
    assert (how.resize, how.crop) == ((20, 24), None)
    usual = settle(NOTHING, {}, CONVENTIONS["cifar10"], 3)
    assert usual.mean == CONVENTIONS["cifar10"].mean
    assert (usual.resize, usual.crop) == (None, None)


@pytest.mark.parametrize(
    ("meta", "resize", "crop"),
    [
        ({"resize": 256, "crop": 224}, (256,), (224,)),
        ({"image_size": 32}, (32, 32), None),
        ({"input_size": [3, 20, 30]}, (20, 30), None),
        ({}, (256,), (224,)),
    ],
)
def test_sizes_of_metadata(meta: dict, resize: tuple, crop: tuple | None) -> None:
    how = settle(NOTHING, meta, IMAGENET, 3)
    assert (how.resize, how.crop) == (resize, crop)


def test_a_size_given_replaces_both_sizes() -> None:
    how = settle(PreprocessingOptions(crop=(64,)), {"image_size": 32}, IMAGENET, 3)
    assert (how.resize, how.crop) == (None, (64,))
    assert (own_size(IMAGENET).resize, own_size(IMAGENET).crop) == (None, None)


@pytest.mark.parametrize(
    ("meta", "usual", "channels", "error", "words"),
    [
        ({}, Convention(), 3, UsageError, "add --mean and --std"),
        ({"mean": 0.5}, Convention(), 3, UsageError, r"--std is missing: there is a mean .* add --std \(1 for none\)"),
        ({"std": 0.5}, Convention(), 3, UsageError, "--mean is missing: there is a std"),
        ({"mean": [0.5, 0.5], "std": 1}, Convention(), 3, UsageError, "mean has 2 numbers.*takes 3 channels"),
        ({"mean": "grey", "std": 1}, Convention(), 3, ModelError, "'mean' = grey; expected numbers; give --mean"),
        ({"mean": 0, "std": 0}, Convention(), 3, ModelError, "'std' = 0"),
        ({"mean": 0, "std": 1, "image_size": 0.5}, Convention(), 3, ModelError, "'image_size'.*expected a size"),
        ({}, IMAGENET, 2, ModelError, "2 channels; expected 1, 3 or 4"),
    ],
)
def test_what_cannot_be_settled_is_refused(
    meta: dict, usual: Convention, channels: int, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        settle(NOTHING, meta, usual, channels)


@pytest.mark.parametrize(
    ("name", "small", "meta", "usual", "words"),
    [
        ("cifar10", False, {}, None, "of the form for ImageNet, the mean and std are those of cifar10"),
        ("imagenet", True, {}, None, "of the form for CIFAR, the mean and std are those of imagenet"),
        ("cifar10", True, {}, None, ""),
        ("imagenet", False, {}, None, ""),
        ("cifar10", False, {"mean": STATISTICS["cifar10"][0], "std": STATISTICS["cifar10"][1]}, None, ""),
        ("cifar10", True, {"mean": 0.5, "std": 0.25}, None, "metadata were made with mean 0.5,0.5,0.5 and std 0.25"),
        ("clip", False, {}, IMAGENET, "these weights were made with mean 0.485,0.456,0.406"),
    ],
)
def test_what_speaks_against_means_and_deviations(
    name: str, small: bool, meta: dict, usual: Convention | None, words: str
) -> None:
    found = contradiction(Preprocessing(3, *STATISTICS[name]), small, meta, usual)
    assert words in found
    assert bool(words) == bool(found)


def test_a_crop_never_invents_black_borders() -> None:
    how = settle(PreprocessingOptions(crop=(32,)), {}, IMAGENET, 3)
    with pytest.raises(ValueError, match="16x40 pixels are fewer than the crop of 32x32; add --resize"):
        how.decode(picture(16, 40))

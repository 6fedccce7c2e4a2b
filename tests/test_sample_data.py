"""The shipped sample against its outside sources: scikit-learn's digits and a plain forward pass."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from pdac_cli.learning.networks.backbones import ResNet18Form, describe_state

SAMPLE = Path(__file__).parents[1] / "sample_data"
IMAGES, FEATURES, CHECKPOINT = (
    SAMPLE / "digits-images.h5",
    SAMPLE / "digits.h5",
    SAMPLE / "digits-resnet18.pt",
)
SHAPES = {
    IMAGES: {"images": (1797, 8, 8, 1), "labels": (1797,), "split": (1797,)},
    FEATURES: {"features": (1797, 64), "labels": (1797,), "logits": (1797, 10), "ids": (1797,)},
}
DTYPES = {
    IMAGES: {"images": "uint8", "labels": "int64", "split": "uint8"},
    FEATURES: {"features": "float32", "labels": "int64", "logits": "float32", "ids": "|S12"},
}


def read(path: Path) -> dict[str, np.ndarray]:
    with h5py.File(path) as file:
        return {name: dataset[:] for name, dataset in file.items()}


def load_checkpoint() -> dict[str, Any]:
    return torch.load(CHECKPOINT, weights_only=True)


@pytest.mark.parametrize("path", [IMAGES, FEATURES], ids=lambda path: path.name)
def test_shapes_and_dtypes(path: Path) -> None:
    arrays = read(path)
    assert {name: values.shape for name, values in arrays.items()} == SHAPES[path]
    assert {name: values.dtype for name, values in arrays.items()} == DTYPES[path]


@pytest.mark.parametrize("path", [IMAGES, FEATURES], ids=lambda path: path.name)
def test_labels_are_scikit_learns(path: Path) -> None:
    np.testing.assert_array_equal(read(path)["labels"], load_digits().target)


def test_images_are_scikit_learns() -> None:
    np.testing.assert_array_equal(read(IMAGES)["images"][..., 0] / 15, load_digits().images)


def test_split_is_stratified() -> None:
    images = read(IMAGES)
    test = images["split"] == 1
    assert test.sum() == 297
    assert set(images["split"]) == {0, 1}
    share = np.bincount(images["labels"][test]) / np.bincount(images["labels"])
    np.testing.assert_allclose(share, 297 / 1797, atol=1 / 174)  # one image of the smallest class


def test_features_and_logits_are_the_checkpoints() -> None:
    checkpoint, images, features = load_checkpoint(), read(IMAGES)["images"], read(FEATURES)
    meta, state = checkpoint["meta"], checkpoint["state_dict"]
    form = describe_state(state)
    assert form == ResNet18Form("cifar", width=8, num_classes=10, in_channels=1)
    assert (meta["arch"], meta["stem"], meta["width"]) == ("resnet18", form.stem, form.width)
    assert (meta["num_classes"], meta["in_channels"]) == (form.num_classes, form.in_channels)
    network = form.build().eval()
    network.load_state_dict(state)
    x = (torch.from_numpy(images[..., 0]).float()[:, None] / 255 - meta["mean"][0]) / meta["std"][0]
    with torch.no_grad():
        h = network.features(x)
        logits = network.fc(h)
    np.testing.assert_allclose(features["features"], h.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(features["logits"], logits.numpy(), rtol=1e-4, atol=1e-4)


def test_preprocessing_is_of_the_train_rows_only() -> None:
    images, meta = read(IMAGES), load_checkpoint()["meta"]
    train = images["images"][images["split"] == 0] / 255
    np.testing.assert_allclose([meta["mean"][0], meta["std"][0]], [train.mean(), train.std()])


def test_accuracy_on_the_test_rows() -> None:
    features, test = read(FEATURES), read(IMAGES)["split"] == 1
    accuracy = (features["logits"].argmax(1) == features["labels"])[test].mean()
    assert accuracy >= 0.95
    assert load_checkpoint()["meta"]["test_accuracy"] == pytest.approx(accuracy)
    assert f"**{accuracy:.4f}**" in (SAMPLE / "README.md").read_text(encoding="utf-8")


def test_every_class_has_directions_to_spare() -> None:
    features = read(FEATURES)
    h, y = features["features"].astype(np.float64), features["labels"]
    assert (h.std(0) > 0).all()
    for label in range(10):
        variances = np.linalg.svd(h[y == label] - h[y == label].mean(0), compute_uv=False) ** 2
        assert variances[9] > 1e-3 * variances[0]


def test_ids_are_the_row_numbers() -> None:
    ids = read(FEATURES)["ids"].astype(str)
    assert [int(name.removeprefix("digits-")) for name in ids] == list(range(1797))


def test_features_name_their_checkpoint() -> None:
    with h5py.File(FEATURES) as file:
        assert file.attrs["checkpoint"] == CHECKPOINT.name
        assert file.attrs["checkpoint_sha256"] == hashlib.sha256(CHECKPOINT.read_bytes()).hexdigest()


@pytest.mark.parametrize("path", [IMAGES, FEATURES], ids=lambda path: path.name)
def test_attributes_say_source_and_licence_and_no_place_on_a_machine(path: Path) -> None:
    with h5py.File(path) as file:
        attributes = {key: str(value) for key, value in file.attrs.items()}
    assert "UCI" in attributes["source"]
    assert "BSD" in attributes["licence"]
    for value in [*attributes.values(), str(load_checkpoint()["meta"])]:
        assert not re.search(r"(^|[\s'\"(])(/|~|[A-Za-z]:\\|file:)", value)


@pytest.mark.parametrize("path", [IMAGES, FEATURES], ids=lambda path: path.name)
def test_chunks_hold_whole_rows(path: Path) -> None:
    with h5py.File(path) as file:
        for dataset in file.values():
            assert dataset.chunks[1:] == dataset.shape[1:]


@pytest.mark.parametrize("path", [IMAGES, FEATURES, CHECKPOINT], ids=lambda path: path.name)
def test_files_are_small(path: Path) -> None:
    assert path.stat().st_size < 3_000_000

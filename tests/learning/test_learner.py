"""Augmentation, networks and steps, against torch's and torchvision's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torchvision.transforms import functional as transform

from pdac_cli.learning.data.augmentation import Augmenter
from pdac_cli.learning.data.images import ArrayImages, encoded
from pdac_cli.learning.data.preprocessing import Preprocessing
from pdac_cli.learning.data.samples import load_images
from pdac_cli.learning.learner import Learner
from pdac_cli.learning.loop import batch_bounds
from pdac_cli.learning.networks.backbones import resnet18
from pdac_cli.learning.networks.heads import FeatureHead, new_network
from pdac_cli.options.train_cl import LearningOptions
from tests.learning.samples import CPU, feature_samples, image_samples

torch.set_num_threads(1)


def test_crops_and_mirrors_are_torchvisions():
    samples = image_samples()
    rows = torch.tensor([3, 3, 7, 0, 11])
    found = Augmenter(samples.x, 2, flip=True).take(rows, np.random.default_rng(5), slice(None))
    rng = np.random.default_rng(5)
    down, across = rng.integers(0, 5, (2, 5))
    mirrored = rng.random(5) < 0.5
    assert mirrored.any()
    assert not mirrored.all()
    for k, row in enumerate(rows):
        image = transform.crop(transform.pad(samples.x[row], [2, 2]), int(down[k]), int(across[k]), 8, 8)
        assert torch.equal(found[k], transform.hflip(image) if mirrored[k] else image)


def test_without_a_frame_and_mirrors_images_stay_as_they_are():
    samples = image_samples()
    rows = torch.arange(5)
    assert torch.equal(
        Augmenter(samples.x, 0, flip=False).take(rows, np.random.default_rng(0), slice(None)), samples.x[:5]
    )


@pytest.mark.parametrize("part", [slice(0, None, 2), slice(1, None, 2)])
def test_a_share_of_a_batch_is_augmented_as_in_the_whole(part):
    augmenter = Augmenter(image_samples().x, 1, flip=True)
    rows = torch.arange(7)
    whole = augmenter.take(rows, np.random.default_rng(2), slice(None))
    assert torch.equal(augmenter.take(rows, np.random.default_rng(2), part), whole[part])


def test_a_step_is_plain_sgd_on_the_mean_loss():
    samples = feature_samples()
    network = new_network((6,), 4, 1, 0, None, seed=3)
    twin = FeatureHead(6, 0, 4)
    twin.load_state_dict(network.state_dict())
    learner = Learner(network, samples, LearningOptions(lr=0.5), CPU)
    rows = np.array([1, 5, 9, 30])
    loss, h = learner.step(rows, np.random.default_rng(0), 3)
    expected = cross_entropy(twin(samples.x[rows]), samples.y[rows])
    expected.backward()
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter -= 0.5 * parameter.grad
    assert float(loss) == pytest.approx(float(expected.detach()))
    assert np.array_equal(h, samples.x[rows[:3]].numpy())
    for ours, theirs in zip(network.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-7)


def test_outputs_are_the_networks_in_eval_mode_and_leave_it_learning():
    samples = image_samples(n=300)
    learner = Learner(new_network((3, 8, 8), 4, 2, 0, None, seed=0), samples, LearningOptions(), CPU)
    learner.step(np.arange(16), np.random.default_rng(0), 0)
    rows = np.arange(290)
    h, logits = learner.outputs(rows)
    assert learner.network.training
    network = learner.network.eval()
    x = (samples.x[rows].float() / 255 - 0.4) / 0.2
    with torch.no_grad():
        assert np.allclose(h, network.features(x), atol=1e-4)
        assert np.allclose(logits, network(x), atol=1e-4)
        assert np.array_equal(learner.correct(rows), network(x).argmax(1).numpy() == samples.y[rows].numpy())


def test_first_weights_are_a_function_of_the_seed_and_leave_torchs_generator_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    one, two, other = (new_network((3, 8, 8), 4, 2, 0, None, seed).state_dict() for seed in (0, 0, 1))
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["conv1.weight"], other["conv1.weight"])


def test_from_a_checkpoint_all_but_the_classifier_is_taken():
    torch.manual_seed(0)
    first = resnet18(7, width=3)
    network = new_network((3, 8, 8), 4, 64, 0, first.state_dict(), seed=0)
    assert torch.equal(network.layer4[1].conv2.weight, first.layer4[1].conv2.weight)
    assert network.fc.weight.shape == (4, 24)


def test_a_last_batch_of_one_row_joins_the_one_before():
    assert batch_bounds(100, 32) == [0, 32, 64, 96, 100]
    assert batch_bounds(65, 32) == [0, 32, 65]
    assert batch_bounds(64, 32) == [0, 32, 64]
    assert batch_bounds(1, 32) == [0, 1]


def test_grey_images_stored_channels_last_get_plain_strides():
    """With strides that count as both formats, training a narrow network corrupted the heap."""
    x = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 1), np.uint8)
    names, y = encoded(["a"] * 12), np.arange(12) % 2
    images = ArrayImages("arrays", Path("x"), x.__getitem__, x.shape, x.dtype, np.arange(12), names, y, None)
    loaded = load_images(images, None, Preprocessing(1, (0.0,), (1.0,)))
    assert loaded.x.stride() == (64, 64, 8, 1)
    assert np.array_equal(loaded.x[:, 0].numpy(), x[..., 0])

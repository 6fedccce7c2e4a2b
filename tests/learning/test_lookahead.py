"""What methods ask of the network before a step, against a copy of it that really takes the step."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from pdac_cli.learning.learner import Learner
from pdac_cli.learning.lookahead import Lookahead
from pdac_cli.learning.networks.heads import new_network
from pdac_cli.options.train_cl import LearningOptions
from tests.learning.samples import CPU, feature_samples, image_samples

LR = 0.2


def made(kind, double=False):
    samples = image_samples(n=40) if kind == "images" else feature_samples()
    network = new_network(tuple(samples.x.shape[1:]), 4, 2, 5 if kind == "hidden" else 0, None, seed=0)
    learner = Learner(network, samples, LearningOptions(lr=LR, pad=0, flip=False), CPU)
    for seed in range(3):  # so that the running statistics are not those of the beginning
        learner.step(np.arange(16), np.random.default_rng(seed), 0)
    if double:
        network.double()
        plain = learner.plain
        learner.plain = lambda rows: plain(rows).double()
        learner.inputs = lambda rows, rng: plain(rows).double()
    return learner, Lookahead(learner, lambda: np.random.default_rng(7))


def x_of(learner, rows):
    return learner.plain(torch.from_numpy(rows))


def losses_of(network, learner, rows):
    return cross_entropy(network(x_of(learner, rows)), learner.samples.y[rows], reduction="none")


@pytest.mark.parametrize("kind", ["features", "hidden", "images"])
def test_a_virtual_step_is_that_of_a_cloned_network(kind):
    learner, ahead = made(kind)
    rows, new = np.arange(20, 36), np.arange(3, 11)
    clone = deepcopy(learner.network)
    state = {name: value.clone() for name, value in learner.network.state_dict().items()}
    with torch.no_grad():
        expected = [losses_of(deepcopy(clone), learner, rows).numpy()]
    optimizer = torch.optim.SGD(clone.parameters(), LR)
    losses_of(clone, learner, new).mean().backward()
    optimizer.step()
    with torch.no_grad():
        expected.append(losses_of(clone, learner, rows).numpy())
    found = ahead.losses(rows, new)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    assert np.abs(found[1] - found[0]).max() > 1e-3
    assert learner.network.training
    assert all(torch.equal(value, state[name]) for name, value in learner.network.state_dict().items())
    assert all(parameter.grad is None or not parameter.grad.requires_grad for parameter in learner.network.parameters())


@pytest.mark.parametrize("kind", ["features", "hidden", "images"])
def test_influences_are_slopes_of_the_validation_loss(kind):
    """By central differences of a whole step taken with one row's weight a little changed, in double precision."""
    learner, ahead = made(kind, double=True)
    rows, sets = np.arange(10), [np.arange(20, 26), np.arange(30, 38)]
    state = {name: value.clone() for name, value in learner.network.state_dict().items()}
    found = ahead.influences(rows, sets)
    assert all(torch.equal(value, state[name]) for name, value in learner.network.state_dict().items())

    def validation_losses(epsilon):
        clone = deepcopy(learner.network)
        weight = torch.from_numpy((1 + epsilon) / len(rows))
        optimizer = torch.optim.SGD(clone.parameters(), LR)
        optimizer.zero_grad()
        (weight * losses_of(clone, learner, rows)).sum().backward()
        optimizer.step()
        with torch.no_grad():
            return [float(losses_of(clone, learner, held).mean()) for held in sets]

    for k, loss in enumerate(validation_losses(np.zeros(10))):
        assert found[k].loss == pytest.approx(loss)
    for i in (0, 4, 9):
        tiny = 1e-5 * np.eye(10)[i]
        up, down = validation_losses(tiny), validation_losses(-tiny)
        for k in range(2):
            assert found[k].slope[i] == pytest.approx((up[k] - down[k]) / 2e-5, rel=1e-4, abs=1e-8)


def test_rows_of_the_step_are_augmented_as_in_the_step():
    learner, _ = made("images")
    learner = Learner(learner.network, learner.samples, LearningOptions(lr=LR, pad=2, flip=True), CPU)
    rows, held = np.arange(10), [np.arange(20, 26)]
    one, two, other = (
        Lookahead(learner, lambda seed=seed: np.random.default_rng(seed)).influences(rows, held)[0].slope
        for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(one, two)
    assert not np.allclose(one, other)


def test_a_look_is_what_an_extraction_gives():
    learner, ahead = made("images")
    rows = np.array([3, 17, 5])
    for ours, theirs in zip(ahead.look(rows), learner.outputs(rows), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert learner.network.training


def test_a_step_by_weights_is_that_of_the_weighted_loss():
    learner, _ = made("features")
    rows, weight = np.arange(8), np.arange(1, 9) / 36
    clone = deepcopy(learner.network)
    loss, _ = learner.step(rows, np.random.default_rng(0), 0, weight)
    expected = (torch.from_numpy(weight) * losses_of(clone, learner, rows).double()).sum()
    expected.backward()
    assert float(loss) == pytest.approx(float(expected.detach()), rel=1e-5)
    for ours, theirs in zip(learner.network.parameters(), clone.parameters(), strict=True):
        assert torch.allclose(ours, theirs - LR * theirs.grad, atol=1e-6)

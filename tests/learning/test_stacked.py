"""Stacked networks are the networks one by one."""

import numpy as np
import pytest
import torch
from torch import nn

from pdac_cli.learning.stacked import Stack, learn, step_size
from pdac_cli.options.valex import NetworkOptions

SIZES = (2, 8, 8, 3)


def one_by_one(x, y, weights, biases, order, options):
    """A network trained the usual way: torch's layers, optimiser and schedules."""
    layers = []
    for w, b in zip(weights, biases, strict=True):
        layer = nn.Linear(*w.shape, dtype=torch.float64)
        layer.weight.data, layer.bias.data = w.T.clone(), b[0].clone()
        layers += [layer, nn.ReLU()]
    network = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.SGD(network.parameters(), options.lr)
    rising = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / options.warmup, 1.0, options.warmup - 1)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs - options.warmup)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [rising, falling], [options.warmup])
    x, y, rates = torch.from_numpy(x), torch.from_numpy(y), []
    for _ in range(options.epochs):
        rates.append(schedule.get_last_lr()[0])
        for rows in torch.from_numpy(order.permutation(len(x))).split(options.batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(x[rows]), y[rows]).backward()
            optimizer.step()
        schedule.step()
    return network, rates


def test_a_stack_learns_what_its_networks_learn_one_by_one():
    rng, trials = np.random.default_rng(0), 4
    x, y = rng.standard_normal((trials, 21, 2)), rng.integers(0, 3, (trials, 21))
    options = NetworkOptions(hidden=8, epochs=9, warmup=3, lr=0.5, batch=5)
    stack = Stack.begin(SIZES, [np.random.default_rng(k) for k in range(trials)], torch.float64)
    first = [[layer[k].clone() for layer in (*stack.weights, *stack.biases)] for k in range(trials)]
    told = []
    learn(stack, x, y, [np.random.default_rng(100 + k) for k in range(trials)], options, told.append)
    assert sum(told) == 9 * 5
    points = rng.standard_normal((600, 2))
    found = np.concatenate([p for _, p in stack.predictions(points)], axis=1)
    for k in range(trials):
        order = np.random.default_rng(100 + k)
        network, rates = one_by_one(x[k], y[k], first[k][:3], first[k][3:], order, options)
        with torch.no_grad():
            expected = network(torch.from_numpy(points)).softmax(1).numpy()
        np.testing.assert_allclose(found[k], expected, atol=1e-10)
        assert rates == pytest.approx([step_size(epoch, options) for epoch in range(9)])


def test_first_weights_are_a_function_of_the_trial_and_of_the_size_torch_uses():
    draws = [np.random.default_rng(k) for k in range(3)]
    stack = Stack.begin((2, 64, 64, 10), draws)
    alone = Stack.begin((2, 64, 64, 10), [np.random.default_rng(2)])
    for layer, other in zip((*stack.weights, *stack.biases), (*alone.weights, *alone.biases), strict=True):
        assert torch.equal(layer[2:], other)
    for layer, size in zip(stack.weights, (2, 64, 64), strict=True):
        assert 0.9 * size**-0.5 < float(layer.abs().max()) <= size**-0.5

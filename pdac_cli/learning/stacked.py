"""Many small networks trained as one: the trials of an experiment stacked, so that a layer of all is one product."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import cos, pi

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from pdac_cli.arrays import Array, Tick
from pdac_cli.options.valex import NetworkOptions

_CHUNK_ROWS = 250  # of a pass without gradients: the activations of a hundred trials then stay in the cache


@dataclass(frozen=True)
class Stack:
    """T networks of the same shape, two hidden layers of ReLU each; layer k is W (T, a, b) and its bias (T, 1, b)."""

    weights: list[Tensor]
    biases: list[Tensor]

    @classmethod
    def begin(
        cls, sizes: Sequence[int], draws: Sequence[np.random.Generator], dtype: torch.dtype = torch.float32
    ) -> Stack:
        """Return networks with first weights uniform on ±1/√fan-in, as torch's, each from its own generator."""
        weights, biases = [], []
        for a, b in pairwise(sizes):
            bound = a**-0.5
            weights.append(_stacked([draw.uniform(-bound, bound, (a, b)) for draw in draws], dtype))
            biases.append(_stacked([draw.uniform(-bound, bound, (1, b)) for draw in draws], dtype))
        return cls(weights, biases)

    def features(self, x: Tensor) -> Tensor:
        """Return what the last layer sees: (T, n, a) -> (T, n, hidden)."""
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = torch.baddbmm(b, x, w).relu()
        return x

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits: (T, n, a) -> (T, n, K)."""
        return torch.baddbmm(self.biases[-1], self.features(x), self.weights[-1])

    def chunks(self, x: Array, last: Callable[[Tensor], Tensor]) -> Iterator[tuple[slice, Array]]:
        """Yield `last` of the same rows x (n, a) in all networks, some rows at a time: (T, m, ·)."""
        with torch.inference_mode():
            rows = torch.from_numpy(x).to(self.weights[0].dtype)
            for start in range(0, len(rows), _CHUNK_ROWS):
                part = slice(start, start + _CHUNK_ROWS)
                yield part, last(rows[part].expand(len(self.weights[0]), -1, -1)).numpy()

    def predictions(self, x: Array) -> Iterator[tuple[slice, Array]]:
        """Yield the class probabilities of rows x (n, a), some at a time: (T, m, K)."""
        return self.chunks(x, lambda rows: self.logits(rows).softmax(2))


def learn(
    stack: Stack,
    x: Array,
    y: Array,
    orders: Sequence[np.random.Generator],
    options: NetworkOptions,
    tick: Tick,
) -> None:
    """Train each network on its own rows, x (T, N, a) and y (T, N), by SGD on the mean cross-entropy of a batch.

    `orders` deal each network's rows into batches anew in every epoch.  The networks share no weight, so the gradient
    of the sum of their losses is the gradient of each.
    """
    parameters = [*stack.weights, *stack.biases]
    for parameter in parameters:
        parameter.requires_grad_()
    inputs, labels = torch.from_numpy(x).to(stack.weights[0].dtype), torch.from_numpy(y)
    count = inputs.shape[1]
    trial = torch.arange(len(inputs))[:, None]
    for epoch in range(options.epochs):
        order = torch.from_numpy(np.stack([draw.permutation(count) for draw in orders]))  # (T, N)
        for start in range(0, count, options.batch):
            part = order[:, start : start + options.batch]
            logits = stack.logits(inputs[trial, part])
            loss = cross_entropy(logits.flatten(0, 1), labels[trial, part].flatten(), reduction="sum") / part.shape[1]
            steps = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                torch._foreach_add_(parameters, steps, alpha=-step_size(epoch, options))
            tick(1)
    for parameter in parameters:
        parameter.detach_()


def step_size(epoch: int, options: NetworkOptions) -> float:
    """Return SGD's step in an epoch, from 0: a line up to `lr` in the warm-up, then half a cosine down to 0."""
    if epoch < options.warmup:
        return options.lr * (epoch + 1) / options.warmup
    return options.lr * (1 + cos(pi * (epoch - options.warmup) / (options.epochs - options.warmup))) / 2


def _stacked(arrays: Sequence[Array], dtype: torch.dtype) -> Tensor:
    return torch.from_numpy(np.stack(arrays)).to(dtype)

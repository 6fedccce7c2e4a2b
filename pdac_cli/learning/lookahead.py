"""What a streaming method may ask of the network before a step; see `selection.streams.interface.Network`.

All of it leaves the network as it is: parameters, running statistics and mode.  It is computed in full precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from pdac_cli.arrays import Array
from pdac_cli.learning.learner import Learner
from pdac_cli.selection.streams.interface import Influence

Parameters = dict[str, Tensor]


@dataclass(frozen=True)
class Lookahead:
    """The network of a learner before a step, whose rows are augmented by the numbers that `augment` begins anew."""

    learner: Learner
    augment: Callable[[], np.random.Generator]

    def look(self, rows: Array) -> tuple[Array, Array]:
        """Return features (n, D) and logits (n, C) of rows (n,), not augmented, by the running statistics."""
        return self.learner.look(rows)

    def losses(self, rows: Array, step: Array) -> tuple[Array, Array]:
        """Return the losses (n,) of rows now, and after a virtual step of plain SGD on the rows `step`.

        Neither is augmented; batches are normalised by their own statistics, as in training.
        """
        now = self._parameters()
        after = self._after(now, self._plain(step), self._classes(step))
        x, y = self._plain(rows), self._classes(rows)
        with torch.no_grad():
            before, then = (self._losses(parameters, x, y).cpu().numpy() for parameters in (now, after))
        return before, then

    def influences(self, rows: Array, validation: Sequence[Array]) -> list[Influence]:
        """Return d loss(validation)/dε_i of a step with weights (1 + ε_i)/b on its rows, at ε = 0.

        With θ' = θ − lr Σ (1 + ε_i)/b ∇loss_i(θ) it is −lr/b ⟨∇loss_V(θ'), ∇loss_i(θ)⟩: the inner products with all
        rows' gradients are the derivative in ε of one, ⟨v, ∇ Σ ε_i loss_i⟩, so no row's gradient is formed alone.
        The rows are augmented as in the step itself, the validation rows are not.
        """
        x, y = self.learner.inputs(self._place(rows), self.augment()), self._classes(rows)
        now = self._parameters()
        losses = self._losses(now, x, y)
        epsilon = torch.zeros_like(losses, requires_grad=True)
        # At ε = 0 this is the gradient of the mean loss, and a function of ε.
        weighted = ((1 + epsilon) * losses).mean()
        gradient = torch.autograd.grad(weighted, list(now.values()), create_graph=True)
        after = self._stepped(now, gradient)
        found = []
        for k, held in enumerate(validation):
            leaves = {name: value.detach().requires_grad_() for name, value in after.items()}
            loss = self._losses(leaves, self._plain(held), self._classes(held)).mean()
            direction = torch.autograd.grad(loss, list(leaves.values()))
            along = sum((a * b).sum() for a, b in zip(gradient, direction, strict=True))
            (slope,) = torch.autograd.grad(along, epsilon, retain_graph=k + 1 < len(validation))  # type: ignore[arg-type]
            found.append(Influence(-self.learner.options.lr * slope.cpu().numpy(), float(loss.detach())))
        return found

    def _after(self, now: Parameters, x: Tensor, y: Tensor) -> Parameters:
        """Return the parameters after a step on samples x (b, …) of classes y (b,)."""
        gradient = torch.autograd.grad(self._losses(now, x, y).mean(), list(now.values()))
        return self._stepped(now, gradient)

    def _stepped(self, now: Parameters, gradient: Sequence[Tensor]) -> Parameters:
        lr = self.learner.options.lr
        return {name: (now[name] - lr * part).detach() for name, part in zip(now, gradient, strict=True)}

    def _losses(self, parameters: Parameters, x: Tensor, y: Tensor) -> Tensor:
        """Return the losses (n,) by other parameters; the running statistics move in copies."""
        network = self.learner.network
        copies = {name: value.clone() for name, value in network.named_buffers()}
        logits = functional_call(network, {**parameters, **copies}, (x,))
        return cross_entropy(logits, y, reduction="none")

    def _parameters(self) -> Parameters:
        return {name: value.detach().requires_grad_() for name, value in self.learner.network.named_parameters()}

    def _place(self, rows: Array) -> Tensor:
        return torch.from_numpy(rows).to(self.learner.device)

    def _plain(self, rows: Array) -> Tensor:
        return self.learner.plain(self._place(rows))

    def _classes(self, rows: Array) -> Tensor:
        return self.learner.samples.y[self._place(rows)]

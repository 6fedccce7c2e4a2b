"""A network with its samples and its optimiser: one step of training, and what it makes of samples."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from pdac_cli.arrays import Array
from pdac_cli.learning.data.augmentation import Augmenter
from pdac_cli.learning.data.samples import Samples
from pdac_cli.learning.devices import autocast
from pdac_cli.learning.extraction import Extractor
from pdac_cli.learning.networks.heads import Both
from pdac_cli.learning.networks.networks import FeatureNetwork
from pdac_cli.learning.parallel import Ranks, with_joint_norms
from pdac_cli.options.extract import Amp
from pdac_cli.options.train_cl import LearningOptions

_COLOURS = 3
_PASS_ROWS = 256  # rows of one pass without gradients


@dataclass
class Learner:
    """Trains `network` on `samples`, both on `device`."""

    network: nn.Module
    samples: Samples
    options: LearningOptions
    device: torch.device
    ranks: Ranks = field(default_factory=Ranks)

    def __post_init__(self) -> None:
        """Put the network on the device, ready to learn."""
        self.network.to(self.device).train()
        if self.options.channels_last:
            self.network.to(memory_format=torch.channels_last)
        if self.ranks.world > 1:
            with_joint_norms(self.network)
        self._both = self.ranks.wrapped(Both(self.network), self.device)
        self._optimizer = torch.optim.SGD(self.network.parameters(), self.options.lr)
        self._scaler = torch.amp.GradScaler(self.device.type, enabled=self.options.amp is Amp.FP16)
        self._augmenter = self._new_augmenter()
        self.classes = self.samples.y.cpu().numpy()  # (n,) of all training samples
        autocast(self.device, self.options.amp)  # refused now or never

    def step(
        self, rows: Array, rng: np.random.Generator, wanted: int, weight: Array | None = None
    ) -> tuple[Tensor, Array | None]:
        """Take one step on training rows (b,); return the loss and the features (wanted, D) of the first of them.

        The loss is the mean cross-entropy of the joint batch, whatever share of it this process has, or the sum by
        `weight` (b,).  The features are those of the pass that the step is made of: of the augmented rows, before the
        step.
        """
        share = self.ranks.part
        place = torch.from_numpy(rows).to(self.device)
        x, y = self.inputs(place, rng), self.samples.y[place[share]]
        with autocast(self.device, self.options.amp):
            h, logits = self._both(x)
            if weight is not None:
                loss = cross_entropy(logits, y, reduction="none") @ torch.from_numpy(weight).to(logits)
            elif self.ranks.world == 1:
                loss = cross_entropy(logits, y)
            else:  # gradients are averaged over the processes, so each gives its part of the joint mean that many times
                loss = cross_entropy(logits, y, reduction="sum") * (self.ranks.world / len(rows))
        self._optimizer.zero_grad()
        self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self._scaler.step(self._optimizer)
        self._scaler.update()
        joint = self.ranks.summed(loss.detach().double() / self.ranks.world)
        if not wanted:
            return joint, None
        mine = len(range(wanted)[share])
        return joint, self.ranks.gathered(h.detach()[:mine].float().cpu().numpy(), wanted)

    def outputs(self, rows: Array) -> tuple[Array, Array]:
        """Return features (n, D) and logits (n, C) of training rows (n,), not augmented, by the network as it is."""
        pairs = [(h.cpu().numpy(), logits.cpu().numpy()) for h, logits in self._passes(self.samples.x, rows)]
        return np.concatenate([h for h, _ in pairs]), np.concatenate([logits for _, logits in pairs])

    def look(self, rows: Array) -> tuple[Array, Array]:
        """Return what `outputs` does but for rounding, at once and without a copy of the network: for a few rows."""
        self.network.eval()
        with torch.inference_mode():
            h, logits = Both(self.network)(self.plain(torch.from_numpy(rows).to(self.device)))
        self.network.train()
        # The same in all processes, but for a network whose last bits differ from machine to machine.
        return self.ranks.shared((h.float().cpu().numpy(), logits.float().cpu().numpy()))

    def correct(self, rows: Array) -> Array:
        """Return which test rows (n,) are classified as what they are, among all classes: (n,) of bool."""
        found = torch.cat([logits.argmax(1) for _, logits in self._passes(self.samples.x_test, rows)])
        return (found == self.samples.y_test[torch.from_numpy(rows).to(self.device)]).cpu().numpy()

    def state(self) -> dict[str, Any]:
        """Return what the next step depends on, as tensors and plain values."""
        return {"network": self.network.state_dict(), "scaler": self._scaler.state_dict()}

    def find_problem(self, state: Any) -> str:
        """Return how a state differs from one of this learner; empty: in nothing that would stop `restore`."""
        own = self.state()
        if (
            not isinstance(state, dict)
            or set(state) != set(own)
            or not all(isinstance(v, dict) for v in state.values())
        ):
            return "its learner is of another kind"
        weights, expected = state["network"], own["network"]
        if set(weights) != set(expected):
            return "its network has other layers"
        for name, value in expected.items():
            if not isinstance(weights[name], Tensor) or weights[name].shape != value.shape:
                return f"its network differs in {name}"
        if set(state["scaler"]) != set(own["scaler"]):
            return "its scaler is of another kind"
        return ""

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state."""
        self.network.load_state_dict(state["network"])
        self._scaler.load_state_dict(state["scaler"])

    def plain(self, rows: Tensor) -> Tensor:
        """Return a batch as the network takes it, not augmented, the whole of it in every process."""
        return self.samples.x[rows] if self.samples.how is None else self.samples.how.standardise(self.samples.x[rows])

    def inputs(self, rows: Tensor, rng: np.random.Generator) -> Tensor:
        """Return this process's share of a batch as the network takes it, augmented."""
        if self._augmenter is None or self.samples.how is None:
            return self.samples.x[rows[self.ranks.part]]
        x = self.samples.how.standardise(self._augmenter.take(rows, rng, self.ranks.part))
        return x.contiguous(memory_format=torch.channels_last) if self.options.channels_last else x

    def _new_augmenter(self) -> Augmenter | None:
        if self.samples.how is None:
            return None
        x = self.samples.x
        pad = x.shape[-1] // 8 if self.options.pad is None else self.options.pad
        flip = x.shape[1] >= _COLOURS if self.options.flip is None else self.options.flip
        return Augmenter(x, pad, flip)

    def _passes(self, x: Tensor, rows: Array) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield features (b, D) and logits (b, C) of the rows in order: for images, as `pdac extract` does."""
        extractor = self._extractor()
        place = torch.from_numpy(rows).to(self.device)
        for part in torch.split(place, _PASS_ROWS):
            batch = x[part]
            if extractor is None:
                with torch.inference_mode():
                    yield batch, self.network(batch)
                continue
            missing = min(_PASS_ROWS, len(place)) - len(part)  # one shape for every pass, as in an extraction
            full = torch.cat([batch, batch.new_zeros((missing, *batch.shape[1:]))])
            h, logits = extractor.forward(full)
            yield h[: len(part)], logits[: len(part)]

    def _extractor(self) -> Extractor | None:
        """Return an extractor of the network as it stands; a copy, for it stops learning."""
        if self.samples.how is None:
            return None
        copy: Any = deepcopy(self.network).eval().requires_grad_(requires_grad=False)
        size = (self.samples.x.shape[-2], self.samples.x.shape[-1])
        network = FeatureNetwork(copy, copy.fc)
        return Extractor(network, self.samples.how, size, self.device, _PASS_ROWS, self.options.amp)


def set_threads(count: int) -> None:
    """Let torch share each operation on the CPU among so many threads."""
    torch.set_num_threads(count)

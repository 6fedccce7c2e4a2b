"""What a streaming method is given, and what it answers.

A method is up to three functions: `keep` updates the buffer by a batch that has arrived, `replay` names the stored rows
that a step of training takes beside the new ones, `weigh` weighs the rows of the step.  None of them knows how a
network is made: they ask a `Network`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.options.methods import MethodOptions
from pdac_cli.options.stream import Acceptance
from pdac_cli.rng import Purpose, generator
from pdac_cli.selection.streams.buffer import Buffer


class Look(Protocol):
    """Shows rows as a network has them now; handed down by whoever has the network."""

    def __call__(self, rows: Array, /) -> tuple[Array, Array]:
        """Return features (n, D) and logits (n, K), a column per label, of rows (n,)."""


@dataclass(frozen=True)
class Batch:
    """Rows of the stream that arrive together."""

    columns: dict[str, Array]  # what the buffer stores of a row, by its columns: (n, …) each
    h: Array  # (n, D) features
    logits: Array | None = None  # (n, K), where the method asks for them
    epsilon: Array | None = None  # (n,) Eq. (18), where the method asks for densities

    @property
    def y(self) -> Array:
        """Labels (n,)."""
        return self.columns["label"]

    def of(self, chosen: Array) -> Batch:
        """Return some of the rows: chosen (n,) of bool."""
        rest = [None if part is None else part[chosen] for part in (self.logits, self.epsilon)]
        return Batch({name: column[chosen] for name, column in self.columns.items()}, self.h[chosen], *rest)

    def __len__(self) -> int:
        return len(self.y)


@dataclass
class KeepContext:
    """All that `keep` may use and change."""

    buffer: Buffer
    seed: int
    look: Look  # at stored rows, by their slots (m,), as they are now
    acceptance: Acceptance = Acceptance.DENSITY
    settings: MethodOptions = field(default_factory=MethodOptions)
    memo: dict[str, Array] = field(default_factory=dict)  # what the method remembers beside the buffer
    temperature: float = 1.0  # T: how much the density counts
    steer: float = 0.0  # β: how much the rows kept already count
    again: bool = False  # whether the rows have come before: none of them may be stored twice

    def rng(self) -> np.random.Generator:
        """Return random numbers that are a function of the seed and the place in the stream."""
        return generator(self.seed, Purpose.KEEP, self.buffer.seen)


class Influence(NamedTuple):
    """What a little more weight on each row of a step does to the loss on some validation rows."""

    slope: Array  # (b,) d loss / dε of each row
    loss: float  # after the step


class Network(Protocol):
    """What a method may ask of the network before a step; rows are positions among the training samples."""

    def look(self, rows: Array) -> tuple[Array, Array]:
        """Return features (n, D) and logits (n, C) of rows (n,), not augmented, by the running statistics."""

    def losses(self, rows: Array, step: Array) -> tuple[Array, Array]:
        """Return the losses (n,) of rows now, and after a virtual step of plain SGD on the rows `step`."""

    def influences(self, rows: Array, validation: Sequence[Array]) -> list[Influence]:
        """Return the influence of the rows (b,) of the coming step on each set of validation rows."""


@dataclass(frozen=True)
class Step:
    """A step of training about to be made; rows are positions among the training samples."""

    new: Array  # (b,) that have come
    stored: Array  # (m,) of the buffer
    earlier: Array  # (m,) which of them are of earlier tasks
    y: Array  # (n,) classes of all training samples
    count: int  # replay at most so many
    rng: np.random.Generator
    network: Network
    settings: MethodOptions = field(default_factory=MethodOptions)


class Weights(NamedTuple):
    """How the rows of a step count."""

    weight: Array  # (b,) not negative, 1 in all
    score: Array  # (b,) by which the method may keep the new ones


Keep = Callable[[KeepContext, Batch], None]
Replay = Callable[[Step], Array]  # rows of `stored`, at most `count`, each once
Weigh = Callable[[Step, Array], Weights]  # of the step's rows (b,): the new ones, then the replayed ones


@dataclass(frozen=True)
class StreamingMethod:
    """One entry of the table."""

    keep: Keep
    replay: Replay
    weigh: Weigh | None = None  # None: all rows alike
    needs_density: bool = False
    needs_features: bool = False
    needs_logits: bool = False
    looks_at_stored: bool = False  # compares new rows with stored ones, both as the network has them now
    columns: tuple[str, ...] = ()  # per-row numbers of its own, kept beside each stored row
    knows_stored: bool = False  # is offered rows again that it has stored, and stores none of them twice
    is_steered: bool = False  # has --steer and the relative density
    is_reference: bool = False  # what others are compared with: all rows alike
    needs_network: str = ""  # what it asks of a network that learns, for messages; empty: `pdac stream` has it too

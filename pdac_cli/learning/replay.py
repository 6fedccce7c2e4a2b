"""Replay in anyone's training loop: a buffer of stored samples, subsets, and batches of new and stored rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, Sampler, Subset

from pdac_cli.arrays import Array
from pdac_cli.errors import DataError, ModelError, UsageError

RowSubset = Subset[Any]


class Keeps(Protocol):
    """What a buffer asks of its selector: `StreamingSelector` is one."""

    budget: int

    @property
    def buffer_(self) -> Any:
        """The rows kept, by their `ids`."""

    def partial_fit(self, X: Any, y: Any, ids: Any, *, logits: Any = None) -> Any:
        """Take in rows."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that it knows."""

    def load_state_dict(self, state: Mapping[str, Any]) -> Any:
        """Go back to a state."""


class ReplayBuffer:
    """The samples that a selector keeps, as tensors, ready to be replayed.

    Parameters
    ----------
    selector : StreamingSelector
        Which rows are kept.
    device : str or torch.device
        Where the stored samples are.
    seed : int
        Of the samples drawn.

    Examples
    --------
    >>> import torch
    >>> from pdac_cli import ReplayBuffer, StreamingSelector
    >>> buffer = ReplayBuffer(StreamingSelector(budget=50))
    >>> for _ in range(10):
    ...     images, labels = torch.randn(32, 3, 8, 8), torch.randint(0, 5, (32,))
    ...     buffer.add(images, labels, features=images.mean(dim=(2, 3)))
    >>> stored_images, stored_labels = buffer.sample(16)
    >>> stored_images.shape, len(buffer)
    (torch.Size([16, 3, 8, 8]), 50)
    """

    def __init__(self, selector: Keeps, *, device: str | torch.device = "cpu", seed: int = 0) -> None:
        self.selector, self.device = selector, torch.device(device)
        self._generator = torch.Generator().manual_seed(seed)
        self._columns: tuple[Tensor, ...] = ()  # (m, …) each: samples, labels, and what else is added
        self._ids = np.empty(0, np.int64)  # (m,) their numbers in the stream
        self._seen = 0

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, samples: Tensor, labels: Tensor, *more: Tensor, features: Any = None, logits: Any = None) -> None:
        """Offer a batch: samples (n, …), labels (n,), anything else to be stored with them, (n, …) each.

        `features` (n, D) are what the selector sees; by default the samples themselves, flattened.
        """
        batch = (samples, labels, *more)
        sizes = {len(column) for column in batch}
        if len(sizes) > 1:
            raise DataError(f"the batch has columns of {sorted(sizes)} rows; expected as many in each")
        if self._columns and len(self._columns) != len(batch):
            raise DataError(f"the batch has {len(batch)} columns, the buffer {len(self._columns)}; expected as many")
        seen = samples.flatten(1) if features is None else features
        ids = np.arange(self._seen, self._seen + len(samples))
        self.selector.partial_fit(seen, labels, ids, logits=logits)
        self._seen += len(samples)
        self._take(np.sort(np.asarray(self.selector.buffer_.ids)), ids, batch)

    def sample(self, count: int) -> tuple[Tensor, ...]:
        """Draw stored rows, each at most once: samples (m, …), labels (m,), …, with m = min(count, stored rows)."""
        if not len(self):
            raise UsageError("the buffer holds no row yet; expected some; call add first")
        chosen = torch.randperm(len(self), generator=self._generator)[:count].to(self.device)
        return tuple(column[chosen] for column in self._columns)

    def all(self) -> tuple[Tensor, ...]:
        """Return all stored rows in the order of their arrival."""
        return self._columns

    def to(self, device: str | torch.device) -> Self:
        """Move the stored samples."""
        self.device = torch.device(device)
        self._columns = tuple(column.to(self.device) for column in self._columns)
        return self

    def state_dict(self) -> dict[str, Any]:
        """Return the stored samples and all that the selector knows."""
        return {
            "columns": list(self._columns), "ids": torch.from_numpy(self._ids), "seen": self._seen,
            "generator": self._generator.get_state(), "selector": _tensors(self.selector.state_dict()),
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a state."""
        try:
            columns, ids = [column.to(self.device) for column in state["columns"]], state["ids"].numpy()
            seen, generator, selector = int(state["seen"]), state["generator"], _arrays(state["selector"])
        except (KeyError, AttributeError, TypeError, ValueError) as problem:
            raise ModelError(f"the state cannot be read ({problem!r}); expected one of state_dict()") from problem
        if any(len(column) != len(ids) for column in columns):
            raise ModelError("the state cannot be read (its columns differ in length); expected one of state_dict()")
        self.selector.load_state_dict(selector)
        self._generator.set_state(generator)
        self._columns, self._ids, self._seen = tuple(columns), ids, seen

    def _take(self, kept: Array, ids: Array, batch: Sequence[Tensor]) -> None:
        """Drop the rows that have gone and append those of the batch that have entered: kept (m,) ascending."""
        stay = np.isin(self._ids, kept, assume_unique=True)
        enter = np.isin(ids, kept, assume_unique=True)
        if stay.all() and not enter.any():
            return
        new = [column.detach()[torch.from_numpy(enter).to(column.device)].to(self.device) for column in batch]
        if self._columns:
            old = torch.from_numpy(stay).to(self.device)
            new = [torch.cat([mine[old], one]) for mine, one in zip(self._columns, new, strict=True)]
        self._columns, self._ids = tuple(new), np.concatenate([self._ids[stay], ids[enter]])


class ReplayBatchSampler(Sampler[list[int]]):
    """Batches of new rows with stored rows beside them, for ``DataLoader(dataset, batch_sampler=…)``.

    Parameters
    ----------
    new : sequence of int
        The rows to go through once an epoch, in random order.
    stored : sequence of int
        The rows to replay.
    batch_size, n_stored : int
        New rows, and stored rows, of each batch.
    seed : int
        Of the orders drawn; every epoch has its own.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> from pdac_cli import ReplayBatchSampler
    >>> data = TensorDataset(torch.arange(100))
    >>> batches = ReplayBatchSampler(new=range(60, 100), stored=range(10), batch_size=8, n_stored=4)
    >>> [len(batch) for (batch,) in DataLoader(data, batch_sampler=batches)]
    [12, 12, 12, 12, 12]
    """

    def __init__(
        self, new: Sequence[int], stored: Sequence[int], *, batch_size: int, n_stored: int, seed: int = 0
    ) -> None:
        for name, value, least in (("batch_size", batch_size, 1), ("n_stored", n_stored, 0)):
            if value < least:
                raise UsageError(f"{name} is {value}; expected at least {least}")
        self.new, self.stored = torch.as_tensor(new), torch.as_tensor(stored)
        self.batch_size, self.n_stored, self.seed, self.epoch = batch_size, n_stored, seed, 0

    def __len__(self) -> int:
        return -(-len(self.new) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        """Yield each batch's rows: new ones, then stored ones, drawn anew for every batch."""
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        self.epoch += 1
        order = self.new[torch.randperm(len(self.new), generator=generator)]
        for part in torch.split(order, self.batch_size):
            drawn = torch.randperm(len(self.stored), generator=generator)[: self.n_stored]
            yield [*part.tolist(), *self.stored[drawn].tolist()]


def subset_of(dataset: Dataset[Any], rows: Array) -> RowSubset:
    """Return the rows of a data set: (m,)."""
    return Subset(dataset, rows.tolist())


def _tensors(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays of numbers as tensors, so that `torch.load` reads them with nothing but weights allowed."""
    return {
        name: torch.from_numpy(value) if isinstance(value, np.ndarray) and value.dtype.kind in "iuf" else value
        for name, value in state.items()
    }


def _arrays(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.numpy() if isinstance(value, Tensor) else value for name, value in state.items()}

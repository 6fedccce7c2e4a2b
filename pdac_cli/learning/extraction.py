"""The loop from images to features: decoding in threads ahead of the network, one shape for every batch.

Which rows share a batch depends on their positions alone, and a batch that is not full is filled up with zeros.  So
every pass through the network has the same shape, and an image's features do not depend on where a run was stopped,
on how many shards it was cut into or on an unreadable neighbour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdac_cli.errors import DataError, UsageError
from pdac_cli.learning.data.images import Bad, Images, Loaded, Size
from pdac_cli.learning.data.preprocessing import Preprocessing
from pdac_cli.learning.devices import autocast, device_errors
from pdac_cli.learning.networks.networks import FeatureNetwork
from pdac_cli.options.extract import Amp, StoredType

_AHEAD = 2  # batches decoded beyond one per worker, so that the network does not wait while workers finish together


@dataclass(frozen=True)
class ExtractedBatch:
    """What the network made of the images of rows start to stop; those that cannot be read are left out."""

    start: int
    stop: int
    rows: NDArray[np.int64]  # (m,)
    h: NDArray[Any]  # (m, D)
    logits: NDArray[Any]  # (m, K)
    bad: tuple[Bad, ...]


@dataclass(frozen=True)
class Extractor:
    """A network with all that decides what it makes of an image."""

    network: FeatureNetwork
    how: Preprocessing
    size: Size  # of the images as the network sees them
    device: torch.device
    batch_size: int
    amp: Amp = Amp.OFF
    dtype: StoredType = StoredType.FLOAT32
    workers: int = 1
    keeps_logits: bool = True

    def check(self) -> None:
        """Refuse, before long work, images that the network cannot take, and mixed precision that is not there."""
        autocast(self.device, self.amp)
        try:
            with torch.inference_mode():
                self.network(torch.zeros(1, self.how.channels, *self.size))
        except (RuntimeError, AssertionError, ValueError) as problem:
            reason = " ".join(str(problem).split())[:120]
            raise UsageError(
                f"the network cannot take images of {self.size[0]}x{self.size[1]} pixels ({reason}); "
                "expected its own size; set it with --resize and --crop"
            ) from None

    def batches(self, images: Images, start: int, stop: int) -> Generator[ExtractedBatch]:
        """Run over the rows ``start`` to ``stop``, in order, in batches that begin where those of all rows do."""
        self.network.to(self.device)
        for parameter in self.network.parameters():
            if parameter.ndim == 4:  # rows of pixels with their channels together suit convolutions best
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
        # A GPU is given its next batch before the results of the last are fetched, so that it never waits.
        late = 0 if self.device.type == "cpu" else 1
        launched: deque[tuple[int, Loaded, Tensor, Tensor]] = deque()
        with ThreadPoolExecutor(self.workers, "decode") as pool:
            try:
                for first, loaded in self._decoded(pool, images, start - start % self.batch_size, stop):
                    launched.append((first, loaded, *self.forward(loaded.x)))
                    if len(launched) > late:
                        yield self._collected(images, (start, stop), *launched.popleft())
                for results in launched:
                    yield self._collected(images, (start, stop), *results)
            finally:
                pool.shutdown(cancel_futures=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return features (b, D) and logits (b, K) of a full batch x (b, channels, h, w), on the device."""
        reproducible = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
        with torch.inference_mode(), device_errors(self.batch_size), reproducible, autocast(self.device, self.amp):
            x = self.how.standardise(x.to(self.device, non_blocking=True))
            h, logits = self.network(x.contiguous(memory_format=torch.channels_last))
            return h.float(), logits.float()

    def _decoded(self, pool: ThreadPoolExecutor, images: Images, start: int, stop: int) -> Iterator[tuple[int, Loaded]]:
        """Yield batches in order, with a few more under way."""
        queue: deque[tuple[int, Future[Loaded]]] = deque()
        for first in range(start, stop, self.batch_size):
            last = min(
                len(images.labels), first + self.batch_size
            )  # others' rows too: a batch is the same in any shard
            queue.append((first, pool.submit(self._load, images, first, last)))
            if len(queue) > self.workers + _AHEAD:
                first, future = queue.popleft()
                yield first, future.result()
        for first, future in queue:
            yield first, future.result()

    def _load(self, images: Images, start: int, stop: int) -> Loaded:
        loaded = images.load(start, stop, self.how, self.size)
        x, missing = loaded.x, self.batch_size - len(loaded.x)
        if missing:
            x = torch.cat([x, x.new_zeros((missing, *x.shape[1:]))])
        return Loaded(x.pin_memory() if self.device.type == "cuda" else x, loaded.bad)

    def _collected(
        self, images: Images, wanted: tuple[int, int], first: int, loaded: Loaded, h: Tensor, logits: Tensor
    ) -> ExtractedBatch:
        start, stop = max(wanted[0], first), min(wanted[1], first + self.batch_size)
        bad = tuple(bad for bad in loaded.bad if start <= bad.row < stop)
        left_out = {bad.row for bad in bad}
        rows = np.array([row for row in range(start, stop) if row not in left_out], np.int64)
        logits = logits if self.keeps_logits else logits[:, :0]
        columns = [self._stored(images, rows, name, x) for name, x in (("features", h), ("logits", logits))]
        return ExtractedBatch(start, stop, rows, columns[0], columns[1], bad)

    def _stored(self, images: Images, rows: NDArray[np.int64], name: str, x: Tensor) -> NDArray[Any]:
        """The rows' values in the type of the file; refuse what is not finite there."""
        values = x.cpu().numpy()[rows % self.batch_size]
        with np.errstate(over="ignore"):
            cast = values.astype(self.dtype.value)
        lost = ~np.isfinite(cast).all(axis=1)
        if lost.any():
            row = int(np.argmax(lost))
            image = images.ids[rows[row]].decode("utf-8", "replace")
            largest = np.abs(values[row]).max()
            if np.isfinite(largest):
                raise DataError(
                    f"{image}: {name} reach {largest:,.6g}; expected at most {np.finfo(cast.dtype).max:,.6g}, "
                    f"the largest {self.dtype.value}; use --dtype float32"
                )
            raise DataError(
                f"{image}: {name} are not finite; expected numbers; check the checkpoint"
                + (", or leave --amp out" if self.amp is not Amp.OFF else " and the preprocessing")
            )
        return cast

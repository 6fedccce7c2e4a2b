"""A container made of arrays by name, which most formats are, and arrays made of others: joined, or widened."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.formats.row_arrays import RowArray
from pdac_cli.storage.reading import quote, shape_text

_MAX_LISTED = 12


class NamedArrays:
    """A container whose arrays are opened when they are asked for."""

    def __init__(
        self,
        path: Path,
        files: Sequence[Path],
        arrays: Mapping[str, Callable[[], RowArray]],
        close: Callable[[], object] = lambda: None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        self.path, self._files, self._arrays, self._close = path, list(files), arrays, close
        self._aliases = aliases or {}

    def files(self) -> list[Path]:
        """Every file that is read."""
        return self._files

    def names(self) -> list[str]:
        """What the arrays are called."""
        return [*self._arrays, *(name for name in self._aliases if name not in self._arrays)]

    def describe(self) -> str:
        """What it holds, for messages."""
        parts = []
        for name in islice(self._arrays, _MAX_LISTED):
            shape = ""
            with suppress(DataError):
                shape = f" {shape_text(self._arrays[name]().shape)}"
            parts.append(quote(name) + shape)
        more = len(self._arrays) - _MAX_LISTED
        return ", ".join([*parts, *([f"and {more:,} more"] if more > 0 else [])]) or "no arrays"

    def get(self, key: str) -> RowArray:
        """The array of that name."""
        name = key if key in self._arrays else self._aliases.get(key, key)
        if name not in self._arrays:
            raise DataError(
                f"{self.path}: has no array {quote(key)}; expected one of those it holds: {self.describe()}; "
                "name it with --features-key or --labels-key"
            )
        return self._arrays[name]()

    def close(self) -> None:
        """Let go of the files."""
        self._close()


class JoinedArray:
    """Arrays of one width, one after the other."""

    def __init__(self, arrays: Sequence[RowArray], places: Sequence[Path], key: str) -> None:
        first = arrays[0]
        for array, path in zip(arrays, places, strict=True):
            if array.shape[1:] != first.shape[1:] or array.dtype.kind != first.dtype.kind:
                raise DataError(
                    f"{path}: {quote(key)} is {array.dtype} {shape_text(array.shape)}, in {places[0].name} it is "
                    f"{first.dtype} {shape_text(first.shape)}; expected arrays of one kind and width; "
                    "give files of one extraction"
                )
        self._arrays = list(arrays)
        self._ends = list(accumulate(array.shape[0] for array in arrays))
        self.shape = (self._ends[-1], *first.shape[1:])
        kinds = {array.dtype for array in arrays}
        self.dtype: np.dtype[Any] = first.dtype if len(kinds) == 1 else np.result_type(*kinds)
        self.step = first.step

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …)."""
        found = []
        k = bisect_right(self._ends, start)
        at = start
        while at < stop:
            begin = self._ends[k] - self._arrays[k].shape[0]
            end = min(stop, self._ends[k])
            if end > at:
                found.append(self._arrays[k].read(at - begin, end - begin))
            at, k = end, k + 1
        if not found:
            return self._arrays[0].read(0, 0)
        return found[0] if len(found) == 1 else np.concatenate(found)


class Bfloat16Array:
    """Numbers of the upper halves of float32, stored as 16-bit integers; read as float32, which holds them all."""

    def __init__(self, array: RowArray) -> None:
        self._array = array
        self.shape, self.dtype, self.step = array.shape, np.dtype(np.float32), array.step

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop, (stop − start, …)."""
        found: NDArray[Any] = (self._array.read(start, stop).astype(np.uint32) << 16).view(np.float32)
        return found

"""What HDF5 unpacks: filters and chunks, held to what they declare before HDF5 allocates what they turn into.

A chunk is unpacked whole and to whatever size its bytes say, so a file of a few kilobytes could take all memory.
"""

from __future__ import annotations

import importlib
import itertools
import math
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pdac_cli.console import size_text
from pdac_cli.errors import DataError
from pdac_cli.files.formats.chunk_sizes import BITSHUFFLE, BOUNDED, MOST_RATIO, unpacks_to_more
from pdac_cli.storage.reading import quote, reading

SHUFFLE, FLETCHER32, NBIT, SCALEOFFSET = 2, 3, 5, 6
_PLUGINS = {
    32000: "lzf",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32017: "sz",
    32026: "blosc2",
}
_NO_LARGER = (SHUFFLE, FLETCHER32, NBIT, SCALEOFFSET)  # what these make has a size that is known beforehand
_HARMLESS_BYTES = 1 << 24  # a chunk that cannot become larger than this need not be looked at
_REMEMBERED = 1 << 26  # rows of chunks that need not be looked at again
_BITSHUFFLE_OPTION = 4  # which of its parameters says how it compresses
_SLACK_BYTES = 4096  # headers and checksums of chunks that could not be made smaller

Filter = tuple[int, tuple[int, ...], str]  # number, parameters, name


@dataclass(frozen=True)
class Packing:
    """How the values of a dataset are cut and packed."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...] | None
    itemsize: int
    filters: tuple[Filter, ...]

    @property
    def chunk_bytes(self) -> int:
        """Bytes of one chunk, unpacked; 0 for a dataset that is not chunked."""
        return math.prod(self.chunks) * self.itemsize if self.chunks else 0

    @property
    def codes(self) -> list[int]:
        """The filters' numbers, in the order in which they were applied."""
        return [code for code, _, _ in self.filters]


def packing_of(dataset: h5py.Dataset, path: Path, key: str) -> Packing:
    """Ask HDF5 how a dataset is packed."""
    with reading(path, quote(key)):
        plist = dataset.id.get_create_plist()
        found = [plist.get_filter(i) for i in range(plist.get_nfilters())]
        filters = [(code, tuple(values), name.decode(errors="replace")) for code, _, values, name in found]
        return Packing(dataset.shape, dataset.chunks, dataset.id.get_type().get_size(), tuple(filters))


def check_filters(packing: Packing, path: Path, key: str, most: int) -> None:
    """Refuse filters that are missing, or that could make more of a chunk than it declares, and chunks over `most`."""
    for code, _, label in packing.filters:
        if not _available(code):
            name = _PLUGINS.get(code) or label or "unknown"
            raise DataError(
                f"{path}: {quote(key)} is compressed by {quote(name)} (filter {code}), not installed here; "
                "expected one that HDF5 has; pip install hdf5plugin, or repack the file with gzip"
            )
        if code not in (*BOUNDED, *_NO_LARGER):
            raise DataError(
                f"{path}: {quote(key)} is compressed by {quote(_PLUGINS.get(code) or label or 'unknown')} (filter "
                f"{code}), whose chunks may unpack to any size; expected one of HDF5's, lzf, blosc, lz4, bitshuffle or "
                "zstd; repack the file with gzip (h5repack -f GZIP=4)"
            )
    _check_order(packing, path, key)
    _check_parameters(packing, path, key)
    size = packing.chunk_bytes
    if packing.filters and size > most:
        raise DataError(
            f"{path}: {quote(key)} is compressed in chunks of {size_text(size)}, unpacked only whole; "
            f"expected at most {size_text(most)}; repack it in smaller ones (h5repack -l), or raise --memory"
        )


def _available(code: int) -> bool:
    if not h5py.h5z.filter_avail(code):
        with suppress(ImportError):
            importlib.import_module("hdf5plugin")  # its import makes its filters known
    return bool(h5py.h5z.filter_avail(code))


def _check_order(packing: Packing, path: Path, key: str) -> None:
    """Accept one compression, with checksums after it and rearrangements before it: two would multiply."""
    codes = packing.codes
    packed = [k for k, code in enumerate(codes) if code not in _NO_LARGER]
    after = codes[packed[0] + 1 :] if packed else []
    if len(set(codes)) < len(codes) or len(packed) > 1 or set(after) - {FLETCHER32}:
        raise DataError(
            f"{path}: {quote(key)} is packed by the filters {', '.join(map(str, codes))} one after the other; expected "
            "each once and one compression at the end; repack it with gzip alone (h5repack -f GZIP=4)"
        )


def _check_parameters(packing: Packing, path: Path, key: str) -> None:
    """Refuse filters that would make another number of bytes than a chunk has: they take it from the file."""
    for code, values, _ in packing.filters:
        if code in (NBIT, SCALEOFFSET):
            made = values[2] * values[4] if len(values) > 4 else 0  # elements times their size
            if made != packing.chunk_bytes:
                raise DataError(
                    f"{path}: {quote(key)} has chunks of {packing.chunk_bytes:,} bytes and a filter that makes {made:,}"
                    "; expected as many; write it again"
                )


class ChunkCheck:
    """Looks at the chunks of a dataset before HDF5 unpacks them, at each once."""

    def __init__(self, dataset: h5py.Dataset, packing: Packing, path: Path, key: str) -> None:
        self._dataset, self._packing, self._path, self._key = dataset, packing, path, key
        self._step = packing.chunks[0] if packing.filters and packing.chunks else 0
        rows = -(-packing.shape[0] // self._step) if self._step else 0
        self._seen = np.zeros(min(rows, _REMEMBERED), bool)  # by rows of chunks

    def check(self, start: int, stop: int) -> None:
        """Refuse rows start to stop if one of their chunks is stored in, or becomes, more bytes than it declares."""
        for row in range(start // self._step, -(-stop // self._step)) if self._step else ():
            if row >= _REMEMBERED or not self._seen[row]:
                for place in self._places(row * self._step):
                    self._check_chunk(place)
                self._seen[row : row + 1] = True

    def _places(self, first: int) -> Any:
        """Where the chunks begin that hold a row."""
        packing = self._packing
        others = zip(packing.shape[1:], (packing.chunks or ())[1:], strict=True)
        return itertools.product([first], *(range(0, size, step) for size, step in others))

    def _check_chunk(self, place: tuple[int, ...]) -> None:
        with reading(self._path, quote(self._key)):
            stored = self._dataset.id.get_chunk_info_by_coord(place).size or 0
        size = self._packing.chunk_bytes
        if stored > size + size // 8 + _SLACK_BYTES:
            raise self._error(place, f"is stored in {stored:,} bytes and declares {size:,}")
        compression = next((code for code in self._packing.codes if code in BOUNDED), None)
        if compression is None or stored * MOST_RATIO.get(compression, math.inf) <= max(_HARMLESS_BYTES, size):
            return
        with reading(self._path, quote(self._key)):
            skipped, raw = self._dataset.id.read_direct_chunk(place)
        k = self._packing.codes.index(compression)
        if skipped >> k & 1:
            return  # it could not be made smaller and is stored as it is
        if compression == BITSHUFFLE and not _is_packed(self._packing.filters[k]):
            return
        if unpacks_to_more(compression, raw, size):
            raise self._error(place, f"unpacks to more than the {size:,} bytes it declares")

    def _error(self, place: tuple[int, ...], found: str) -> DataError:
        return DataError(
            f"{self._path}: the chunk of {quote(self._key)} at {place} {found}; expected no more than that; "
            "write the file again"
        )


def _is_packed(bitshuffle: Filter) -> bool:
    """Whether bitshuffle also compresses; otherwise it only rearranges, and the chunk has no header."""
    values = bitshuffle[1]
    return len(values) > _BITSHUFFLE_OPTION and values[_BITSHUFFLE_OPTION] != 0

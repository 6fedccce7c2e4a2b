"""How many bytes a compressed chunk unpacks to, read from the chunk itself before HDF5 allocates anything.

The filters of HDF5 allocate what a chunk's header claims, or go on allocating until the chunk ends.  Each function here
answers for one filter; a filter without one cannot be bounded and is refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress

DEFLATE, SZIP, LZF, BLOSC, LZ4, BITSHUFFLE, ZSTD = 1, 4, 32000, 32001, 32004, 32008, 32015
MOST_RATIO = {DEFLATE: 1032, LZF: 90}  # what unpacks to at most so many times its size need not always be looked at
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_UNKNOWN = 1 << 64
_LITERALS, _LONG = 32, 7  # of LZF: a control byte below it counts literals; a length that is continued


def unpacks_to_more(code: int, raw: bytes, size: int) -> bool:
    """Whether a chunk packed by this filter becomes more than `size` bytes."""
    return _BY_FILTER[code](raw, size)


def _by_claim(claim: Callable[[bytes], int]) -> Callable[[bytes, int], bool]:
    return lambda raw, size: claim(raw) > size


def _deflate(raw: bytes, size: int) -> bool:
    """Unpack piece by piece and count; of a damaged chunk HDF5 will tell."""
    stream, left = zlib.decompressobj(), size
    with suppress(zlib.error):
        while raw and left >= 0 and not stream.eof:
            left -= len(stream.decompress(raw, min(left + 1, 1 << 20)))
            raw = stream.unconsumed_tail
    return left < 0


def _lzf(raw: bytes, size: int) -> bool:
    """Add up the lengths of LZF's literals and references, without the bytes themselves."""
    at, made, end = 0, 0, len(raw)
    while at < end and made <= size:
        control = raw[at]
        if control < _LITERALS:
            made += control + 1
            at += control + 2
        else:
            length = control >> 5
            if length == _LONG:
                at += 1
                length += raw[at] if at < end else 0
            made += length + 2
            at += 2
    return made > size


def _zstd(raw: bytes) -> int:
    """Return a Zstandard frame's content size (RFC 8878, 3.1.1.1), which its HDF5 filter allocates."""
    if len(raw) < 5 or raw[:4] != _ZSTD_MAGIC:
        return _UNKNOWN
    flags = raw[4]
    single = flags >> 5 & 1
    at = 5 + (1 - single) + (0, 1, 2, 4)[flags & 3]
    width = (single, 2, 4, 8)[flags >> 6]
    if not width or len(raw) < at + width:
        return _UNKNOWN
    return int.from_bytes(raw[at : at + width], "little") + (256 if width == 2 else 0)


_BY_FILTER: Mapping[int, Callable[[bytes, int], bool]] = {
    DEFLATE: _deflate,
    LZF: _lzf,
    SZIP: _by_claim(lambda raw: int.from_bytes(raw[:4], "little")),
    BLOSC: _by_claim(lambda raw: int.from_bytes(raw[4:8], "little")),  # header: 4 bytes, then nbytes
    LZ4: _by_claim(lambda raw: int.from_bytes(raw[:8], "big")),
    BITSHUFFLE: _by_claim(lambda raw: int.from_bytes(raw[:8], "big")),
    ZSTD: _by_claim(_zstd),
}
BOUNDED = frozenset(_BY_FILTER)

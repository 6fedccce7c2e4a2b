"""What a packed chunk says it becomes: by the formats' own definitions, and by files that HDF5 wrote."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from pdac_cli.errors import DataError
from pdac_cli.files.features import open_features
from pdac_cli.files.formats.chunk_sizes import (
    BITSHUFFLE,
    BLOSC,
    BOUNDED,
    DEFLATE,
    LZ4,
    LZF,
    SZIP,
    ZSTD,
    unpacks_to_more,
)
from pdac_cli.files.formats.hdf5_chunks import Packing, check_filters
from pdac_cli.options.shared import InputOptions

SIZE = 70_000
MAGIC = b"\x28\xb5\x2f\xfd"


def frames(size: int) -> dict[str, tuple[int, bytes]]:
    """The header of each format for a chunk of `size` bytes."""
    return {
        "szip": (SZIP, struct.pack("<I", size)),
        "blosc": (BLOSC, struct.pack("<BBBBIII", 2, 1, 1, 4, size, 1 << 15, 99)),
        "lz4": (LZ4, struct.pack(">QI", size, 1 << 15)),
        "bitshuffle": (BITSHUFFLE, struct.pack(">QI", size, 1 << 13)),
        "zstd, 4 bytes": (ZSTD, MAGIC + b"\x80\x00" + struct.pack("<I", size)),
        "zstd, 4 bytes, one segment": (ZSTD, MAGIC + b"\xa0" + struct.pack("<I", size)),
        "zstd, 8 bytes and a dictionary": (ZSTD, MAGIC + b"\xc3\x00\x01\x02\x03\x04" + struct.pack("<Q", size)),
        "deflate": (DEFLATE, zlib.compress(bytes(size))),
    }


@pytest.mark.parametrize("name", list(frames(0)))
def test_a_chunk_is_held_to_the_bytes_it_declares(name: str) -> None:
    code, raw = frames(SIZE)[name]
    assert not unpacks_to_more(code, raw, SIZE)
    assert unpacks_to_more(code, raw, SIZE - 1)


def test_small_zstandard_frames_have_an_offset_and_some_no_size() -> None:
    raw = MAGIC + b"\x60" + struct.pack("<H", 44)  # two bytes count from 256
    assert not unpacks_to_more(ZSTD, raw, 300)
    assert unpacks_to_more(ZSTD, raw, 299)
    for unknown in (b"", b"not a frame", MAGIC + b"\x00\x00", MAGIC + b"\xc0\x00\x01"):
        assert unpacks_to_more(ZSTD, unknown, 1 << 40)


@pytest.mark.parametrize("seed", range(4))
def test_lengths_of_lzf_are_those_of_what_hdf5_packs(seed: int, tmp_path: Path) -> None:
    values = np.random.default_rng(seed).integers(0, 2 + 3**seed, (1, SIZE)).astype("u1")
    with h5py.File(tmp_path / "f.h5", "w") as file:
        raw = file.create_dataset("x", data=values, chunks=(1, SIZE), compression="lzf").id.read_direct_chunk((0, 0))[1]
    assert len(raw) < SIZE
    assert not unpacks_to_more(LZF, raw, SIZE)
    assert unpacks_to_more(LZF, raw, SIZE - 1)


def test_an_lzf_chunk_that_grows_is_refused_before_hdf5_unpacks_it(tmp_path: Path) -> None:
    large, rows, columns = 1 << 25, 1024, 256
    with h5py.File(tmp_path / "a.h5", "w") as file:
        packed = file.create_dataset("x", (1, large), "u1", chunks=(1, large), compression="lzf")
        packed[:] = 0
        raw = packed.id.read_direct_chunk((0, 0))[1]
    with h5py.File(tmp_path / "f.h5", "w") as file:
        made = file.create_dataset("features", (rows, columns), "f4", chunks=(rows, columns), compression="lzf")
        made.id.write_direct_chunk((0, 0), raw)
        file["labels"] = np.arange(rows) % 2
    with (
        open_features(InputOptions(paths=(str(tmp_path / "f.h5"),))) as features,
        pytest.raises(DataError, match="unpacks to more than the 1,048,576 bytes it declares"),
    ):
        list(features.chunks(64))


def test_a_filter_that_cannot_be_bounded_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdac_cli.files.formats.hdf5_chunks._available", lambda _: True)
    for code in (*BOUNDED, 32013, 32026, 40000):
        packing = Packing((10, 4), (10, 4), 4, ((code, (), "made up"),))
        if code in BOUNDED:
            check_filters(packing, Path("f.h5"), "features", 1 << 20)
        else:
            with pytest.raises(DataError, match=rf"filter {code}\), whose chunks may unpack to any size; expected"):
                check_filters(packing, Path("f.h5"), "features", 1 << 20)

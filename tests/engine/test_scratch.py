import os

import numpy as np
import pytest

from pdac_cli.engine import scratch
from pdac_cli.errors import StorageError


def test_arrays_above_the_limit_lie_in_a_file_without_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    allocate = scratch.allocator(8 * 100)
    small, large = allocate((10, 10)), allocate((10, 11))
    assert not isinstance(small, np.memmap)
    assert isinstance(large, np.memmap)
    assert large.dtype == np.float64
    assert not large.any()
    large[3, 4] = 7.0
    assert large.sum() == 7.0
    assert not list(tmp_path.iterdir())


def test_what_is_written_at_a_place_is_read_there():
    with scratch.scratch_file(1000) as file:
        scratch.write_at(file, memoryview(b"abcdef"), 500)
        scratch.write_at(file, memoryview(b"XY"), 502)
        into = bytearray(6)
        scratch.read_at(file, memoryview(into), 500)
    assert bytes(into) == b"abXYef"


def test_a_disk_that_fills_up_is_said_to_be_full(monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(scratch.os, "pwrite", full)
    with scratch.scratch_file(10) as file, pytest.raises(StorageError, match="no space left on device; set TMPDIR"):
        scratch.write_at(file, memoryview(b"abc"), 0)

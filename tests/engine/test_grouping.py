from dataclasses import dataclass, replace

import numpy as np
import pytest

from pdac_cli.engine import grouping, scratch
from pdac_cli.engine.sources import MemorySource
from pdac_cli.errors import StorageError
from tests.engine.rows import PLAN, SCRATCH, classes_of


@pytest.mark.parametrize("plan", [PLAN, SCRATCH])
@pytest.mark.parametrize("chunk_rows", [1, 97, 5000])
def test_grouped_rows_are_each_classs_in_order(source, plan, chunk_rows):
    with grouping.grouped(source, classes_of(source), replace(plan, chunk_rows=chunk_rows)) as stored:
        assert [rows.label for rows in stored] == [2, 3, 7, 40]
        for rows in stored:
            expected = source.h[source.y == rows.label]
            assert (rows.count, rows.n_features, rows.dtype) == (len(expected), 20, np.float32)
            np.testing.assert_array_equal(rows.read(0, rows.count), expected)
            np.testing.assert_array_equal(rows.read(rows.count // 2, rows.count), expected[rows.count // 2 :])
            np.testing.assert_array_equal(rows.ids(0, rows.count), np.flatnonzero(source.y == rows.label))


@dataclass
class Chunked:
    """The rows of a source in chunks alone, as a file gives them."""

    source: MemorySource

    def __post_init__(self):
        self.n, self.n_features, self.dtype = self.source.n, self.source.n_features, self.source.dtype
        self.chunks, self.label_chunks, self.y = self.source.chunks, self.source.label_chunks, self.source.y


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_taken_from_where_they_are_are_those_that_are_copied(source, dtype, order):
    source = MemorySource(np.asarray(source.h, dtype, order=order), source.y)
    with (
        grouping.grouped(source, classes_of(source), PLAN) as taken,
        grouping.grouped(Chunked(source), classes_of(source), PLAN) as copied,
        grouping.grouped(source, classes_of(source), SCRATCH) as scratch_rows,
    ):
        for kinds in zip(taken, copied, scratch_rows, strict=True):
            assert [type(rows).__name__ for rows in kinds] == ["TakenRows", "StoredRows", "ScratchRows"]
            start, stop = kinds[0].count // 3, kinds[0].count
            outs = [np.empty((stop - start, 20), np.float32) for _ in kinds]
            for rows, out in zip(kinds, outs, strict=True):
                rows.read_into(start, out)
                np.testing.assert_array_equal(out, rows.read(start, stop).astype("f4"))
                np.testing.assert_array_equal(out, outs[0])
                np.testing.assert_array_equal(rows.ids(start, stop), kinds[0].ids(start, stop))


@pytest.mark.parametrize("plan", [PLAN, SCRATCH])
@pytest.mark.parametrize("chunk_rows", [97, 5000])
def test_gathered_rows_are_all_in_order_with_their_classes(source, plan, chunk_rows):
    for given in (source, Chunked(source)):
        with grouping.gathered(given, classes_of(source), replace(plan, chunk_rows=chunk_rows)) as (rows, codes):
            assert rows.count == source.n
            np.testing.assert_array_equal(rows.read(0, source.n), source.h)
            np.testing.assert_array_equal(rows.ids(0, source.n), np.arange(source.n))
            np.testing.assert_array_equal(np.array([2, 3, 7, 40])[codes], source.y)


def test_a_disk_too_small_for_the_scratch_file_is_said_before_work(source, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(scratch.shutil, "disk_usage", lambda _: usage)
    with (
        pytest.raises(StorageError, match=r"needs 303,688 bytes .* has 1,000 free; set TMPDIR"),
        grouping.grouped(source, classes_of(source), SCRATCH),
    ):
        pass

import numpy as np
import pytest

from pdac_cli.engine.plan import Classes, count_classes, make_plan
from pdac_cli.engine.sources import MemorySource
from pdac_cli.errors import DataError
from pdac_cli.options.shared import InputOptions, RunOptions
from tests.engine.rows import PLAN


def test_classes_are_counted_in_any_chunks(source):
    counted = count_classes(source, PLAN, InputOptions())
    np.testing.assert_array_equal(counted.labels, [2, 3, 7, 40])
    np.testing.assert_array_equal(counted.counts, [1, 150, 900, 2400])
    np.testing.assert_array_equal(counted.codes(np.array([40, 2, 3])), [3, 0, 1])
    np.testing.assert_array_equal(Classes(np.arange(5, 9), np.ones(4)).codes(np.array([8, 5], np.int16)), [3, 0])
    wide = count_classes(MemorySource(source.h[:4], np.array([10**12, -3, 5, 10**12])), PLAN, InputOptions())
    np.testing.assert_array_equal(wide.labels, [-3, 5, 10**12])
    np.testing.assert_array_equal(wide.counts, [1, 1, 2])
    with pytest.raises(DataError, match="no usable row"):
        count_classes(MemorySource(source.h[:0], source.y[:0]), PLAN, InputOptions())


def test_a_small_memory_means_scratch_and_small_chunks(source):
    wide = MemorySource(np.zeros((3000, 4096), "f4"), np.zeros(3000, int))
    small, large = (make_plan(InputOptions(), RunOptions(memory=size)) for size in (1 << 25, 1 << 30))
    assert not small.in_memory(wide)
    assert small.rows_at_once(wide) == 128
    assert large.in_memory(wide)
    assert make_plan(InputOptions(chunk_rows=5), RunOptions(memory=1 << 30)).rows_at_once(wide) == 5

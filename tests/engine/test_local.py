from dataclasses import dataclass, fields, replace

import numpy as np
import pytest

from pdac_cli.density.model import Scorer
from pdac_cli.engine import grouping, local, scratch
from pdac_cli.engine.arrays import ArraySource
from pdac_cli.engine.source import Classes, Plan, count_classes, ignore, make_plan
from pdac_cli.errors import DataError, StorageError
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions, Solver
from tests.oracles import clustered

PLAN = Plan(chunk_rows=1000, memory=1 << 30, jobs=2, in_memory=True)


@pytest.fixture
def source():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([2, 3, 7, 40], [1, 150, 900, 2400]))
    return ArraySource(clustered(len(y), 20, 6).astype("f4") + y[:, None].astype("f4"), y)


def classes_of(source):
    return Classes(*np.unique(source.y, return_counts=True))


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("chunk_rows", [1, 97, 5000])
def test_grouped_rows_are_each_classs_in_order(source, in_memory, chunk_rows):
    plan = replace(PLAN, in_memory=in_memory, chunk_rows=chunk_rows)
    with grouping.grouped(source, classes_of(source), plan) as stored:
        assert [rows.label for rows in stored] == [2, 3, 7, 40]
        for rows in stored:
            expected = source.h[source.y == rows.label]
            assert (rows.count, rows.dim, rows.dtype) == (len(expected), 20, np.float32)
            np.testing.assert_array_equal(rows.read(0, rows.count), expected)
            np.testing.assert_array_equal(rows.read(rows.count // 2, rows.count), expected[rows.count // 2 :])
            np.testing.assert_array_equal(rows.ids(0, rows.count), np.flatnonzero(source.y == rows.label))


@dataclass
class Chunked:
    """The rows of a source in chunks alone, as a file gives them."""

    source: ArraySource

    def __post_init__(self):
        self.n, self.dim, self.dtype = self.source.n, self.source.dim, self.source.dtype
        self.chunks, self.label_chunks, self.y = self.source.chunks, self.source.label_chunks, self.source.y


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_taken_from_where_they_are_are_those_that_are_copied(source, dtype, order):
    source = ArraySource(np.asarray(source.h, dtype, order=order), source.y)
    with (
        grouping.grouped(source, classes_of(source), PLAN) as taken,
        grouping.grouped(Chunked(source), classes_of(source), PLAN) as copied,
        grouping.grouped(source, classes_of(source), replace(PLAN, in_memory=False)) as scratch_rows,
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


def test_groups_are_equal_shares_of_at_most_some_rows():
    stored = [grouping.StoredRows(c, np.zeros((4000, 1)), np.zeros(4000, int)) for c in range(10)]
    for jobs in (1, 2, 3, 20):
        groups = local._groups(stored, jobs)
        assert [rows.label for group in groups for rows in group] == list(range(10))
        assert max(map(len, groups)) <= 2
    assert [len(group) for group in local._groups(stored, 2)] == [2, 2, 1, 2, 2, 1]
    assert len(local._groups(stored, 20)) == 10


def fit(source, plan=PLAN, tick=ignore, **options):
    with grouping.grouped(source, classes_of(source), plan, tick) as stored:
        return local.fit(stored, DensityOptions(**options), 3, plan, tick)


def score(source, model, plan=PLAN, tick=ignore):
    with grouping.grouped(source, classes_of(source), plan) as stored:
        parts = list(local.score(stored, model, plan, tick))
    return [np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "codes", "log_p")]


@pytest.mark.parametrize("change", [
    {"chunk_rows": 131}, {"chunk_rows": 10**6}, {"jobs": 1}, {"jobs": 7}, {"in_memory": False}, {"memory": 1 << 16},
])  # fmt: skip
def test_nothing_about_how_the_work_is_done_changes_a_bit(source, change):
    model = fit(source)
    other = fit(source, replace(PLAN, **change))
    for field in fields(model):
        np.testing.assert_array_equal(getattr(model, field.name), getattr(other, field.name), err_msg=field.name)
    for one, two in zip(score(source, model), score(source, model, replace(PLAN, **change)), strict=True):
        np.testing.assert_array_equal(one, two)


def test_scores_are_conditional_plus_prior_for_every_row_once(source):
    model = fit(source)
    ids, codes, log_p = score(source, model)
    assert sorted(ids.tolist()) == list(range(source.n))
    labels, counts = np.unique(source.y, return_counts=True)
    np.testing.assert_array_equal(labels[codes], source.y[ids])
    for c, label in enumerate(labels):
        expected = Scorer.of(model).log_conditional(source.h[source.y == label], c) + np.log(counts[c] / source.n)
        np.testing.assert_array_equal(log_p[codes == c], expected)


def test_a_model_of_more_classes_scores_the_ones_there_are(source):
    model = fit(source)
    some = ArraySource(source.h[source.y != 3], source.y[source.y != 3])
    _, codes, log_p = score(some, model)
    whole = score(source, model)
    np.testing.assert_array_equal(log_p[codes == 2], whole[2][whole[1] == 3])


def test_progress_adds_up_to_all_rows(source):
    done = []
    model = fit(source, tick=done.append, iterations=1)
    assert sum(done) == 2 * source.n  # read and fitted
    done.clear()
    score(source, model, tick=done.append)
    assert sum(done) == source.n


def test_classes_are_counted_in_any_chunks(source):
    counted = count_classes(source, PLAN, InputOptions())
    np.testing.assert_array_equal(counted.labels, [2, 3, 7, 40])
    np.testing.assert_array_equal(counted.counts, [1, 150, 900, 2400])
    np.testing.assert_array_equal(counted.codes(np.array([40, 2, 3])), [3, 0, 1])
    np.testing.assert_array_equal(Classes(np.arange(5, 9), np.ones(4)).codes(np.array([8, 5], np.int16)), [3, 0])
    wide = count_classes(ArraySource(source.h[:4], np.array([10**12, -3, 5, 10**12])), PLAN, InputOptions())
    np.testing.assert_array_equal(wide.labels, [-3, 5, 10**12])
    np.testing.assert_array_equal(wide.counts, [1, 1, 2])
    with pytest.raises(DataError, match="no usable row"):
        count_classes(ArraySource(source.h[:0], source.y[:0]), PLAN, InputOptions())


@pytest.mark.parametrize(("counts", "memory", "jobs", "threads"), [
    ([5, 1000], 100, 4, 4), ([5, 1000], 6, 4, 3), ([5, 1000], 6, 2, 2), ([5, 1000], 1, 4, 1), ([10**8], 1, 4, 4),
])  # fmt: skip
def test_threads_are_fewer_where_the_rows_they_keep_would_not_fit(counts, memory, jobs, threads):
    larger = 1024 * 20 * 4  # bytes of a class of 1,000 rows; one of 10⁸ is not kept
    plan = replace(PLAN, jobs=jobs, memory=memory * larger)
    assert local.fit_plan(plan, counts, 20, np.dtype("f4"), Solver.FAST) == replace(plan, jobs=threads)


def test_a_small_memory_means_scratch_and_small_chunks(source):
    wide = ArraySource(np.zeros((3000, 4096), "f4"), np.zeros(3000, int))
    small = make_plan(wide, InputOptions(), RunOptions(memory=1 << 25))
    assert not small.in_memory
    assert small.chunk_rows == 128
    assert make_plan(wide, InputOptions(), RunOptions(memory=1 << 30)).in_memory
    assert make_plan(wide, InputOptions(chunk_rows=5), RunOptions(memory=1 << 30)).chunk_rows == 5


def test_a_disk_too_small_for_the_scratch_file_is_said_before_work(source, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(scratch.shutil, "disk_usage", lambda _: usage)
    with (
        pytest.raises(StorageError, match=r"needs 303,688 bytes .* has 1,000 free; set TMPDIR"),
        grouping.grouped(source, classes_of(source), replace(PLAN, in_memory=False)),
    ):
        pass

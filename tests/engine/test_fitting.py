from dataclasses import fields, replace

import numpy as np
import pytest

from pdac_cli.arrays import ignore
from pdac_cli.density.model import Scorer
from pdac_cli.engine import fitting, grouping
from pdac_cli.engine.sources import MemorySource
from pdac_cli.options.shared import DensityOptions, Solver
from tests.engine.rows import PLAN, classes_of


def test_groups_are_equal_shares_of_at_most_some_rows():
    stored = [grouping.StoredRows(c, np.zeros((4000, 1)), np.zeros(4000, int)) for c in range(10)]
    for jobs in (1, 2, 3, 20):
        groups = fitting._groups(stored, jobs)
        assert [rows.label for group in groups for rows in group] == list(range(10))
        assert max(map(len, groups)) <= 2
    assert [len(group) for group in fitting._groups(stored, 2)] == [2, 2, 1, 2, 2, 1]
    assert len(fitting._groups(stored, 20)) == 10


def fit(source, plan=PLAN, tick=ignore, **options):
    with grouping.grouped(source, classes_of(source), plan, tick) as stored:
        return fitting.fit(stored, DensityOptions(**options), 3, plan, tick)


def score(source, model, plan=PLAN, tick=ignore):
    with grouping.grouped(source, classes_of(source), plan) as stored:
        parts = list(fitting.score(stored, model, plan, tick))
    return [np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "codes", "log_p")]


@pytest.mark.parametrize("change", [
    {"chunk_rows": 131}, {"chunk_rows": 10**6}, {"jobs": 1}, {"jobs": 7}, {"memory": 1000}, {"memory": 1 << 16},
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
    some = MemorySource(source.h[source.y != 3], source.y[source.y != 3])
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


@pytest.mark.parametrize(("counts", "memory", "jobs", "threads"), [
    ([5, 1000], 100, 4, 4), ([5, 1000], 6, 4, 3), ([5, 1000], 6, 2, 2), ([5, 1000], 1, 4, 1), ([10**8], 1, 4, 4),
])  # fmt: skip
def test_threads_are_fewer_where_the_rows_they_keep_would_not_fit(counts, memory, jobs, threads):
    larger = 1024 * 20 * 4  # bytes of a class of 1,000 rows; one of 10⁸ is not kept
    plan = replace(PLAN, jobs=jobs, memory=memory * larger)
    assert fitting.fit_plan(plan, counts, 20, np.dtype("f4"), Solver.FAST) == replace(plan, jobs=threads)

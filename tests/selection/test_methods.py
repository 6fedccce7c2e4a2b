"""What every method of the table must hold to, whatever it does."""

import numpy as np
import pytest

from pdac_cli.errors import UsageError
from pdac_cli.options.methods import ABOUT
from pdac_cli.options.select import Allocation
from pdac_cli.selection.interface import DrawRule, ProblemSize
from pdac_cli.selection.methods import METHODS, method_named
from tests.selection.arrays import ArrayRows, select

N = 400
COSTLY = ("greedy", "pbcs", "bcsr", "typiclust", "csrel")  # seconds a run: fewer rows and steps must do
pytestmark = pytest.mark.usefixtures("few_steps")


def data(n=N, seed=0, dtype="f8"):
    """Features, class positions, logits of an imperfect classifier and log-densities."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(4, size=n, p=[0.5, 0.3, 0.15, 0.05])
    h = rng.standard_normal((n, 6)).astype(dtype) + codes[:, None]
    z = rng.standard_normal((n, 4)).astype(dtype) + 2 * np.eye(4)[codes]
    return ArrayRows(h, codes, z, rng.standard_normal(n) * 5 - 20)


def answer(name, budget, allocation=Allocation.PER_CLASS, rows=None, chunk=N, **more):
    rows = rows or data(size(name))
    log_p = rows.log_p if METHODS[name].needs_density else None
    return select(name, ArrayRows(rows.h, rows.codes, rows.logits, log_p, chunk), budget, allocation, **more)


def size(name):
    return 60 if name in COSTLY else N


@pytest.mark.parametrize("allocation", list(Allocation))
@pytest.mark.parametrize("name", METHODS)
class TestEveryMethod:
    @pytest.mark.parametrize("share", [0, 0.01, 0.1, 0.999, 1, 12.5])
    def test_exactly_the_budget_distinct_in_range_with_the_right_class(self, name, allocation, share):
        n = size(name)
        budget = max(1, int(share * n))
        ranking = answer(name, budget, allocation).ranking
        assert len(ranking.ids) == len(set(ranking.ids.tolist())) == min(budget, n)
        assert ((ranking.ids >= 0) & (ranking.ids < n)).all()
        np.testing.assert_array_equal(ranking.codes, data(n).codes[ranking.ids])
        if ranking.score is not None:
            assert ranking.score.shape == ranking.ids.shape
            assert (ranking.score >= 0).all()

    @pytest.mark.parametrize("chunk", [1, 7, 64, 399])
    def test_chunking_is_irrelevant(self, name, allocation, chunk):
        budget = size(name) // 8
        whole, pieces = (answer(name, budget, allocation, chunk=c).ranking for c in (N, chunk))
        np.testing.assert_array_equal(whole.ids, pieces.ids)
        np.testing.assert_array_equal(whole.log_p, pieces.log_p)
        np.testing.assert_array_equal(whole.score, pieces.score)

    def test_same_seed_same_answer_other_seed_another_if_it_is_random(self, name, allocation):
        budget = size(name) // 8
        one, again, other = (answer(name, budget, allocation, seed=s).ranking.ids.tolist() for s in (1, 1, 2))
        assert one == again
        assert (one != other) == METHODS[name].random

    def test_input_is_left_alone(self, name, allocation):
        rows, copy = data(size(name)), data(size(name))
        answer(name, size(name) // 8, allocation, rows=rows)
        for field in ("h", "codes", "logits", "log_p"):
            np.testing.assert_array_equal(getattr(rows, field), getattr(copy, field))


@pytest.mark.parametrize("name", METHODS)
def test_classes_get_their_share_of_the_budget(name):
    n = size(name)
    counts = np.bincount(data(n).codes)
    kept = np.bincount(answer(name, n // 4, Allocation.PER_CLASS).ranking.codes, minlength=4)
    assert (np.abs(kept - n // 4 * counts / n) < 1).all()


@pytest.mark.parametrize("name", METHODS)
def test_classes_get_the_same_if_they_have_it(name):
    n = size(name)
    counts = np.bincount(data(n).codes)
    kept = np.bincount(answer(name, n // 2, Allocation.BALANCED).ranking.codes, minlength=4)
    short = counts < n // 8  # of rows for an even share
    assert 0 < short.sum() < 3
    np.testing.assert_array_equal(kept[short], counts[short])
    assert np.ptp(kept[~short]) <= 1


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.nested])
def test_the_beginning_of_a_nested_list_is_the_answer_at_that_budget(name):
    rows = ArrayRows(np.random.default_rng(0).standard_normal((120, 6)), np.arange(120) % 4)
    long, short = (answer(name, budget, Allocation.BALANCED, rows=rows).ranking.ids for budget in (48, 12))
    np.testing.assert_array_equal(long[:12], short)


@pytest.mark.parametrize("name", METHODS)
def test_progress_adds_up_to_the_budget_or_is_one_pass(name):
    told = []
    answer(name, 20, Allocation.JOINT, tick=told.append)
    assert sum(told) in (0, 20)


@pytest.mark.parametrize("name", METHODS)
def test_rows_that_are_all_the_same_are_no_obstacle(name):
    rows = ArrayRows(np.ones((40, 3)), np.arange(40) % 2, np.zeros((40, 2)), np.zeros(40))
    for allocation in Allocation:
        assert len(set(answer(name, 15, allocation, rows=rows).ranking.ids.tolist())) == 15


@pytest.mark.parametrize("name", METHODS)
def test_features_of_float32_and_of_any_unit_do(name):
    rows = data(size(name), dtype="f4")
    plain = answer(name, 12, Allocation.JOINT, rows=rows).ranking.ids
    for scale in (2.0**-20, 2.0**20):
        scaled = ArrayRows((rows.h * np.float32(scale)), rows.codes, rows.logits, rows.log_p)
        found = answer(name, 12, Allocation.JOINT, rows=scaled).ranking.ids
        if name in UNITLESS:
            np.testing.assert_array_equal(found, plain)
        assert len(set(found.tolist())) == 12


UNITLESS = (
    "pdac",
    "uniform",
    "least-error",
    "kcenter",
    "kmeans",
    "herding",
    "maxherding",
    "facility",
    "kmedoids",
    "probcover",
    "typiclust",
    "teal",
    "voptimal",
    "hardest",
    "highest-prob",
    "bcsr",
    "pbcs",
    "greedy",
    "csrel",
)


@pytest.mark.parametrize("name", METHODS)
def test_the_table_says_what_a_method_does_and_costs(name):
    assert ABOUT[name].summary
    assert ABOUT[name].cost
    assert ABOUT[name].logits == METHODS[name].needs_logits
    small, large = (METHODS[name].work(ProblemSize(n, 512, 10, 1, 100)) for n in (1000, 100_000))
    assert 0 < small < large


def test_help_and_table_have_the_same_methods():
    assert list(ABOUT) == list(METHODS)


def test_temperature_zero_is_uniform():
    for relative in (True, False):
        cold = answer("pdac", 60, Allocation.BALANCED, temperature=0, draw=DrawRule(relative=relative, beta=0.0))
        np.testing.assert_array_equal(cold.ranking.ids, answer("uniform", 60, Allocation.BALANCED).ranking.ids)


def test_pdac_prefers_dense_rows_and_a_negative_temperature_sparse_ones():
    log_p = data().log_p
    drawn = DrawRule(relative=False, beta=0.0)
    means = [log_p[answer("pdac", 60, temperature=t, draw=drawn).ranking.ids].mean() for t in (-1, 0, 0.5, 1)]
    assert means == sorted(means)


def test_an_unknown_method_is_told_the_known_ones():
    with pytest.raises(UsageError, match="'pdca'; expected one of: pdac, uniform"):
        method_named("pdca")

"""Beginnings of lists, against selections with the smaller budget."""

import numpy as np
import pytest

from pdac_cli.options.select import Allocation
from pdac_cli.pipeline.heads.beginnings import RankedRows, smallest_reaching
from tests.selection.arrays import ArrayRows, select

NESTED = ("herding", "facility")  # class by class; where classes look at each other, their turns count as well


@pytest.mark.parametrize("allocation", [Allocation.BALANCED, Allocation.PER_CLASS])
@pytest.mark.parametrize("name", NESTED)
def test_a_beginning_is_the_answer_at_that_budget_also_of_uneven_classes(name, allocation):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), (3, 9, 30, 60))
    rows, counts = ArrayRows(rng.standard_normal((102, 6)), codes), np.bincount(codes)

    def answer(budget):
        return select(name, rows, budget, allocation).ranking

    long = answer(70)
    ranked = RankedRows(long.ids, long.codes, counts, allocation)
    for budget in (4, 13, 40, 70):
        assert set(long.ids[ranked.beginning(budget)]) == set(answer(budget).ids)


def test_of_one_pool_the_first_rows_are_the_beginning():
    ranked = RankedRows(np.array([5, 3, 9, 1]), np.array([0, 0, 0, 1]), np.array([6, 4]), Allocation.JOINT)
    np.testing.assert_array_equal(ranked.beginning(2), [0, 1])
    np.testing.assert_array_equal(ranked.beginning(9), [0, 1, 2, 3])


@pytest.mark.parametrize("answer", [1, 2, 19, 20, 21, 49, 50])
def test_the_smallest_budget_is_found_between_those_tried(answer):
    asked = []

    def accuracy(budget):
        asked.append(budget)
        return float(budget >= answer)

    tried = {n: float(n >= answer) for n in (1, 20, 50)}
    assert smallest_reaching(0.5, tried, accuracy) == answer
    assert len(asked) <= 6
    assert smallest_reaching(2.0, tried, accuracy) is None

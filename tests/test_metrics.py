"""Metrics against matrices worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pdac_cli.errors import DataError
from pdac_cli.metrics import average_accuracy, check_test_classes, forgetting, learned, paired_difference

NAN = np.nan


def test_average_accuracy_and_forgetting_of_three_tasks():
    # After task 3: 0.5, 0.6, 0.9. Task 1 was best after task 2 (0.95), task 2 after itself (0.8).
    matrix = np.array([[0.9, NAN, NAN], [0.95, 0.8, NAN], [0.5, 0.6, 0.9]])
    assert average_accuracy(matrix) == pytest.approx((0.5 + 0.6 + 0.9) / 3)
    assert forgetting(matrix) == pytest.approx(((0.95 - 0.5) + (0.8 - 0.6)) / 2)


def test_what_was_learnt_is_the_papers_sum():
    """C10, offline, N = 500, five tasks: 115.5 of uniform drawing and 120.1 of PDAC."""
    assert learned(59.10, 41.58, 5) == pytest.approx(115.5, abs=0.05)
    assert learned(64.70, 39.20, 5) == pytest.approx(120.1, abs=0.05)
    assert learned(0.75, None, 1) is None


def test_forgetting_is_negative_where_a_task_got_better():
    matrix = np.array([[0.6, NAN], [0.7, 0.8]])
    assert forgetting(matrix) == pytest.approx(-0.1)


def test_a_single_task_forgets_nothing_that_could_be_measured():
    matrix = np.array([[0.75]])
    assert average_accuracy(matrix) == 0.75
    assert forgetting(matrix) is None


def test_paired_difference_is_scipys_interval():
    rng = np.random.default_rng(0)
    first, second = rng.normal(60, 3, 8), rng.normal(58, 3, 8)
    found = paired_difference(first, second)
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.mean == pytest.approx((first - second).mean())
    assert found.pairs == 8


def test_one_pair_has_no_interval():
    found = paired_difference(np.array([3.0]), np.array([1.0]))
    assert (found.mean, found.low, found.high) == (2.0, None, None)


@pytest.mark.parametrize(("train", "test", "words"), [
    ([0, 1, 2], [0, 1, 2], ""),
    ([0, 1, 2], [0, 1, 2, 7, 9], "t: rows of classes 7, 9 are left out of the test"),
    ([0, 1, 2], [1, 2, 3], "no test rows of 1 of the 3 classes (class 0); expected some of each; they look like the "
     "same labels counted from 1, not 0; test on"),
    ([0, 1, 2], [5], "no test rows of 3 of the 3 classes (classes 0, 1, 2); expected some of each; test on"),
    (list(range(9)), [0], "(classes 1, 2, 3, 4 and 4 more)"),
])  # fmt: skip
def test_test_rows_have_the_classes_that_are_learned(train, test, words):
    if words.startswith("t:") or not words:
        found = check_test_classes(np.array(train), np.array(test), "t")
        assert found.startswith(words)
        assert bool(found) == bool(words)
        return
    with pytest.raises(DataError) as found:
        check_test_classes(np.array(train), np.array(test), "t")
    assert words in str(found.value)

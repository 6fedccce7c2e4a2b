"""Task splits, class orders and imbalance, by counts worked by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pdac_cli.errors import DataError, UsageError
from pdac_cli.learning.data.tasks import hold_out, imbalanced_counts, order_classes, split_tasks

Y = np.tile(np.arange(10), 100)  # 100 rows of each of ten classes


def split(**changes):
    given = {"y_train": Y, "y_test": np.arange(10), "order": np.arange(10), "count": 5, "imbalance": None, "seed": 0}
    return split_tasks(**(given | changes))


def test_ten_classes_make_five_tasks_of_two():
    tasks = split()
    assert [task.classes.tolist() for task in tasks] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert [task.number for task in tasks] == [1, 2, 3, 4, 5]
    assert [len(task.train) for task in tasks] == [200] * 5
    assert [task.test.tolist() for task in tasks] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    everything = np.concatenate([task.train for task in tasks])
    assert sorted(everything) == list(range(1000))


@pytest.mark.parametrize(("classes", "expected"), [(1, 1), (2, 1), (3, 1), (4, 2), (10, 5), (100, 5)])
def test_the_number_of_tasks_when_it_is_not_given(classes, expected):
    tasks = split(y_train=np.arange(classes), y_test=np.arange(classes), order=np.arange(classes), count=None)
    assert len(tasks) == expected


def test_classes_that_do_not_divide_are_shared_as_evenly_as_can_be():
    assert [len(task.classes) for task in split(count=3)] == [4, 3, 3]


def test_imbalance_follows_the_papers_numbers():
    # Two classes: n and n·0.05. Five classes: n·0.05^(i/4).
    assert imbalanced_counts([1000, 1000], 0.05) == [1000, 50]
    assert imbalanced_counts([5000] * 5, 0.05) == [5000, 2364, 1118, 528, 250]
    assert imbalanced_counts([100] * 10, 0.05) == [100, 71, 51, 36, 26, 18, 13, 9, 6, 5]
    assert imbalanced_counts([3, 3], 0.05) == [3, 1]
    assert imbalanced_counts([7], 0.05) == [7]


def test_imbalanced_tasks_keep_rows_of_their_own_classes():
    for task in split(imbalance=0.05):
        counts = [int((Y[task.train] == c).sum()) for c in task.classes]
        assert counts == [100, 5]
        assert len(np.unique(task.train)) == len(task.train)


def test_which_rows_an_imbalanced_class_keeps_is_a_matter_of_the_seed():
    first, again, other = (split(imbalance=0.05, seed=seed)[0].train for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_class_orders():
    labels = np.array([2, 3, 5, 7])
    assert order_classes(labels, "natural", 0).tolist() == [0, 1, 2, 3]
    assert order_classes(labels, "7,2,5,3", 0).tolist() == [3, 0, 2, 1]
    orders = {tuple(order_classes(labels, "random", seed)) for seed in range(30)}
    assert len(orders) > 10
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)


@pytest.mark.parametrize("text", ["sorted", "2,3", "2,3,5,5", "2,3,5,8", ""])
def test_class_orders_that_are_none(text):
    with pytest.raises(UsageError, match="--class-order"):
        order_classes(np.array([2, 3, 5, 7]), text, 0)


def test_more_tasks_than_classes():
    with pytest.raises(UsageError, match="--tasks is 11 and there are 10 classes"):
        split(count=11)


def test_a_class_without_test_rows():
    with pytest.raises(DataError, match="2 of 10 classes have no test rows"):
        split(y_test=np.arange(8))


def test_held_out_rows_are_a_share_of_every_class():
    y = np.repeat([0, 1, 2], [100, 10, 2])
    out = hold_out(y, 0.2, seed=0)
    assert [int(out[y == c].sum()) for c in (0, 1, 2)] == [20, 2, 1]
    with pytest.raises(DataError, match="one row"):
        hold_out(np.array([0, 0, 1]), 0.2, seed=0)

"""Pools and corruptions: how much of what, and that it hangs on the seed and the rows alone."""

import numpy as np
import pytest

from pdac_cli.options.heads import Corruption
from pdac_cli.pipeline.corruption import Labelled, corrupted, drawn_pool


@pytest.fixture
def rows():
    y = np.repeat([2, 5, 7], (100, 300, 200))
    h = np.eye(8)[y] + np.array([[0, 0, 0, 0, 0, 0.6, 0, 0]]) * (y == 7)[:, None]  # 7 is near 5, 2 near neither
    return Labelled(np.arange(600) * 3, h, y)


def test_a_pool_is_a_share_of_every_class_in_order(rows):
    pool = drawn_pool(rows, 0.8, 1)
    assert np.unique(pool.y, return_counts=True)[1].tolist() == [80, 240, 160]
    assert (np.diff(pool.ids) > 0).all()
    np.testing.assert_array_equal(rows.y[pool.ids // 3], pool.y)
    assert set(drawn_pool(rows, 0.8, 2).ids) != set(pool.ids)
    assert drawn_pool(rows, 1.0, 1) is rows


@pytest.mark.parametrize(("kind", "share"), [(Corruption.WRONG_20, 0.2), (Corruption.WRONG_40, 0.4)])
def test_wrong_labels_are_that_share_and_of_any_other_class(rows, kind, share):
    found = corrupted(rows, kind, 0)
    wrong = found.y != rows.y
    assert wrong.sum() == share * 600
    for label in (2, 5, 7):
        others = np.unique(found.y[wrong & (rows.y == label)], return_counts=True)
        assert label not in others[0]
        assert len(others[0]) == 2
    np.testing.assert_array_equal(found.y, corrupted(rows, kind, 0).y)
    assert (found.y != corrupted(rows, kind, 1).y).any()
    assert found.h is rows.h


def test_confused_labels_are_those_of_the_nearest_class(rows):
    found = corrupted(rows, Corruption.CONFUSED_40, 0)
    wrong = found.y != rows.y
    assert wrong.sum() == 240
    assert set(found.y[wrong & (rows.y == 7)]) == {5}
    assert set(found.y[wrong & (rows.y == 5)]) == {7}


def test_imbalance_falls_by_equal_steps_to_a_hundredth(rows):
    even = Labelled(np.arange(900), np.zeros((900, 2)), np.arange(900) % 3)
    kept = np.unique(corrupted(even, Corruption.IMBALANCE_100, 0).y, return_counts=True)[1]
    assert sorted(kept.tolist()) == [3, 30, 300]
    orders = {tuple(np.unique(corrupted(even, Corruption.IMBALANCE_100, s).y, return_counts=True)[1]) for s in range(6)}
    assert len(orders) > 1


def test_clean_is_as_it_was(rows):
    assert corrupted(rows, Corruption.CLEAN, 0) is rows

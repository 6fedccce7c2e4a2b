"""Rows in fewer directions: lengths and products kept, each feature in one sum, the same for any cut of the rows."""

import numpy as np
import pytest

from pdac_cli.density import common_rows as module
from pdac_cli.density.common_rows import DIRECTIONS, MOST_FEATURES, common_rows, common_width, signed_sums, unit_rows


def test_rows_of_few_features_stay():
    h = np.random.default_rng(0).standard_normal((3, MOST_FEATURES)).astype("f2")
    np.testing.assert_array_equal(common_rows(h), h)
    assert common_rows(h).dtype == np.float32
    assert common_width(MOST_FEATURES) == MOST_FEATURES
    assert common_width(MOST_FEATURES + 1) == DIRECTIONS


def test_each_feature_is_in_one_sum():
    sums = signed_sums(np.eye(50), 8)
    assert set(np.abs(sums).sum(axis=1)) == {1.0}
    assert np.abs(sums).sum(axis=0).tolist() == [7, 7, 6, 6, 6, 6, 6, 6]
    assert 10 < np.count_nonzero(sums > 0) < 40


def test_products_are_kept_to_the_root_of_the_directions():
    """The products' error has mean 0 and variance at most (|x|² |y|² + (xy)²) / directions."""
    u = unit_rows(np.random.default_rng(1).standard_normal((60, 5000)) + 0.5)
    v = common_rows(u)
    off = (v @ v.T - u @ u.T)[np.triu_indices(60)]
    bound = np.sqrt((1 + np.square((u @ u.T)[np.triu_indices(60)])) / DIRECTIONS)
    assert v.shape == (60, DIRECTIONS)
    assert np.sqrt(np.mean(np.square(off / bound))) < 1.1


@pytest.mark.parametrize("at_once", [1, 9_000, 1 << 21])
def test_how_rows_are_cut_changes_no_bit(at_once, monkeypatch):
    h = np.random.default_rng(2).standard_normal((40, 3000)).astype("f4")
    whole = common_rows(h)
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    parts = [common_rows(h[start : start + 7]) for start in range(0, 40, 7)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_largest_numbers_stay_finite(dtype):
    h = np.full((2, 2500), np.finfo(dtype).max, dtype)
    assert np.isfinite(common_rows(h)).all()

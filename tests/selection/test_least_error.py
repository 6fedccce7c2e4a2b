"""The greedy choice against brute force: every step's gain is the error of a ridge regression done afresh."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from pdac_cli.errors import DataError, UsageError
from pdac_cli.options.select import Allocation
from pdac_cli.selection import least_error as module
from pdac_cli.selection.least_error import CONSTANT, MEAN, RIDGE
from pdac_cli.selection.moments import moments_and_sample
from tests.selection.arrays import ArrayRows, select


def mixture(n=90, dim=5, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % classes)
    h = rng.standard_normal((n, dim)) * rng.uniform(0.1, 30, dim) + 3 * rng.standard_normal((classes, dim))[codes] + 7
    return h, codes


def standardised(h, weights):
    """Features with weighed mean 0 and variance 1, and the constant: what the classifier sees."""
    mean = weights @ h
    x = (h - mean) / np.sqrt(weights @ (h - mean) ** 2)
    return np.column_stack([x, np.full(len(h), np.sqrt(CONSTANT * h.shape[1]))])


def error(x, codes, chosen, weights):
    """Mean squared error over all rows of scikit-learn's ridge classifier trained on the chosen ones."""
    y = np.eye(codes.max() + 1)[codes]
    fitted = Ridge(alpha=RIDGE * (x.shape[1] - 1), fit_intercept=False, solver="svd").fit(x[chosen], y[chosen])
    return weights @ ((y - x @ fitted.coef_.T) ** 2).sum(axis=1)


def distance(x, codes, chosen, weights):
    """Squared distance of the chosen rows' mean from each class's, relative to its spread, rows of length 1."""
    z = x[:, :-1] / np.linalg.norm(x[:, :-1], axis=1, keepdims=True)
    total = 0.0
    for code in np.unique(codes):
        mine, kept = z[codes == code], z[[i for i in chosen if codes[i] == code]]
        mean = kept.mean(axis=0) if len(kept) else 0.0
        spread = np.mean(np.sum((mine - mine.mean(axis=0)) ** 2, axis=1))
        total += MEAN * weights[codes == code].sum() * np.sum((mean - mine.mean(axis=0)) ** 2) / spread
    return total


def brute_force(h, codes, turns, weights):
    x, chosen = standardised(h, weights), []
    for turn in turns:
        free = [i for i in np.flatnonzero(np.isin(codes, turn)) if i not in chosen]
        errors = [error(x, codes, [*chosen, i], weights) for i in free]
        errors = [e + distance(x, codes, [*chosen, i], weights) for e, i in zip(errors, free, strict=True)]
        chosen.append(int(free[int(np.argmin(errors))]))
    return chosen


@pytest.mark.parametrize("seed", range(3))
def test_every_row_is_the_one_that_leaves_the_least_error(seed):
    h, codes = mixture(seed=seed)
    turns = [[i % 3] for i in range(24)]
    found = select("least-error", ArrayRows(h, codes), 24).ranking
    np.testing.assert_array_equal(found.ids, brute_force(h, codes, turns, np.full(90, 1 / 90)))


def test_joint_allocation_lets_the_classes_compete():
    h, codes = mixture()
    found = select("least-error", ArrayRows(h, codes), 12, Allocation.JOINT).ranking
    np.testing.assert_array_equal(found.ids, brute_force(h, codes, [[0, 1, 2]] * 12, np.full(90, 1 / 90)))


def test_balanced_shares_weigh_the_classes_alike():
    h, codes = mixture(120)
    few = np.sort(np.concatenate([np.flatnonzero(codes == 0)[:6], np.flatnonzero(codes > 0)]))
    h, codes = h[few], codes[few]
    weights = 1 / 3 / np.bincount(codes)[codes]
    found = select("least-error", ArrayRows(h, codes), 9, Allocation.BALANCED).ranking
    np.testing.assert_array_equal(found.ids, brute_force(h, codes, [[i % 3] for i in range(9)], weights))


def test_more_steps_than_features_between_two_turns():
    """A class with few turns catches up by the matrices themselves."""
    rng = np.random.default_rng(4)
    codes = np.repeat([0, 1], [60, 6])
    h = rng.standard_normal((66, 2)) + codes[:, None]
    found = select("least-error", ArrayRows(h, codes), 22, Allocation.PER_CLASS).ranking
    turns = [[c] for c in found.codes]
    np.testing.assert_array_equal(np.bincount(found.codes), [20, 2])
    np.testing.assert_array_equal(found.ids, brute_force(h, codes, turns, np.full(66, 1 / 66)))


def test_one_class_keeps_the_mean_near_as_herding_does():
    rng = np.random.default_rng(0)
    h = rng.standard_normal((400, 8))
    chosen = select("least-error", ArrayRows(h, np.zeros(400, int)), 20).ranking.ids
    off = np.linalg.norm(h[chosen].mean(axis=0) - h.mean(axis=0))
    drawn = [np.linalg.norm(h[rng.choice(400, 20, replace=False)].mean(axis=0) - h.mean(axis=0)) for _ in range(200)]
    assert off < np.min(drawn)


def test_units_and_origin_of_a_feature_do_not_matter():
    h, codes = mixture()
    plain = select("least-error", ArrayRows(h, codes), 30).ranking.ids
    moved = select("least-error", ArrayRows(h * [1e-9, 1e9, 1, 2, 1e150] + [0, 1e10, -5, 0, 0], codes), 30).ranking.ids
    np.testing.assert_array_equal(plain, moved)


def test_a_constant_feature_changes_nothing():
    h, codes = mixture()
    with_constant = np.column_stack([h, np.full(len(h), 0.1)])
    plain, more = (select("least-error", ArrayRows(x, codes), 30).ranking.ids for x in (h, with_constant))
    np.testing.assert_array_equal(plain, more)


def test_of_a_large_class_a_part_is_looked_at_and_all_of_it_counts(monkeypatch):
    monkeypatch.setattr(module, "CANDIDATES", 60)
    monkeypatch.setattr(module, "CANDIDATES_PER_ROW", 2)
    h, codes = mixture(300)
    found = select("least-error", ArrayRows(h, codes), 9).ranking.ids
    again = select("least-error", ArrayRows(h, codes), 9, seed=5).ranking.ids
    np.testing.assert_array_equal(found, again)
    weights = np.full(300, 1 / 300)
    x = standardised(h, weights)
    drawn = [error(x, codes, np.random.default_rng(s).choice(300, 9, replace=False), weights) for s in range(50)]
    assert error(x, codes, found, weights) < np.min(drawn)


def test_too_little_memory_is_said_before_the_work():
    h, codes = mixture()
    with pytest.raises(UsageError, match=r"keeps D x D numbers and 90 rows .* raise --memory"):
        select("least-error", ArrayRows(h, codes), 9, memory=1000)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_moments_are_those_of_all_rows_however_they_come(dtype):
    rng = np.random.default_rng(0)
    n, dim = 5000, 7
    codes = np.sort(rng.integers(0, 3, n))
    h = (1e4 * codes[:, None] + rng.standard_normal((n, dim)) * np.logspace(-3, 3, dim)).astype(dtype)
    counts = np.bincount(codes)
    weights = np.array([0.2, 0.5, 0.3])
    pieces = [
        moments_and_sample(ArrayRows(h, codes, chunk=c), counts, weights, np.full(3, 40), 1 << 30)
        for c in (5000, 999, 64)
    ]
    each = (weights / counts)[codes]
    x = h.astype("f8")
    mean = each @ x
    std = np.sqrt(each @ (x - mean) ** 2)
    x = (x - mean) / std
    one = pieces[0]
    np.testing.assert_allclose(one.scale.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(one.second, (x * each[:, None]).T @ x, atol=1e-5)
    np.testing.assert_allclose(one.first, (x * each[:, None]).T @ np.eye(3)[codes], atol=1e-5)
    np.testing.assert_array_equal(np.bincount(one.codes), [40, 40, 40])
    np.testing.assert_array_equal(one.h, h[one.ids])
    for other in pieces[1:]:
        for name in ("first", "second", "ids", "h"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_rows_to_choose_from_are_drawn_alike():
    """Every row of a class is kept with the same probability: chi-square over blocks of a long class."""
    from scipy.stats import chisquare

    n = 40_000
    rows = ArrayRows(np.zeros((n, 1), "f4"), np.zeros(n, int), chunk=1000)
    kept = moments_and_sample(rows, np.array([n]), np.ones(1), np.array([4000]), 1 << 30).ids
    assert len(set(kept.tolist())) == 4000
    assert chisquare(np.bincount(kept // 1000, minlength=40)).pvalue > 1e-3


def test_numbers_too_large_to_square_are_an_error_not_nonsense():
    h, codes = mixture(4096)
    h[:, 0] *= np.where(np.arange(4096) < 2048, 1e-150, 1e150)
    with pytest.raises(DataError, match="range too widely"):
        moments_and_sample(ArrayRows(h, codes), np.bincount(codes), np.full(3, 1 / 3), np.full(3, 9), 1 << 30)

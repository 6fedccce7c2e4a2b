import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from pdac_cli.density.mixture import Mixtures
from pdac_cli.density.rebase import streaming_em
from pdac_cli.density.split_merge import _merges, regrouped


def mixture(alpha, mu, sigma):
    mu = np.array(mu, float)
    return Mixtures(np.array([alpha], float), mu[None], np.array(sigma, float)[None], np.array([mu.shape[1]]))


def weighted(found, xi):
    """log α_l N(x; μ_l, Σ_l): (L, n)."""
    parts = zip(found.alpha[0], found.mu[0], found.sigma[0], strict=True)
    return np.array([np.log(a) + multivariate_normal(m, s).logpdf(xi) for a, m, s in parts])


def log_density(found, xi):
    return logsumexp(weighted(found, xi), axis=0)


def responsibilities(found, xi):
    log_r = weighted(found, xi)
    return np.exp(log_r - logsumexp(log_r, axis=0))


def moments(found):
    alpha, mu, sigma = found.alpha[0], found.mu[0], found.sigma[0]
    mean = alpha @ mu
    second = (alpha[:, None, None] * (sigma + mu[:, :, None] * mu[:, None])).sum(axis=0)
    return mean, second - np.outer(mean, mean)


CENTRES = np.array([[0.0, 0.0], [20.0, 0.0], [20.0, 8.0]])


def three_clusters(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return CENTRES[rng.integers(3, size=n)] + rng.standard_normal((n, 2))


def crowded():
    """Two components on the first cluster and one over the two others."""
    wide = np.array([[1.0, 0.0], [0.0, 17.0]])
    return mixture([1 / 6, 1 / 6, 2 / 3], [[0.2, 0], [-0.2, 0], [20, 4]], [np.eye(2), np.eye(2), wide])


def test_a_component_over_two_clusters_is_cut_and_two_on_one_are_merged():
    xi, before = three_clusters(), crowded()
    after = regrouped(before, xi, responsibilities(before, xi))
    distance = np.linalg.norm(after.mu[0][:, None] - CENTRES, axis=2)
    assert sorted(distance.argmin(axis=1)) == [0, 1, 2]
    assert distance.min(axis=1).max() < 1
    assert log_density(after, xi).mean() > log_density(before, xi).mean() + 0.3


def test_steps_without_the_exchange_stay_where_they_are():
    xi, plain, exchanged = three_clusters(), crowded(), crowded()
    for _ in range(20):
        plain, _ = streaming_em(plain, xi, 0.5, 1e-6)
        exchanged, _ = streaming_em(exchanged, xi, 0.5, 1e-6, regroup=True)
    assert log_density(exchanged, xi).mean() > log_density(plain, xi).mean() + 0.3


@pytest.mark.parametrize("seed", range(5))
def test_an_exchange_keeps_the_moments_of_the_whole(seed):
    xi, before = three_clusters(seed=seed), crowded()
    after = regrouped(before, xi, responsibilities(before, xi))
    assert after.alpha.sum() == pytest.approx(1)
    for found, expected in zip(moments(after), moments(before), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert np.linalg.eigvalsh(after.sigma).min() > 0


def test_padding_dimensions_stay_as_they_are():
    xi, narrow = three_clusters(), crowded()
    mu, sigma = np.zeros((1, 3, 4)), np.tile(np.eye(4), (1, 3, 1, 1))
    mu[..., :2], sigma[..., :2, :2] = narrow.mu, narrow.sigma
    wide = Mixtures(narrow.alpha, mu, sigma, np.array([2]))
    r = responsibilities(narrow, xi)
    expected, found = regrouped(narrow, xi, r), regrouped(wide, xi, r)
    np.testing.assert_array_equal(found.mu[..., :2], expected.mu)
    np.testing.assert_array_equal(found.sigma[..., 2:, 2:], sigma[..., 2:, 2:])
    np.testing.assert_array_equal(found.mu[..., 2:], 0)


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_one_normal_density_are_not_cut(seed):
    """Also where merging costs nothing, and although the best of many cuts is looked at."""
    xi = np.random.default_rng(seed).standard_normal((256, 10))
    same = mixture([0.9, 0.05, 0.05], np.zeros((3, 10)), np.tile(np.eye(10), (3, 1, 1)))
    assert regrouped(same, xi, responsibilities(same, xi)) is None


@pytest.mark.parametrize("far", [1, 2])
def test_a_half_needs_as_many_rows_as_dimensions(far):
    xi = np.random.default_rng(0).standard_normal((50, 2)) * [0.1, 1.0]
    xi[:far, 0] = 30.0  # the mean is nearer to the others, who are all on one side
    wide = np.tile(np.cov(xi.T), (3, 1, 1))
    one = mixture([0.98, 0.01, 0.01], np.zeros((3, 2)), wide)
    r = np.tile([[1.0], [0.0], [0.0]], (1, len(xi)))
    assert (regrouped(one, xi, r) is None) == (far < 2)


def test_two_components_cannot_change_places():
    xi = three_clusters()
    two = mixture([0.5, 0.5], [[0, 0], [20, 4]], [np.eye(2), np.diag([1.0, 17.0])])
    assert regrouped(two, xi, responsibilities(two, xi)) is None


def test_rows_that_are_all_the_same_are_not_cut():
    same = mixture([0.4, 0.3, 0.3], np.zeros((3, 2)), np.tile(1e-6 * np.eye(2), (3, 1, 1)))
    xi = np.zeros((40, 2))
    assert regrouped(same, xi, responsibilities(same, xi)) is None


@pytest.mark.parametrize("apart", [0.0, 1.0, 3.0])
def test_merging_loses_no_more_than_the_bound(apart):
    """The bound of Runnalls against the log-likelihood of rows drawn from the mixture itself."""
    before = mixture([0.3, 0.5, 0.2], [[0, 0], [apart, 0], [9, 9]], [np.eye(2), np.diag([2.0, 0.5]), np.eye(2)])
    rng = np.random.default_rng(1)
    which = rng.choice(3, size=200_000, p=before.alpha[0])
    chol = np.linalg.cholesky(before.sigma[0])
    xi = before.mu[0][which] + (chol[which] @ rng.standard_normal((len(which), 2, 1)))[..., 0]
    loss, (alpha, mu, sigma) = _merges((before.alpha[0], before.mu[0], before.sigma[0]), np.array([0]), np.array([1]))
    after = mixture([alpha[0], 0.2], [mu[0], [9, 9]], [sigma[0], np.eye(2)])
    lost = (log_density(before, xi) - log_density(after, xi)).mean()
    assert -0.01 < lost < loss[0] + 0.01

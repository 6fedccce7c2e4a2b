import warnings

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from pdac_cli.density.blocks import ROWS
from pdac_cli.density.model import Scorer, fit_classes, initial_rows, merge_models
from pdac_cli.options.shared import DensityOptions, Solver, Units
from tests.oracles import MemoryRows, clustered, features, log_mixture


def fit(classes, seed=0, **options):
    rows = [MemoryRows(label, h) for label, h in enumerate(classes)]
    return fit_classes(rows, DensityOptions(**options), seed)


def test_scores_are_scipys_mixture_density_of_the_projected_rows():
    h = clustered(300, 20, 4)
    model = fit([h], dim=3, components=4)
    xi = (h - h.mean(axis=0)) @ model.W[0]
    sigma = model.chol[0] @ model.chol[0].swapaxes(1, 2)
    expected = log_mixture(xi, model.alpha[0], model.mu[0], sigma)
    np.testing.assert_allclose(Scorer.of(model).log_conditional(h, 0), expected, atol=1e-8)
    np.testing.assert_allclose(model.log_likelihood[0, -1], expected.mean(), rtol=1e-9)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_scores_do_not_depend_on_how_a_classs_blocks_are_handed_over(dtype):
    h = features(2500, 20).astype(dtype)
    scorer = Scorer.of(fit([h]))
    whole = scorer.log_conditional(h, 0)
    pieces = np.split(h, [ROWS, 5 * ROWS, 17 * ROWS])
    np.testing.assert_array_equal(np.concatenate([scorer.log_conditional(piece, 0) for piece in pieces]), whole)
    order = np.random.default_rng(0).permutation(len(h))
    np.testing.assert_allclose(scorer.log_conditional(h[order], 0), whole[order], atol=1e-3 if dtype != "f8" else 1e-9)


def test_classes_fitted_together_are_bit_for_bit_those_fitted_alone():
    classes = [features(n, 150, seed=n, dtype="f4") for n in (1, 9, 140, 400, 2100)]
    together = fit(classes)
    alone = merge_models(
        [fit_classes([MemoryRows(label, classes[label])], DensityOptions(), 0) for label in (4, 2, 0, 1, 3)]
    )
    for name in ("labels", "counts", "mean", "W", "dims", "alpha", "mu", "chol", "log_likelihood"):
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name), err_msg=name)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scaling_the_features_shifts_every_log_density_by_the_same(scale):
    h = features(500, 40, dtype="f4")
    plain, scaled = (Scorer.of(fit([x], dim=5)).log_conditional(x, 0) for x in (h, h * np.float32(scale)))
    np.testing.assert_allclose(plain - scaled, 5 * np.log(scale), atol=1e-3)


def test_exact_and_fast_solvers_agree():
    h = features(600, 200)
    fast, exact = (Scorer.of(fit([h], solver=s)).log_conditional(h, 0) for s in Solver)
    np.testing.assert_allclose(fast, exact, atol=1e-4)


def test_small_and_constant_classes_get_fewer_dimensions_components_or_a_flat_density():
    classes = [np.ones((1, 8)), np.ones((5, 8)), features(3, 8), features(40, 8)]
    model = fit(classes)
    assert model.dims.tolist() == [0, 0, 2, 8]
    assert (model.alpha > 0).sum(axis=1).tolist() == [1, 5, 3, 7]
    scores = [Scorer.of(model).log_conditional(h, c) for c, h in enumerate(classes)]
    np.testing.assert_allclose(np.concatenate(scores[:2]), 0, atol=1e-12)
    assert all(np.isfinite(s).all() for s in scores)


def test_initial_rows_are_distinct_and_uniform():
    assert sorted(initial_rows(3, 5, 7, 0)) == [0, 1, 2, 3, 4]
    hits = np.zeros(12)
    for seed in range(2000):
        rows = initial_rows(1, 12, 4, seed)
        assert len(set(rows.tolist())) == 4
        hits[rows] += 1
    expected = 2000 * 4 / 12
    assert ((hits - expected) ** 2 / expected).sum() < 31  # chi-square, 11 degrees of freedom, p = 0.001


def test_the_recorded_likelihood_weighs_classes_by_their_rows():
    classes = [features(100, 12, seed=1), features(300, 12, seed=2)]
    model = fit(classes, dim=3, iterations=4)
    np.testing.assert_allclose(model.step_log_likelihood(), model.log_likelihood.T @ [0.25, 0.75])
    np.testing.assert_allclose(np.exp(model.log_prior), [0.25, 0.75])


@pytest.mark.parametrize("scale", [1.0, 0.01, 30.0])
def test_in_absolute_units_em_starts_at_the_identity_and_the_ridge_is_absolute(scale):
    """As printed, held to scikit-learn's EM from the same start."""
    h = clustered(400, 12, 3) * scale
    model = fit([h], dim=3, components=3, iterations=8, ridge=1e-4, units=Units.ABSOLUTE)
    xi = (h - h.mean(axis=0)) @ model.W[0]
    oracle = GaussianMixture(
        3, tol=0, max_iter=8, reg_covar=1e-4, weights_init=np.full(3, 1 / 3), means_init=xi[initial_rows(0, 400, 3, 0)],
        precisions_init=np.tile(np.eye(3), (3, 1, 1)),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, that it has not converged
        oracle.fit(xi)
    np.testing.assert_allclose(model.alpha[0], oracle.weights_, atol=1e-6)
    np.testing.assert_allclose(model.mu[0], oracle.means_, atol=1e-5 * scale)
    sigma = model.chol[0] @ model.chol[0].swapaxes(1, 2)
    np.testing.assert_allclose(sigma, oracle.covariances_, rtol=1e-4, atol=1e-5 * scale**2)

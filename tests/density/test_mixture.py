import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from pdac_cli.density import sweep
from pdac_cli.density.device import Workspace
from pdac_cli.density.mixture import cholesky
from pdac_cli.errors import DataError
from tests.density.mixtures import fit
from tests.oracles import clustered, log_mixture

pytestmark = pytest.mark.usefixtures("way")


def scikit(xi, comps, iterations, ridge=1e-6):
    variance = xi.var(axis=0).mean()
    model = GaussianMixture(
        comps,
        tol=0,
        max_iter=max(iterations, 1),
        reg_covar=ridge * variance,
        weights_init=np.full(comps, 1 / comps),
        means_init=xi[:comps],
        precisions_init=np.repeat(np.eye(xi.shape[1])[None] / variance, comps, axis=0),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(xi)


@pytest.mark.parametrize("n", [100, 128, 500, 2300])
def test_every_step_is_scikit_learns_from_the_same_start(n):
    xi = clustered(n, 4, 5)
    for step in range(1, 21):
        ours, _ = fit([xi], 5, step)
        theirs = scikit(xi, 5, step)
        np.testing.assert_allclose(ours.alpha[0], theirs.weights_, atol=1e-6)
        np.testing.assert_allclose(ours.mu[0], theirs.means_, atol=1e-6)
        np.testing.assert_allclose(ours.sigma[0], theirs.covariances_, atol=1e-6)


def test_the_likelihood_is_scipys_and_never_falls():
    xi = clustered(400, 3, 4)
    mixtures, history = fit([xi], 4, 30)
    gains = np.diff(history[0])
    assert (gains > -1e-6).all()  # the ridge may cost a little near the optimum
    assert history[0, -1] > history[0, 0] + 0.1
    expected = log_mixture(xi, mixtures.alpha[0], mixtures.mu[0], mixtures.sigma[0]).mean()
    np.testing.assert_allclose(history[0, -1], expected, rtol=1e-10)


def test_one_component_is_the_closed_form():
    xi = clustered(300, 3, 2)
    mixtures, history = fit([xi], 1, 2)
    np.testing.assert_allclose(mixtures.mu[0, 0], xi.mean(axis=0), atol=1e-10)
    closed = np.cov(xi.T, bias=True) + 1e-6 * xi.var(axis=0).mean() * np.eye(3)
    np.testing.assert_allclose(mixtures.sigma[0, 0], closed, atol=1e-9)
    expected = multivariate_normal(xi.mean(axis=0), closed).logpdf(xi).mean()
    np.testing.assert_allclose(history[0, -1], expected, rtol=1e-10)


@pytest.mark.parametrize(("piece", "keep"), [(sweep.PIECE, sweep._KEEP), (8, sweep._KEEP), (8, 1)])
def test_classes_together_are_bit_for_bit_the_classes_alone(piece, keep, monkeypatch):
    monkeypatch.setattr(sweep, "PIECE", piece)
    monkeypatch.setattr(sweep, "_KEEP", keep)
    classes = [clustered(n, d, 3, seed=n) for n, d in [(5, 2), (128, 3), (3000, 3), (1, 1), (777, 3)]]
    together, history = fit(classes, 4, 6, dim=3)
    for c, xi in enumerate(classes):
        alone, alone_history = fit([xi], 4, 6, dim=3)
        for name in ("alpha", "mu", "sigma"):
            np.testing.assert_array_equal(getattr(together, name)[c], getattr(alone, name)[0])
        np.testing.assert_array_equal(history[c], alone_history[0])


def test_pieces_change_nothing_but_rounding(monkeypatch):
    classes = [clustered(n, 3, 3, seed=n) for n in (2500, 700, 1030)]
    whole, history = fit(classes, 4, 6)
    monkeypatch.setattr(sweep, "PIECE", 8)
    pieces, pieces_history = fit(classes, 4, 6)
    np.testing.assert_allclose(pieces.sigma, whole.sigma, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(pieces_history, history, rtol=1e-7)


def test_room_is_used_again_where_it_is_large_enough():
    workspace = Workspace()
    first = workspace.take("phi", (3, 4))
    assert np.shares_memory(first, workspace.take("phi", (2, 5)))
    assert not np.shares_memory(first, workspace.take("other", (3, 4)))
    assert workspace.take("phi", (5, 5)).shape == (5, 5)


def test_tolerance_stops_each_class_for_itself():
    classes = [clustered(300, 2, 3, seed=1), clustered(300, 2, 3, seed=2)]
    mixtures, history = fit(classes, 3, 200, tol=1e-4)
    for c, xi in enumerate(classes):
        steps = int(np.isfinite(history[c]).sum())
        assert 2 < steps < 150
        assert history[c, steps - 1] - history[c, steps - 2] < 1e-4 <= history[c, steps - 2] - history[c, steps - 3]
        alone, _ = fit([xi], 3, steps - 1)
        np.testing.assert_array_equal(mixtures.mu[c], alone.mu[0])


def test_a_covariance_without_a_cholesky_factor_is_an_error_that_says_what_to_do():
    with pytest.raises(DataError, match=r"the eigenvalue -0.25, expected more than 0; raise --ridge"):
        cholesky(np.stack([np.eye(2), np.diag([1.0, -0.25])]))

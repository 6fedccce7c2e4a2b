import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA

from pdac_cli.density import centred
from pdac_cli.density import projection as projection_module
from pdac_cli.density.eigenvectors import top_eigenvectors
from pdac_cli.density.projection import fit_projection, fix_signs, project
from pdac_cli.options.shared import Solver
from tests.oracles import MemoryRows, features


def projection(h, dim=10, solver=Solver.FAST):
    return fit_projection(MemoryRows(0, h), dim, solver)[0]


@pytest.mark.parametrize("solver", list(Solver))
@pytest.mark.parametrize("shape", [(40, 12), (300, 128), (129, 300), (2500, 200), (9000, 30)])
def test_directions_and_variances_are_scikit_learns_pca_up_to_sign(shape, solver):
    h = features(*shape)
    ours = projection(h, 6, solver)
    pca = PCA(6, svd_solver="full").fit(h)
    np.testing.assert_allclose(ours.mean, pca.mean_, atol=1e-12)
    np.testing.assert_allclose(ours.variance * ours.unit**2, pca.explained_variance_ * (len(h) - 1) / len(h), rtol=1e-8)
    signs = np.sign((ours.W * pca.components_.T).sum(axis=0))
    np.testing.assert_allclose(ours.W * signs, pca.components_.T, atol=1e-6)


@pytest.mark.parametrize("decay", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("n", [400, 3000])
def test_single_precision_lanczos_spans_what_eigh_spans(n, decay):
    h = features(n, 512, decay=decay, dtype="f4")
    fast = projection(h)
    centred = h.astype("f8") - h.mean(axis=0, dtype="f8")
    covariance = centred.T @ centred / n
    values, vectors = np.linalg.eigh(covariance)
    best = vectors[:, ::-1][:, :10]
    W = fast.W.astype("f8")
    assert fast.W.dtype == np.float32
    captured = np.trace(W.T @ covariance @ W) / values[::-1][:10].sum()
    assert abs(captured - 1) < 1e-4
    assert np.rad2deg(subspace_angles(W, best).max()) < 0.1


def test_columns_are_orthonormal_and_their_largest_entry_is_positive():
    W = projection(features(500, 64)).W
    np.testing.assert_allclose(W.T @ W, np.eye(10), atol=1e-10)
    assert (W[np.abs(W).argmax(axis=0), np.arange(10)] > 0).all()
    np.testing.assert_array_equal(fix_signs(-W), W)


def test_projected_rows_have_mean_zero_and_the_eigenvalues_as_variances():
    h = features(700, 40)
    p = projection(h, 5)
    xi = project(h, p.mean, p.W, p.unit).swapaxes(1, 2).reshape(-1, 5)[: len(h)] * p.unit
    np.testing.assert_allclose(xi.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(np.cov(xi.T, bias=True), np.diag(p.variance * p.unit**2), atol=1e-10)
    np.testing.assert_allclose(xi, (h - h.mean(axis=0)) @ p.W, atol=1e-12)


@pytest.mark.parametrize("exponent", [-40, -20, 20, 40])
def test_a_power_of_two_changes_nothing_but_the_variance(exponent):
    h = features(300, 50, dtype="f4")
    plain, scaled = projection(h), projection(h * np.float32(2.0**exponent))
    np.testing.assert_array_equal(plain.W, scaled.W)
    factor = (2.0**exponent / scaled.unit) ** 2
    np.testing.assert_array_equal(plain.variance * factor, scaled.variance)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_extreme_scales_do_not_overflow_single_precision(scale):
    h = features(300, 50, dtype="f4")
    W = projection((h.astype("f8") * scale).astype("f4")).W
    assert np.rad2deg(subspace_angles(W.astype("f8"), projection(h).W.astype("f8")).max()) < 0.01


@pytest.mark.parametrize(("h", "rank"), [
    (np.ones((1, 8)), 0),
    (np.ones((20, 8)), 0),
    (np.outer(np.arange(20.0), np.ones(8)), 1),
    (features(4, 30), 3),
    (features(200, 3) @ features(3, 30, seed=1), 3),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_directions_are_clipped_at_the_rank(h, rank, dtype):
    assert projection(h.astype(dtype)).W.shape[1] == rank


def test_lanczos_that_cannot_converge_falls_back_to_lapack():
    values, vectors = top_eigenvectors(np.eye(200), 10, Solver.FAST)
    np.testing.assert_allclose(values, 1)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(10), atol=1e-10)


SPECTRA = {
    "slow": 1 / np.arange(1.0, 401.0),
    "fast": 0.5 ** np.arange(400.0),
    "steep": 10.0 ** -np.arange(400.0).clip(0, 30),
    "pairs": np.repeat(0.8 ** np.arange(200.0), 2),
    "triples": np.repeat(0.8 ** np.arange(134.0), 3)[:400],
    "nine and noise": np.concatenate([np.full(9, 100.0), np.linspace(1, 0.9, 391)]),
    "one and flat": np.concatenate([[10.0], np.ones(399)]),
    "flat": np.ones(400),
    "linear": np.linspace(1, 0.5, 400),
    "rank 12": np.concatenate([np.arange(12.0, 0, -1), np.zeros(388)]),
    "rank 5": np.concatenate([np.arange(5.0, 0, -1), np.zeros(395)]),
    "twenty equal": np.concatenate([np.ones(20), np.zeros(380)]),
}


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12])
@pytest.mark.parametrize("name", SPECTRA)
def test_any_spectrum_in_single_precision(name, scale):
    spectrum = SPECTRA[name] * scale
    Q, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((400, 400)))
    A = ((Q * spectrum) @ Q.T).astype("f4")
    A = (A + A.T) / 2
    values, U = top_eigenvectors(A, 10, Solver.FAST)
    exact = np.linalg.eigvalsh(A.astype("f8"))[::-1][:10]
    np.testing.assert_allclose(values, exact, atol=1e-5 * exact[0])
    U = U.astype("f8")
    np.testing.assert_allclose(U.T @ U, np.eye(10), atol=1e-5)
    assert np.trace(U.T @ A @ U) == pytest.approx(exact.sum(), rel=1e-4)
    if spectrum[9] > 1.05 * spectrum[10] and spectrum[9] > 1e-3 * spectrum[0]:
        assert np.rad2deg(subspace_angles(U, Q[:, :10]).max()) < 0.1


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("seed", range(6))
def test_an_eigenvalue_of_five_eigenvectors_is_found_five_times(seed):
    spectrum = np.repeat(0.8 ** np.arange(80.0), 5)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((400, 400)))
    values, _ = top_eigenvectors(((Q * spectrum) @ Q.T).astype("f4"), 10, Solver.FAST)
    np.testing.assert_allclose(values, spectrum[:10], atol=1e-5)


@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize("size", [203, 512])
def test_any_number_of_directions(size, count):
    h = features(2000, size, dtype="f4")
    A = h.T @ h
    values, U = top_eigenvectors(A, count, Solver.FAST)
    exact, E = np.linalg.eigh(A.astype("f8"))
    np.testing.assert_allclose(values, exact[::-1][:count], rtol=1e-5)
    assert np.rad2deg(subspace_angles(U.astype("f8"), E[:, -count:]).max()) < 0.1


@pytest.mark.parametrize("n", [100, 9000])
def test_a_mean_far_above_the_spread_does_not_cost_the_directions(n):
    h = features(n, 40, dtype="f4") * np.float32(1 / 64) + np.float32(64)
    centred = h.astype("f8") - h.mean(axis=0, dtype="f8")
    best = np.linalg.eigh(centred.T @ centred)[1][:, -10:]
    p = projection(h)
    np.testing.assert_allclose(p.mean, h.mean(axis=0, dtype="f8"), atol=1e-5)
    assert np.rad2deg(subspace_angles(p.W.astype("f8"), best).max()) < 0.1


@pytest.mark.parametrize("shape", [(300, 128), (128, 300)])
def test_a_covariance_too_large_to_form_gives_the_same_directions(shape, monkeypatch):
    h = features(*shape)
    formed = projection(h)
    monkeypatch.setattr(projection_module, "_SQUARE", 1)
    monkeypatch.setattr(centred, "_KEEP", 1)
    never = projection(h)
    np.testing.assert_allclose(never.W, formed.W, atol=1e-6)
    np.testing.assert_allclose(never.variance, formed.variance, rtol=1e-8)

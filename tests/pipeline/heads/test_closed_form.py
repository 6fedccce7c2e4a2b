"""Heads in closed form against scikit-learn's, and in any order of batches."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import normalize

from pdac_cli.pipeline.heads.closed_form import POWERS, SHRINK, STREAMED, SharedCovariance, StreamedRidge, solved


def data(n=300, seed=0, classes=4, n_features=12):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % classes
    return rng.standard_normal((n, n_features)) * 2 + 1.5 * np.eye(n_features)[codes] + 1, codes, np.arange(n)


def learned(head, h, codes, ids, order, batch=17):
    for start in range(0, len(h), batch):
        rows = order[start : start + batch]
        head.add(h[rows], codes[rows], ids[rows])
    return head


def made(name, classes=4):
    return STREAMED[name](12, classes, 40, 0)


@pytest.mark.parametrize("name", STREAMED)
def test_the_order_of_batches_is_irrelevant(name):
    h, codes, ids = data()
    g = data(seed=1)[0]
    plain = learned(made(name), h, codes, ids, np.arange(300)).classifier()(g)
    by_class = learned(made(name), h, codes, ids, np.argsort(codes, kind="stable"), 75).classifier()(g)
    mixed = learned(made(name), h, codes, ids, np.random.default_rng(3).permutation(300), 1).classifier()(g)
    np.testing.assert_array_equal(plain, by_class)
    np.testing.assert_array_equal(plain, mixed)


@pytest.mark.parametrize("name", STREAMED)
def test_only_classes_that_were_seen_are_answered_and_bytes_do_not_grow(name):
    h, codes, ids = data()
    head, empty = made(name, classes=9), made(name, classes=9).size()
    learned(head, h, codes, ids, np.flatnonzero(codes > 1))
    assert set(head.classifier()(h)) == {2, 3}
    assert head.size() == empty


def test_means_are_scikit_learns():
    h, codes, ids = data()
    g = data(seed=1)[0]
    means = NearestCentroid().fit(normalize(h), codes)
    expected = (normalize(g) @ normalize(means.centroids_).T).argmax(axis=1)
    np.testing.assert_array_equal(learned(made("ncm"), h, codes, ids, np.arange(300)).classifier()(g), expected)


def test_discriminants_are_scikit_learns_to_rounding():
    h, codes, ids = data()
    other = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=SHRINK, priors=np.full(4, 0.25)).fit(h, codes)
    head = learned(SharedCovariance(12, 4), h, codes, ids, np.random.default_rng(0).permutation(300))
    scores = other.decision_function(data(seed=1)[0])
    np.testing.assert_array_equal(head.classifier()(data(seed=1)[0]), scores.argmax(axis=1))
    means = head.sums / head.counts[:, None]
    covariance = (head.products - (means.T * head.counts) @ means) / 300
    shrunk = (1 - SHRINK) * covariance + SHRINK * np.trace(covariance) / 12 * np.eye(12)
    np.testing.assert_allclose(shrunk, other.covariance_, rtol=1e-9)


@pytest.mark.parametrize("name", ["ridge", "ranpac"])
def test_regressions_are_scikit_learns_to_rounding(name):
    h, codes, ids = data()
    head = learned(made(name), h, codes, ids, np.random.default_rng(0).permutation(300))
    x = head.lifted(h)
    out = head.held_out.rows[0]
    assert 30 < out < 90
    c = x - x.mean(axis=0)
    for power in (-3.0, 1.0):
        alpha = 10.0**power * np.square(c).sum() / x.shape[1]
        other = Ridge(alpha=alpha, solver="cholesky").fit(x, np.eye(4)[codes])
        W, b = solved(head.fitted + head.held_out, power)
        np.testing.assert_allclose(W.T, other.coef_, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(b, other.intercept_, rtol=1e-7)


def test_the_ridge_is_the_best_on_the_rows_held_out():
    from pdac_cli.rng import Purpose, row_uniforms

    h, codes, ids = data(n=60)
    head = learned(StreamedRidge(12, 4), h, codes, ids, np.arange(60))
    out = row_uniforms(0, Purpose.HOLD_OUT, ids) < 0.2
    y, c = np.eye(4)[codes], h[~out] - h[~out].mean(axis=0)
    errors = []
    for power in POWERS:
        alpha = 10.0**power * np.square(c).sum() / 12
        found = Ridge(alpha=alpha, solver="cholesky").fit(h[~out], y[~out])
        errors.append(np.square(found.predict(h[out]) - y[out]).sum())
    assert head.best_power() == POWERS[int(np.argmin(errors))]


def test_bytes_are_those_of_the_arrays():
    assert made("ncm").size() == 8 * (4 + 4 * 12)
    assert made("slda").size() == 8 * (4 + 4 * 12 + 12 * 12)
    part = 1 + 12 + 4 + 12 * 12 + 12 * 4
    assert made("ridge").size() == 8 * 2 * part
    part = 1 + 40 + 4 + 40 * 40 + 40 * 4
    assert made("ranpac").size() == 8 * (2 * part + 12 * 40)

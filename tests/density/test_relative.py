"""The relative density against refitting without each row, scikit-learn, and labels of known error rates."""

import numpy as np
import pytest
from sklearn.covariance import shrunk_covariance
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from pdac_cli.density.common_rows import unit_rows
from pdac_cli.density.relative import (
    SHRINK,
    Calibration,
    ClassMoments,
    CommonGaussian,
    CommonSpace,
    calibrate,
    judge,
    log_softmax,
)


def classes(n=60, n_features=5, count=3, seed=0, apart=1.0):
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % count
    h = rng.standard_normal((n, n_features)) + apart * rng.standard_normal((count, n_features))[codes] + 2
    return unit_rows(h), codes


def moments(u, codes, count):
    counts = np.bincount(codes, minlength=count).astype(float)
    mean = np.stack([u[codes == c].mean(axis=0) if counts[c] else np.zeros(u.shape[1]) for c in range(count)])
    v = u - mean[codes]
    return ClassMoments(counts, mean, v.T @ v)


def test_scores_are_log_densities_of_the_shrunk_gaussian():
    """Up to the excess of squared distances from estimated means, which is tr(Σ⁻¹S) over the class's rows."""
    from scipy.stats import multivariate_normal

    u, codes = classes()
    found = moments(u, codes, 3)
    S = found.scatter / 60
    sigma = shrunk_covariance(S, shrinkage=SHRINK)
    excess = np.trace(np.linalg.solve(sigma, S)) / found.counts
    expected = np.stack([multivariate_normal(found.mean[c], sigma).logpdf(u) for c in range(3)], axis=1) + excess / 2
    np.testing.assert_allclose(CommonGaussian(found).scores(u), expected, rtol=1e-10)


def test_a_row_is_left_out_exactly():
    """The closed form is what fitting the means and S anew without the row gives, but for the trace and the excess."""
    u, codes = classes()
    whole = CommonGaussian(moments(u, codes, 3))
    level = np.trace(moments(u, codes, 3).scatter / 60) / 5
    for row in range(0, 60, 7):
        rest = np.delete(np.arange(60), row)
        left = moments(u[rest], codes[rest], 3)
        sigma = (1 - SHRINK) * left.scatter / 60 + SHRINK * level * np.eye(5)
        gaps = u[row] - left.mean
        expected = np.einsum("kd,kd->k", gaps, np.linalg.solve(sigma, gaps.T).T) - whole.excess / left.counts
        scores = whole.scores_without(u[row : row + 1], int(codes[row]))[0]
        np.testing.assert_allclose(-2 * (scores - whole.log_scale), expected, rtol=1e-9)


def test_moments_of_parts_merge_into_those_of_all():
    u, codes = classes(90)
    parts = [moments(u[part], codes[part], 3) for part in (slice(0, 4), slice(4, 50), slice(50, 90))]
    merged = ClassMoments.empty(3, 5)
    for part in parts:
        merged = merged.merged(part)
    whole = moments(u, codes, 3)
    np.testing.assert_allclose(merged.counts, whole.counts)
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(merged.scatter, whole.scatter, rtol=1e-10, atol=1e-14)


def test_the_likeliest_class_is_that_of_linear_discriminant_analysis():
    u, codes = classes(600, apart=0.5)
    found = CommonGaussian(moments(u, codes, 3)).scores(u).argmax(axis=1)
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=SHRINK, priors=np.ones(3) / 3).fit(u, codes)
    assert np.mean(found == lda.predict(u)) > 0.99


@pytest.mark.parametrize("share", [0.0, 0.1, 0.2, 0.4])
def test_the_share_of_wrong_labels_is_estimated(share):
    rng = np.random.default_rng(1)
    u, codes = classes(3000, n_features=40, count=5, apart=1.2)
    wrong = rng.random(3000) < share
    labels = np.where(wrong, (codes + rng.integers(1, 5, 3000)) % 5, codes)
    space = CommonSpace(moments(u, labels, 5), Calibration(), normalize=True)
    scores = np.concatenate([space.scores(u[labels == c], c) for c in range(5)])
    order = np.concatenate([np.flatnonzero(labels == c) for c in range(5)])
    found = calibrate(scores, labels[order])
    judged = judge(scores, labels[order], space.moments.counts, found)
    assert np.mean(1 - judged.right) == pytest.approx(share, abs=0.02)
    suspect = judged.right < 0.5
    if share:
        assert np.mean(wrong[order][suspect]) > 0.9
        assert np.mean(judged.likely[suspect] == codes[order][suspect]) > 0.9
    else:
        assert suspect.mean() < 0.01


def test_tau_undoes_posteriors_that_are_too_sure():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4000, 4))
    p = np.exp(log_softmax(logits))
    codes = (rng.random(4000)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(0, 3)
    found = calibrate(7 * logits, codes)
    assert found.tau == pytest.approx(1 / 7, rel=0.1)
    assert found.epsilon < 0.05


def test_a_class_of_few_rows_is_not_far_from_everything():
    """Without taking the excess off, rows near a mean of three rows would go to the classes of many."""
    rng = np.random.default_rng(0)
    counts = np.array([1000, 1000, 6])
    codes = np.repeat(np.arange(3), counts)
    centres = 0.12 * rng.standard_normal((3, 200)) + 1
    u = unit_rows(centres[codes] + 0.5 * rng.standard_normal((len(codes), 200)))
    gaussian = CommonGaussian(moments(u, codes, 3))
    fresh = unit_rows(centres[2] + 0.5 * rng.standard_normal((400, 200)))
    corrected = np.mean(gaussian.scores(fresh).argmax(axis=1) == 2)
    raw = gaussian.scores(fresh) - gaussian.excess / 2 / counts
    assert corrected > np.mean(raw.argmax(axis=1) == 2) + 0.2


@pytest.mark.parametrize("make", [
    lambda u: np.ones_like(u), lambda u: np.zeros_like(u), lambda u: u[:, :1] * 0 + u[0], lambda u: u * 1e-30,
])  # fmt: skip
def test_degenerate_rows_have_densities(make):
    u, codes = classes()
    space = CommonSpace(moments(make(u), codes, 3), Calibration(), normalize=True)
    assert np.isfinite(space.scores(make(u)[codes == 0], 0)).all()


def test_one_class_alone_and_a_single_row_count_as_right():
    u, codes = classes(10, count=1)
    judged = judge(CommonGaussian(moments(u, codes, 1)).scores(u), 0, np.array([10.0]), Calibration())
    assert (judged.log_r == 0).all()
    assert (judged.right == 1).all()
    scores = np.array([[0.0, 5.0]])
    assert judge(scores, 0, np.array([1.0, 9.0]), Calibration()).right[0] == 1


def test_a_space_of_some_classes():
    u, codes = classes(90)
    space = CommonSpace(moments(u, codes, 3), Calibration(0.5, 0.1), normalize=True)
    assert space.of_classes(np.ones(3, bool), counted=True) is space
    some = space.of_classes(np.array([True, False, True]), counted=False)
    np.testing.assert_allclose(some.scores(u[:5], 0), space.gaussian.scores(u[:5])[:, [0, 2]], rtol=1e-9)


def test_features_that_say_nothing_of_labels_say_nothing_of_wrong_ones():
    codes = np.arange(50) % 5
    assert calibrate(np.zeros((50, 5)), codes).epsilon == 0
    assert calibrate(np.random.default_rng(0).normal(size=(50, 5)), codes).epsilon == 0
    told = np.where(np.eye(5)[np.where(np.arange(500) % 4, np.arange(500), np.arange(500) + 1) % 5] > 0, 0.0, -9.0)
    assert 0.2 < calibrate(told, np.arange(500) % 5).epsilon < 0.45

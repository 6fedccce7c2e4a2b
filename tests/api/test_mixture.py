"""The mixture as an estimator: SciPy's densities, the command's files, scikit-learn's tools."""

import pickle

import h5py
import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pdac_cli import InputError, ParameterError, PdacWarning, ProjectedGaussianMixture
from pdac_cli.density.posterior import log_joint, rest_variance
from pdac_cli.errors import ModelError
from pdac_cli.files.results.model import read_model
from tests.oracles import clustered


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(400) % 3)
    return clustered(400, 6, 3) + 2 * y[:, None], y


def mixture(**more):
    return ProjectedGaussianMixture(**{"n_components": 2, "n_dims": 3, "normalize": False, **more})


def log_density(fitted, X, c):
    """log p(ξ | y) of rows by SciPy, from the attributes alone."""
    xi = (X - fitted.class_means_[c]) @ fitted.components_[c]
    parts = [
        np.log(weight) + multivariate_normal(mean, covariance).logpdf(xi)
        for weight, mean, covariance in zip(fitted.weights_[c], fitted.means_[c], fitted.covariances_[c], strict=True)
    ]
    return np.logaddexp.reduce(parts, axis=0)


def test_scores_are_scipys_densities_of_the_projections(rows):
    X, y = rows
    fitted = mixture().fit(X, y)
    told = np.empty(len(X))
    for c in range(3):
        told[y == c] = log_density(fitted, X[y == c], c) + np.log(np.mean(y == c))
    np.testing.assert_allclose(fitted.score_samples(X, y), told, rtol=1e-9)


@pytest.mark.parametrize("n_dims", [3, 6])
def test_classes_are_compared_by_densities_of_the_whole_space(rows, n_dims):
    """Each class's density as one of D dimensions: the mixture's covariances in its directions, v in the others."""
    X, y = rows
    fitted = mixture(n_dims=n_dims).fit(X, y)
    W, v = fitted.components_, fitted.rest_variance_
    joint = np.empty((len(X), 3))
    for c in range(3):
        outside = v * (np.eye(6) - W[c] @ W[c].T)
        parts = [
            np.log(weight)
            + multivariate_normal(fitted.class_means_[c] + W[c] @ mean, W[c] @ covariance @ W[c].T + outside).logpdf(X)
            for weight, mean, covariance in zip(
                fitted.weights_[c], fitted.means_[c], fitted.covariances_[c], strict=True
            )
        ]
        joint[:, c] = np.logaddexp.reduce(parts, axis=0) + np.log(np.mean(y == c))
    np.testing.assert_allclose(fitted.transform(X), joint, rtol=1e-7)
    chances = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
    np.testing.assert_allclose(fitted.predict_proba(X), chances, atol=1e-9)
    np.testing.assert_array_equal(fitted.predict(X), chances.argmax(axis=1))
    np.testing.assert_allclose(fitted.score_samples(X), np.logaddexp.reduce(joint, axis=1), rtol=1e-7)
    if n_dims == 6:  # nothing is outside
        np.testing.assert_allclose(fitted.score_samples(X, y), joint[np.arange(len(X)), y], rtol=1e-9)


def test_the_variance_outside_is_that_of_the_rows(rows):
    X, y = rows
    fitted = mixture(floor=1e-12).fit(X, y)
    beyond = total = 0.0
    for c in range(3):
        x = X[y == c] - fitted.class_means_[c]
        beyond += np.square(x - x @ fitted.components_[c] @ fitted.components_[c].T).sum()
        total += np.square(x).sum()
    assert fitted.rest_variance_ == pytest.approx(beyond / (len(X) * 3), rel=1e-6)
    assert rest_variance(fitted.model_, total / len(X)) == pytest.approx(fitted.rest_variance_, rel=1e-9)


def test_without_what_is_outside_classes_cannot_be_told_apart():
    """Why it is added: three balls far apart, of which two directions each say next to nothing."""
    rng = np.random.default_rng(0)
    means, y = rng.normal(size=(3, 200)), rng.integers(0, 3, 600)
    X = means[y] + rng.normal(size=(600, 200))
    fitted = mixture(n_dims=2, n_components=1).fit(X[:300], y[:300])
    assert fitted.score(X[300:], y[300:]) == 1
    alone = np.stack([fitted.score_samples(X[300:], np.full(300, c)) for c in range(3)], axis=1)
    assert np.mean(alone.argmax(axis=1) == y[300:]) < 0.7


def test_rows_drawn_have_the_moments_of_the_model(rows):
    X, y = rows
    fitted = mixture(random_state=5).fit(X, y)
    drawn, labels = fitted.sample(60_000)
    assert drawn.shape == (60_000, 6)
    for c in range(3):
        mine, theirs = drawn[labels == c], X[y == c]
        assert len(mine) / 60_000 == pytest.approx(np.mean(y == c), abs=0.01)
        spread = np.sqrt(theirs.var(axis=0))
        np.testing.assert_allclose(mine.mean(axis=0), theirs.mean(axis=0), atol=0.05 * spread.max())
    again = mixture(random_state=6, n_components=1).fit(drawn, labels)
    assert again.rest_variance_ == pytest.approx(fitted.rest_variance_, rel=0.05)
    np.testing.assert_array_equal(fitted.sample(5)[0], fitted.sample(5)[0])
    with pytest.raises(ParameterError, match="n_samples is 0"):
        fitted.sample(0)


def test_one_class_in_all_directions_is_scikit_learns_mixture():
    X = clustered(500, 4, 2)
    ours = mixture(n_components=1, n_dims=4, floor=1e-12).fit(X, np.zeros(500, int))
    theirs = GaussianMixture(1, reg_covar=0).fit(X)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=1e-6)


@pytest.mark.parametrize("text", [False, True])
def test_files_are_those_of_the_command(pdac, tmp_path, rows, text):
    X, y = rows
    labels = np.array(["ant", "bee", "cat"], object)[y] if text else y
    with h5py.File(tmp_path / "feats.h5", "w") as file:
        file["features"], file["labels"] = X, labels
    theirs, ours = tmp_path / "theirs.h5", tmp_path / "ours.h5"
    command = ["--dim", 3, "--components", 2, "--no-normalize", "--seed", 4]
    assert pdac("fit", tmp_path / "feats.h5", "-o", theirs, *command).code == 0
    fitted = mixture(random_state=4).fit(X, labels)
    fitted.to_file(ours)
    assert ours.read_bytes() == theirs.read_bytes()
    by_path = mixture(random_state=4).fit(tmp_path / "feats.h5")
    by_path.to_file(tmp_path / "again.h5")
    assert (tmp_path / "again.h5").read_bytes() == theirs.read_bytes()
    back = ProjectedGaussianMixture.from_file(theirs)
    np.testing.assert_array_equal(back.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(back.classes_, fitted.classes_)
    assert back.get_params() == fitted.get_params()
    assert pdac("select", "--budget", 9, tmp_path / "feats.h5", "--model", ours).code == 0
    with pytest.raises(InputError, match=r"none\.h5: not found; expected a model file"):
        ProjectedGaussianMixture.from_file(tmp_path / "none.h5")


def test_the_streaming_em_is_that_of_the_command(pdac, tmp_path, rows):
    X, y = rows
    with h5py.File(tmp_path / "feats.h5", "w") as file:
        file["features"], file["labels"] = X, y
    told = tmp_path / "model.h5"
    result = pdac("stream", "--budget", 9, tmp_path / "feats.h5", "-o", tmp_path / "b.json", "--model", told,
                  "--density", "class", "--dim", 3, "--components", 2, "--batch", 50)  # fmt: skip
    assert result.code == 0, result.err
    stream = mixture()
    for start in range(0, 400, 50):
        stream.partial_fit(X[start : start + 50], y[start : start + 50])
    stream.to_file(tmp_path / "ours.h5")
    one, other = (read_model(path).model for path in (told, tmp_path / "ours.h5"))
    for name in ("labels", "counts", "mean", "W", "alpha", "mu", "chol"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    whole = mixture().fit(X, y)
    assert stream.rest_variance_ == pytest.approx(whole.rest_variance_, rel=1e-4)
    assert stream.score(X, y) > whole.score(X, y) - 0.05
    file_only = ProjectedGaussianMixture.from_file(told)
    np.testing.assert_allclose(file_only.set_params(normalize=False).score_samples(X, y), stream.score_samples(X, y))
    with pytest.raises(ModelError, match="no variance outside"):
        file_only.predict(X)


def test_classes_may_come_late_and_texts_count_as_they_come(rows):
    X, y = rows
    names = np.array(["zebra", "ape", "cow"])[y]
    stream = mixture()
    for c in ("cow", "ape", "zebra"):
        stream.partial_fit(X[names == c], names[names == c])
    assert stream.classes_.tolist() == ["ape", "cow", "zebra"]
    assert stream.class_count_.tolist() == [np.sum(names == c) for c in stream.classes_]
    assert stream.score(X, names) > 0.8
    with pytest.raises(InputError, match="another kind"):
        stream.partial_fit(X, y)
    with pytest.raises(InputError, match="'ape', which is not in classes"):
        clone(stream).partial_fit(X, names, classes=["cow", "zebra"])
    fitted = mixture().fit(X, names)
    with pytest.warns(PdacWarning, match="what fit found is forgotten"):
        fitted.partial_fit(X, names)


def test_scikit_learns_tools_work(rows):
    X, y = rows
    pipe = make_pipeline(StandardScaler(), mixture()).set_output(transform="pandas")
    search = GridSearchCV(pipe, {"projectedgaussianmixture__n_dims": [2, 6]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.8
    table = search.best_estimator_.transform(X)
    assert list(table.columns) == [f"projectedgaussianmixture{c}" for c in range(3)]
    fitted = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(fitted.predict_proba(X), search.predict_proba(X))
    stream = pickle.loads(pickle.dumps(mixture().partial_fit(X, y)))
    assert stream.partial_fit(X, y).class_count_.sum() == 2 * len(X)


@pytest.mark.parametrize(("given", "message"), [
    ({"n_components": 0}, "n_components is 0; expected at least 1"),
    ({"n_dims": 2.5}, "n_dims is 2.5; expected at least 1"),
    ({"floor": -1.0}, "floor is -1.0; expected a number of 1e-12 or more"),
    ({"normalize": "no"}, "normalize is 'no'; expected True or False"),
    ({"random_state": -1}, "random_state is -1; expected a whole number from 0"),
    ({"random_state": "x"}, "random_state is 'x'; expected a whole number, a generator"),
    ({"memory": "1Q"}, "memory is '1Q'"),
])  # fmt: skip
def test_parameters_are_named_and_checked(rows, given, message):
    with pytest.raises(ParameterError) as problem:
        mixture(**given).fit(*rows)
    assert message in str(problem.value)


def test_labels_that_were_not_fitted_are_refused(rows):
    X, y = rows
    with pytest.raises(InputError, match="y has 8; expected labels that were fitted"):
        mixture().fit(X, y).score_samples(X, y + 7)


def test_log_joint_of_a_model_without_directions_is_a_ball():
    X = np.array([[0.0, 0.0], [1.0, 0.0]])
    with pytest.warns(PdacWarning, match="flat density"):
        flat = mixture(n_components=1, n_dims=2).fit(X, np.array([0, 1]))
    v = 0.25
    told = np.stack([np.log(0.5) - np.square(X - x).sum(axis=1) / (2 * v) - np.log(2 * np.pi * v) for x in X], axis=1)
    np.testing.assert_allclose(log_joint(flat.model_, v, X), told)

"""The heads against scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.preprocessing import normalize

from pdac_cli.arrays import Chunk
from pdac_cli.options.heads import Classifier
from pdac_cli.pipeline.heads.classifiers import FeatureScale, accuracies, train_classifier


def rows(n, seed, n_features=30):
    rng = np.random.default_rng(seed)
    y = 3 + 2 * (np.arange(n) % 4)
    return (rng.standard_normal((n, n_features)) * 3 + 2 * np.eye(n_features)[y] + 1).astype("f4"), y


def answered(kind, h, y, g, scale):
    head = train_classifier(kind, h, y, scale)
    return head.answer(head.prepare(scale, g))


@pytest.mark.parametrize("kept", [12, 80])  # fewer rows than features, and more
def test_heads_answer_as_scikit_learns_do(kept):
    (every, _), (h, y), (g, _) = rows(400, 0), rows(kept, 1), rows(300, 2)
    scale = FeatureScale.of(every)
    x, t = scale.standardized(h).astype("f8"), scale.standardized(g).astype("f8")
    logistic = LogisticRegression(max_iter=2000, tol=1e-8).fit(x, y).predict(t)
    assert np.mean(answered(Classifier.LOGISTIC, h, y, g, scale) == logistic) > 0.98  # to the solver's tolerance
    ridge = Ridge(alpha=h.shape[1]).fit(x, np.eye(4)[np.unique(y, return_inverse=True)[1]]).predict(t)
    np.testing.assert_array_equal(answered(Classifier.RIDGE, h, y, g, scale), np.unique(y)[ridge.argmax(axis=1)])
    nearest = KNeighborsClassifier(1).fit(normalize(h), y).predict(normalize(g))
    np.testing.assert_array_equal(answered(Classifier.NEAREST, h, y, g, scale), nearest)
    means = NearestCentroid().fit(normalize(h), y)
    by_direction = means.classes_[(normalize(g) @ normalize(means.centroids_).T).argmax(axis=1)]
    np.testing.assert_array_equal(answered(Classifier.NCM, h, y, g, scale), by_direction)


def test_one_class_is_always_answered():
    h = np.random.default_rng(0).standard_normal((5, 4))
    scale = FeatureScale.of(h)
    for kind in Classifier:
        assert set(answered(kind, h, np.full(5, 7), h, scale)) == {7}


def test_accuracy_is_the_share_that_is_right_however_the_test_rows_come():
    (h, y), (g, z) = rows(40, 0), rows(50, 1)
    scale = FeatureScale.of(h)
    heads = [train_classifier(kind, h, y, scale) for kind in Classifier]
    chunks = [Chunk(np.arange(a, b), g[a:b], z[a:b]) for a, b in ((0, 7), (7, 50))]
    found = accuracies(heads, chunks, scale)
    assert found == [np.mean(answered(kind, h, y, g, scale) == z) for kind in Classifier]

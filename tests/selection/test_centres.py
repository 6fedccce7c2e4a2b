"""k-center and k-means++ against brute force, scikit-learn and the exact distribution of the seeding."""

import itertools

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

from pdac_cli.selection.centres import Distances, farthest_first, squared_distance_seeding
from tests.oracles import clustered, features
from tests.selection.arrays import pool_of, request


def brute_force_farthest_first(h, m):
    chosen = [0]
    while len(chosen) < m:
        distance = [
            min(np.sum((row - h[c]) ** 2) for c in chosen) if i not in chosen else -1 for i, row in enumerate(h)
        ]
        chosen.append(int(np.argmax(distance)))
    return chosen


@pytest.mark.parametrize(("n", "dim", "m"), [(60, 3, 12), (40, 8, 40), (5000, 16, 7)])
def test_farthest_first_is_brute_force(n, dim, m):
    h = clustered(n, dim, 5, seed=n)
    assert farthest_first(pool_of(h), m, request(m, n)).places.tolist() == brute_force_farthest_first(h, m)


def test_the_radius_is_at_most_twice_the_best():
    """Gonzalez's guarantee, the best radius by enumeration."""
    h = clustered(14, 2, 4, seed=3)
    gaps = np.linalg.norm(h[:, None] - h[None], axis=2)
    best = min(gaps[:, list(some)].min(axis=1).max() for some in itertools.combinations(range(14), 4))
    found = gaps[:, farthest_first(pool_of(h), 4, request(4, 14)).places].min(axis=1).max()
    assert best <= found <= 2 * best


def test_distances_hold_far_from_the_origin_in_float32():
    h = features(3000, 32, seed=1).astype("f4") + np.float32(1000)
    exact = np.sum((h.astype("f8") - h[5].astype("f8")) ** 2, axis=1)
    np.testing.assert_allclose(Distances(pool_of(h)).to(5), exact, rtol=2e-2, atol=0.02)
    centred = h - np.float32(1000)
    np.testing.assert_allclose(Distances(pool_of(centred)).to(5), exact, rtol=1e-4, atol=1e-3)


def seeding_probabilities(h, m):
    """P(ordered outcome) of D² seeding, by enumeration."""
    out = {}
    for outcome in itertools.permutations(range(len(h)), m):
        probability = 1 / len(h)
        for step in range(1, m):
            d = np.min([np.sum((h - h[c]) ** 2, axis=1) for c in outcome[:step]], axis=0)
            probability *= d[outcome[step]] / d.sum()
        out[outcome] = probability
    return out


def test_seeding_draws_by_squared_distance_as_enumerated_and_as_scikit_learn_does():
    from sklearn.cluster import kmeans_plusplus

    h, m, trials = np.array([[0.0], [1.0], [2.5], [6.0]]), 3, 2000
    expected = seeding_probabilities(h, m)
    counts = np.zeros((2, len(expected)))
    where = {outcome: k for k, outcome in enumerate(expected)}
    for seed in range(trials):
        ours = tuple(squared_distance_seeding(pool_of(h), m, request(m, 4, seed=seed)).places.tolist())
        theirs = tuple(kmeans_plusplus(h, m, random_state=seed, n_local_trials=1)[1].tolist())
        counts[0, where[ours]] += 1
        counts[1, where[theirs]] += 1
    assert chisquare(counts[0], trials * np.array(list(expected.values()))).pvalue > 1e-3
    assert chi2_contingency(counts).pvalue > 1e-3


def test_seeding_goes_on_where_only_duplicates_are_left():
    h = np.repeat([[0.0, 0.0], [3.0, 1.0]], 6, axis=0)
    places = squared_distance_seeding(pool_of(h), 12, request(12, 12)).places.tolist()
    assert sorted(places) == list(range(12))
    assert {places[0] // 6, places[1] // 6} == {0, 1}

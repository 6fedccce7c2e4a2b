"""OCS and GCR against gradients that are formed, and exact solvers."""

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.special import softmax

from pdac_cli.errors import UsageError
from pdac_cli.options.select import Allocation
from pdac_cli.selection.baselines.gcr import BETA, RIDGE, match, ridge_nnls
from pdac_cli.selection.baselines.ocs import (
    BATCH,
    CODE_BATCH,
    OF_BATCH,
    best_of_batches,
    drawn_from_best,
    scores,
)
from pdac_cli.selection.gradients import along, gram, residuals, total_gradient
from pdac_cli.selection.interface import Reference
from tests.selection.arrays import pool_of, request


def problem(n, dim=5, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return rng.standard_normal((n, dim)) + y[:, None], y, rng.standard_normal((n, classes)) + np.eye(classes)[y]


def formed(h, y, z):
    """The gradients as what they are: outer products, flattened."""
    e = softmax(z, axis=1) - np.eye(z.shape[1])[y]
    return np.stack([np.outer(a, np.append(b, 1)).ravel() for a, b in zip(e, h, strict=True)])


def test_inner_products_are_those_of_the_gradients():
    h, y, z = problem(30)
    g, e = formed(h, y, z), residuals(z, y)
    np.testing.assert_allclose(gram(h, e, h[:7], e[:7]), g @ g[:7].T, atol=1e-12)
    np.testing.assert_allclose(total_gradient(h, e).ravel(), g.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(along(h, e, total_gradient(h, e)), g @ g.sum(axis=0), atol=1e-10)


def test_residuals_are_the_derivative_of_the_cross_entropy():
    _, y, z = problem(6)
    for i in range(6):
        for k in range(3):
            step = np.zeros_like(z)
            step[i, k] = 1e-6
            up, down = (-np.log(softmax(z + sign * step, axis=1))[i, y[i]] for sign in (1, -1))
            assert residuals(z, y)[i, k] == pytest.approx((up - down) / 2e-6, abs=1e-8)


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


@pytest.mark.parametrize("stored", [0, 9])
def test_ocs_scores_are_their_definition(stored):
    h, y, z = problem(20)
    g = formed(h, y, z)
    reference = None
    if stored:
        rh, ry, rz = problem(stored, seed=5)
        reference, mean_stored = Reference(rh, residuals(rz, ry)), formed(rh, ry, rz).mean(axis=0)
    expected = []
    for i in range(20):
        others = np.mean([cosine(g[i], g[j]) for j in range(20) if j != i])
        expected.append(cosine(g[i], g.mean(axis=0)) - others + (10 * cosine(g[i], mean_stored) if stored else 0))
    np.testing.assert_allclose(scores(h, residuals(z, y), reference, 10.0), expected, atol=1e-10)


def batch_of(n, size):
    """Which mini-batch each row is dealt into."""
    from pdac_cli.rng import Purpose, row_uniforms

    order = np.argsort(row_uniforms(0, Purpose.BATCH, np.arange(n)), kind="stable")
    batch = np.empty(n, int)
    for b, members in enumerate(np.array_split(order, -(-n // size))):
        batch[members] = b
    return batch


def test_ocs_keeps_the_best_of_each_batch_and_ranks_by_score():
    h, y, z = problem(3 * BATCH)
    ranking = best_of_batches(pool_of(h, y, z), request(30, np.bincount(y))).ranking
    assert (np.diff(ranking.score) <= 0).all()
    one = best_of_batches(pool_of(h[:200], y[:200], z[:200]), request(10, np.bincount(y[:200]))).ranking
    expected = np.argsort(-scores(h[:200], residuals(z[:200], y[:200]), None, 0))[:10]
    np.testing.assert_array_equal(one.ids, expected)
    # Ten of each batch, wherever its best stand among all.
    assert np.bincount(batch_of(3 * BATCH, BATCH)[ranking.ids]).tolist() == [10, 10, 10]


def test_ocs_fills_the_classes_alike_from_scores_of_mixed_batches():
    h, y, z = problem(200)
    ranking = best_of_batches(pool_of(h, y, z), request(15, np.bincount(y), Allocation.BALANCED)).ranking
    score = scores(h, residuals(z, y), None, 0)
    for label in range(3):
        mine = np.flatnonzero(y == label)
        best = mine[np.argsort(-score[mine], kind="stable")[:5]]
        assert set(ranking.ids[y[ranking.ids] == label].tolist()) == set(best.tolist())


def test_ocs_as_its_code_draws_from_the_best_ten_of_every_fifty():
    h, y, z = problem(400)
    asked = request(40, np.bincount(y), Allocation.BALANCED)
    rows = drawn_from_best(pool_of(h, y, z), asked).ranking.ids
    batch = batch_of(400, CODE_BATCH)
    best = set()
    for b in range(8):
        members = np.flatnonzero(batch == b)
        score = scores(h[members], residuals(z[members], y[members]), None, 0)
        best |= set(members[np.argsort(-score, kind="stable")[:OF_BATCH]].tolist())
    assert {y[row] for row in best} == {2}  # whose gradients are the longest: of the others any rows fill up
    assert set(rows[y[rows] == 2].tolist()) <= best
    assert np.bincount(y[rows]).max() - np.bincount(y[rows]).min() <= 1
    many = drawn_from_best(pool_of(h, y, z), request(390, np.bincount(y), Allocation.BALANCED)).ranking.ids
    assert len(set(many.tolist())) == 390


def test_ocs_follows_the_stored_rows():
    h, y, z = problem(150)
    g, e = formed(h, y, z), residuals(z, y)
    reference = Reference(h[:5], e[:5])
    ranking = best_of_batches(pool_of(h, y, z), request(20, [50, 50, 50], reference=reference)).ranking
    towards = [cosine(row, g[:5].mean(axis=0)) for row in g]
    np.testing.assert_array_equal(ranking.ids, np.argsort(-np.array(towards))[:20])


def brute_force_omp(g, m, ridge):
    """Matching pursuit on gradients that are formed, all weights by scipy's non-negative least squares."""
    target, chosen, left = g.sum(axis=0), [], g.sum(axis=0)
    while len(chosen) < m:
        agree = g @ left
        agree[chosen] = -np.inf
        if agree.max() <= 0:
            break
        chosen.append(int(np.argmax(agree)))
        stacked = np.concatenate([g[chosen].T, np.sqrt(ridge) * np.eye(len(chosen))])
        w, _ = nnls(stacked, np.concatenate([target, np.zeros(len(chosen))]))
        left = target - g[chosen].T @ w
    return chosen, w


@pytest.mark.parametrize("seed", range(4))
def test_gcr_is_matching_pursuit_on_formed_gradients(seed):
    h, y, z = problem(40, seed=seed)
    expected, _ = brute_force_omp(BETA * formed(h, y, z), 12, RIDGE)
    picked = match(pool_of(h, y, z), 12, request(12, np.bincount(y)))
    assert picked.places[: len(expected)].tolist() == expected


@pytest.mark.parametrize("signs", ["positive", "mixed"])
def test_the_weights_are_the_exact_solution(signs):
    rng = np.random.default_rng(1)
    g = rng.standard_normal((8, 30)) + (2 if signs == "positive" else 0)
    target = g.T @ rng.uniform(0.5, 2, 8) if signs == "positive" else rng.standard_normal(30)
    w = ridge_nnls(g @ g.T, g @ target, RIDGE)
    exact, _ = nnls(np.concatenate([g.T, np.sqrt(RIDGE) * np.eye(8)]), np.concatenate([target, np.zeros(8)]))
    np.testing.assert_allclose(w, exact, atol=1e-8)
    assert (w == 0).any() == (signs == "mixed")


def test_all_of_gcrs_budget_matches_better_than_rows_at_random():
    h, y, z = problem(200)
    g = BETA * formed(h, y, z)

    def gap(rows):
        stacked = np.concatenate([g[rows].T, np.sqrt(RIDGE) * np.eye(len(rows))])
        return nnls(stacked, np.concatenate([g.sum(axis=0), np.zeros(len(rows))]))[1]

    ours = gap(match(pool_of(h, y, z), 10, request(10, np.bincount(y))).places)
    others = [gap(np.random.default_rng(s).permutation(200)[:10]) for s in range(30)]
    assert ours < min(others)


def test_gcr_fills_at_random_when_nothing_is_left_to_match():
    h, y, _ = problem(30)
    certain = 1000 * np.eye(3)[y]  # no gradient at all
    ids = [match(pool_of(h, y, certain), 9, request(9, np.bincount(y), seed=s)).places.tolist() for s in (0, 1)]
    assert ids[0] != ids[1]
    assert len(set(ids[0])) == 9


def test_gcr_says_when_memory_is_short():
    h, y, z = problem(40)
    with pytest.raises(UsageError, match=r"2,560 bytes, and --memory is 1,000; .* --allocation per-class"):
        match(pool_of(h, y, z), 8, request(8, np.bincount(y), memory=1000))

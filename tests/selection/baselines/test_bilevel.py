"""The bilevel methods: derivatives against finite differences, and toys whose answer is known by enumeration."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

from pdac_cli.options.methods import BcsrOptions, OwnOptions, Version
from pdac_cli.selection.baselines import bcsr as bcsr_module
from pdac_cli.selection.baselines import greedy as greedy_module
from pdac_cli.selection.baselines.bcsr import (
    CODE_STEP,
    code_weights,
    hypergradient,
    stable_step,
    top_share,
    trained_head,
    weights,
)
from pdac_cli.selection.baselines.greedy import RIDGE, implicit_gradient, solve_inner
from pdac_cli.selection.baselines.linear import ScaledRows, gradient, hessian_product, probabilities
from pdac_cli.selection.baselines.pbcs import estimate, probabilities_of_rows, train
from tests.selection.arrays import ArrayRows, pool_of, request, select

CLASSES = 3


def problem(n=24, dim=3, seed=0):
    """Classes that overlap, so that the inner problem has a minimum."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % CLASSES
    return rng.standard_normal((n, dim)) + 0.7 * np.eye(CLASSES)[y][:, :dim], y


def rows_of(h, y, memory=1 << 30):
    return ScaledRows(pool_of(h, y), CLASSES, memory)


def loss(x, y, w, theta):
    """Σ w_i cross-entropy, by scipy."""
    return -w @ log_softmax(x @ theta.T, axis=1)[np.arange(len(y)), y]


def minimum(x, y, w, ridge=0.0):
    """The head that minimises the weighted loss, by Newton's method with scipy's own Hessian-free solver."""
    shape = (CLASSES, x.shape[1])
    found = minimize(
        lambda t: loss(x, y, w, t.reshape(shape)) + ridge * t @ t,
        np.zeros(shape).ravel(),
        jac=lambda t: gradient(x, y, w, t.reshape(shape)).ravel() + 2 * ridge * t,
        method="BFGS",
        options={"gtol": 1e-10, "maxiter": 3000},
    )
    return found.x.reshape(shape)


def everything(rows):
    return rows.take(np.arange(rows.count))


def test_rows_are_scaled_to_unit_mean_length_and_kept_or_made_again_alike():
    h, y = problem(5000)
    one, other = rows_of(h, y), rows_of(1000 * h + 7, y, memory=0)
    assert one.kept
    assert not other.kept
    assert one.squares.mean() == pytest.approx(2)
    np.testing.assert_allclose(everything(one), everything(other), atol=1e-9)
    theta = np.random.default_rng(0).standard_normal((CLASSES, 4))
    np.testing.assert_allclose(one.gradient(theta, np.ones(5000)), other.gradient(theta, np.ones(5000)), atol=1e-7)


def test_gradient_and_hessian_are_finite_differences():
    h, y = problem()
    x, rng = everything(rows_of(h, y)), np.random.default_rng(1)
    w, theta, direction = rng.random(24), *rng.standard_normal((2, CLASSES, 4))
    step = 1e-6 * direction
    slope = (loss(x, y, w, theta + step) - loss(x, y, w, theta - step)) / 2e-6
    assert np.sum(gradient(x, y, w, theta) * direction) == pytest.approx(slope, rel=1e-6)
    change = (gradient(x, y, w, theta + step) - gradient(x, y, w, theta - step)) / 2e-6
    np.testing.assert_allclose(hessian_product(x, w, probabilities(x, theta), direction), change, atol=1e-6)


def test_passes_over_all_rows_are_the_sums_they_stand_for():
    h, y = problem(4500)  # three blocks
    rows, rng = rows_of(h, y), np.random.default_rng(1)
    x, w, (theta, direction) = everything(rows), rng.random(4500), rng.standard_normal((2, CLASSES, 4))
    np.testing.assert_allclose(rows.gradient(theta, w), gradient(x, y, w, theta), atol=1e-8)
    np.testing.assert_allclose(
        rows.hessian_product(theta, w, direction),
        hessian_product(x, w, probabilities(x, theta), direction),
        atol=1e-8,
    )
    each = [np.sum(gradient(x[[i]], y[[i]], np.ones(1), theta) * direction) for i in range(20)]
    np.testing.assert_allclose(rows.along(theta, direction)[:20], each, atol=1e-10)
    np.testing.assert_allclose(rows.losses(theta[None])[0], loss(x, y, np.full(4500, 1 / 4500), theta), rtol=1e-10)


@pytest.mark.parametrize("terms", [1, 2, 3])
def test_the_hypergradient_is_that_of_the_last_steps_of_descent(terms):
    """At the inner minimum, q terms of the series are the derivative through q steps of gradient descent."""
    h, y = problem()
    rows, rng = rows_of(h, y), np.random.default_rng(2)
    x, w = everything(rows), rng.dirichlet(np.ones(24))
    start, step = minimum(x, y, w), stable_step(w, rows.squares)

    def outer(v):
        theta = start
        for _ in range(terms):
            theta = theta - step * gradient(x, y, v, theta)
        return loss(x, y, np.full(24, 1 / 24), theta)

    found = hypergradient(rows, start, w, step, terms)
    for i in range(0, 24, 5):
        tiny = 1e-6 * np.eye(24)[i]
        assert found[i] == pytest.approx((outer(w + tiny) - outer(w - tiny)) / 2e-6, abs=1e-6)


def test_many_terms_are_the_derivative_through_the_minimum_itself():
    h, y = problem()
    rows = rows_of(h, y)
    x, w = everything(rows), np.random.default_rng(3).dirichlet(10 * np.ones(24))
    found = hypergradient(rows, minimum(x, y, w), w, stable_step(w, rows.squares), 3000)
    even = np.full(24, 1 / 24)
    for i in (0, 7, 15):
        tiny = 1e-4 * np.eye(24)[i]
        up, down = (loss(x, y, even, minimum(x, y, w + sign * tiny)) for sign in (1, -1))
        assert found[i] == pytest.approx((up - down) / 2e-4, abs=2e-4)


def test_the_regulariser_is_a_finite_difference_and_pulls_toward_the_largest():
    rng = np.random.default_rng(4)
    w, noise = rng.dirichlet(np.ones(12)), rng.standard_normal((16, 12)) * 0.05

    def smoothed(v):
        return np.mean([np.sort(v + z)[-4:].sum() for z in noise])

    found = top_share(w, 4, noise)
    for i in range(12):
        tiny = 1e-9 * np.eye(12)[i]
        assert found[i] == pytest.approx((smoothed(w + tiny) - smoothed(w - tiny)) / 2e-9, abs=1e-5)
    assert found[np.argmax(w)] == found.max()
    assert found.sum() == pytest.approx(4)


def outer_losses(name, seeds):
    """The loss on all rows of heads trained on 12 of 120 rows: those a method chooses, and random ones."""
    rng, n = np.random.default_rng(0), 120
    y = np.arange(n) % 3
    h = rng.standard_normal((n, 5)) + 2 * np.eye(5)[y]
    rows = rows_of(h, y)

    def outer(places):
        theta = solve_inner(rows.take(places), y[places], np.ones(len(places)), np.zeros((3, 6)))
        return rows.losses(theta[None])[0]

    own = OwnOptions(bcsr=BcsrOptions(version=Version.PAPER))
    chosen = [outer(select(name, ArrayRows(h, y), 12, seed=seed, own=own).ranking.ids) for seed in range(seeds)]
    return np.array(chosen), np.array([outer(rng.permutation(n)[:12]) for _ in range(40)])


@pytest.mark.parametrize(("name", "seeds", "share"), [("bcsr", 4, 0.2), ("pbcs", 1, 0.2), ("greedy", 4, 0.45)])
def test_heads_trained_on_the_chosen_rows_lose_less_than_on_most_random_ones(name, seeds, share):
    chosen, random = outer_losses(name, seeds)
    assert np.mean(random < chosen[:, None]) < share


def test_bcsrs_weights_become_a_coreset_of_the_size_asked_for():
    h, y = problem(120)
    w = weights(rows_of(h, y), request(12, np.bincount(y)))
    assert w.sum() == pytest.approx(1)
    assert np.sort(w)[-12:].sum() > 0.9
    as_paper = OwnOptions(bcsr=BcsrOptions(version=Version.PAPER))
    ranking = select("bcsr", ArrayRows(h, y), 12, own=as_paper).ranking
    np.testing.assert_allclose(ranking.score, w[ranking.ids])


def test_bcsrs_published_steps_are_a_derivative_through_four_steps_of_descent():
    """Four terms of the series are the derivative through four steps, as long as the head stays where it was."""
    h, y = problem(50)
    rows = rows_of(h, y)
    x, theta = everything(rows), trained_head(rows)
    first = theta - CODE_STEP * gradient(x, y, np.full(50, 1 / 50**2), theta)

    def outer(w):
        share = np.exp(w) / np.exp(w).sum()
        moved = first
        slopes = gradient(x, y, share / 50, first)  # the derivative is taken where the head is
        for _ in range(4):
            change = hessian_product(x, np.full(50, 1 / 50**2), probabilities(x, first), moved - first)
            moved = moved - CODE_STEP * (slopes + change)
        return moved

    even, target = np.full(50, 1 / 50), rows.gradient(first, np.full(50, 1 / 50))
    slope = [np.sum((outer(even + t) - outer(even - t)) * target) / 2e-6 for t in 1e-6 * np.eye(50)]
    one_step = even - CODE_STEP * np.array(slope) / CODE_STEP
    found = code_weights_after(x, y, theta, 1)
    np.testing.assert_allclose(found, one_step - one_step.mean() + 1 / 50, atol=1e-6)


def code_weights_after(x, y, theta, steps):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bcsr_module, "CODE_OUTER", steps)
        return code_weights(x, y, theta)


def test_bcsr_as_its_code_fills_the_classes_from_candidates_and_any_budget():
    h, y = problem(240)
    for budget in (12, 200, 240):
        rows = select("bcsr", ArrayRows(h, y), budget).ranking.ids
        assert len(set(rows.tolist())) == budget
        assert np.ptp(np.bincount(y[rows])) <= 1


def test_greedys_candidates_are_compared_by_the_derivative_with_the_hessian_formed():
    """Against the dense Hessian, of the mean over coreset and candidates, at the weights after Adam's first step."""
    h, y = problem(60)
    rows = rows_of(h, y)
    coreset, candidates = greedy_module._Coreset(rows), np.arange(20, 60)
    for place in (0, 1, 2, 5, 7):
        coreset.add(place)
    coreset.solve()
    x, mine, width = everything(rows), np.array(coreset.places), 4 * CLASSES
    p = probabilities(x, coreset.theta)

    def inverse(w):
        hessian = 2 * RIDGE * np.eye(width)
        for weight, i in zip(w, mine, strict=True):
            hessian += weight * np.kron(np.diag(p[i]) - np.outer(p[i], p[i]), np.outer(x[i], x[i]))
        return np.linalg.solve(hessian, rows.gradient(coreset.theta, np.full(60, 1 / 60)).ravel())

    def slopes(places, w):
        e = p[places] - np.eye(CLASSES)[y[places]]
        return -np.einsum("nk,nd->nkd", e, x[places]).reshape(len(places), -1) @ inverse(w)

    w = 1 - 0.01 * np.sign(slopes(mine, np.full(5, 1 / 5)))
    np.testing.assert_allclose(
        coreset.improve(candidates), slopes(candidates, w / (5 + len(candidates))), rtol=1e-3, atol=1e-5
    )


def test_the_estimate_is_the_gradient_of_the_expected_loss():
    """Against the exact gradient, the expectation summed over all 2^5 masks."""
    rng = np.random.default_rng(5)
    s, value = np.array([0.2, 0.5, 0.7, 0.4, 0.6]), rng.standard_normal(32)
    masks = np.array(list(itertools.product([0, 1], repeat=5)))

    def expected(v):
        return np.sum(value * np.prod(np.where(masks == 1, v, 1 - v), axis=1))

    exact = [(expected(s + 1e-6 * d) - expected(s - 1e-6 * d)) / 2e-6 for d in np.eye(5)]
    found = np.zeros(5)
    trials = 8000
    for _ in range(trials):
        drawn = rng.random((5, 5)) < s
        found += estimate(s, drawn, value[drawn @ (2 ** np.arange(4, -1, -1))])
    np.testing.assert_allclose(found / trials, exact, atol=0.1)


def test_a_head_learns_the_rows_it_is_trained_on():
    h, y = problem(30)
    rows = rows_of(h + 5 * np.eye(3)[y], y)
    assert (probabilities(everything(rows), train(rows, np.arange(12))).argmax(axis=1) == y).all()
    assert not train(rows, np.arange(0)).any()


def test_pbcs_finds_the_best_subset_of_a_toy():
    """A good row and a misleading one of each class: the loss of every subset of three rows is known."""
    u = np.eye(3)
    h = np.concatenate([[2 * u[k], 0.3 * u[k] + 0.9 * u[(k + 1) % 3]] for k in range(3)])
    y = np.repeat([0, 1, 2], 2)
    rows = rows_of(h, y)
    losses = {c: rows.losses(train(rows, np.array(c))[None])[0] for c in itertools.combinations(range(6), 3)}
    best, second = sorted(losses, key=losses.__getitem__)[:2]
    assert best == (0, 2, 4)
    assert losses[second] > 1.3 * losses[best]
    for seed in range(2):
        s = probabilities_of_rows(rows, request(3, np.bincount(y), seed=seed))
        assert tuple(sorted(np.argsort(-s)[:3].tolist())) == best


def test_greedys_inner_head_is_scikit_learns():
    from sklearn.linear_model import LogisticRegression

    h, y = problem()
    x = everything(rows_of(h, y))
    w = np.random.default_rng(0).uniform(0.5, 2, 24)
    theta = solve_inner(x, y, w, np.zeros((CLASSES, 4)))
    theirs = LogisticRegression(C=1 / (2 * RIDGE), fit_intercept=False, max_iter=5000, tol=1e-10).fit(x, y, w)
    np.testing.assert_allclose(x @ theta.T, x @ theirs.coef_.T, atol=0.02)


def test_the_implicit_gradient_is_a_finite_difference_also_of_rows_with_weight_zero(monkeypatch):
    monkeypatch.setattr(greedy_module, "SOLVE_STEPS", 200)  # fifty are a budget, not a tolerance
    h, y = problem()
    rows = rows_of(h, y)
    x, inside = everything(rows), np.arange(9)
    w, even = np.random.default_rng(1).uniform(0.5, 2, 9), np.full(24, 1 / 24)
    theta = minimum(x[inside], y[inside], w, RIDGE)
    found = implicit_gradient(x[inside], w, theta, rows.gradient(theta, even), x, y)
    for i in (0, 4, 8, 11, 20):  # the last two enter from weight 0, so they can only grow
        members = inside if i < 9 else np.append(inside, i)
        base = w if i < 9 else np.append(w, 0.0)
        tiny = 1e-4 * (members == i)
        up = loss(x, y, even, minimum(x[members], y[members], base + tiny, RIDGE))
        down = loss(x, y, even, minimum(x[members], y[members], base - (tiny if i < 9 else 0), RIDGE))
        assert found[i] == pytest.approx((up - down) / (2e-4 if i < 9 else 1e-4), rel=0.02, abs=1e-4)

"""The steered draw: its limits are herding and least-error, its probabilities those of Eq. (24)."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from pdac_cli.options.select import Allocation
from pdac_cli.selection import steered, steered_error
from pdac_cli.selection.interface import DrawRule
from tests.selection.arrays import ArrayRows, select

GREEDY = 1e9


def rows(n=240, n_features=6, classes=4, seed=0, wrong=0.0, dtype="f8", apart=2.0):
    """Rows of some classes, a share of the labels replaced; the true classes are in `logits`."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % classes
    h = rng.standard_normal((n, n_features)) + apart * rng.standard_normal((classes, n_features))[codes]
    labels = np.where(rng.random(n) < wrong, (codes + rng.integers(1, classes, n)) % classes, codes)
    return ArrayRows(h.astype(dtype), labels, np.eye(classes)[codes], np.zeros(n))


def drawn(data, budget, seed=0, temperature=1.0, allocation=Allocation.BALANCED, jobs=1, **rule):
    return select("pdac", data, budget, allocation, seed, temperature, draw=DrawRule(**rule), jobs=jobs)


@pytest.mark.parametrize("seed", range(4))
def test_without_density_and_without_chance_the_mean_is_herding(seed):
    data = rows(seed=seed)
    found = drawn(data, 60, temperature=0.0, relative=False, beta=GREEDY, by_error=False)
    np.testing.assert_array_equal(found.ranking.ids, select("herding", data, 60).ranking.ids)


@pytest.mark.parametrize("seed", range(4))
def test_without_density_and_without_chance_the_error_is_least_error(seed, monkeypatch):
    monkeypatch.setattr(steered_error, "FIRST", 0.0)
    data = rows(seed=seed)
    found = drawn(data, 40, temperature=0.0, relative=False, beta=GREEDY, by_error=True)
    expected = select("least-error", data, 40)
    assert set(found.ranking.ids.tolist()) == set(expected.ranking.ids.tolist())


def test_the_sequence_of_draws_has_the_probabilities_of_equation_24():
    """All orders of two of four rows, g computed by hand, against the frequencies over seeds."""
    rng = np.random.default_rng(3)
    u = rng.standard_normal((4, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    log_p, beta, trials = np.array([0.0, 0.7, -0.5, 0.2]), 0.4, 6000
    mean = u.mean(axis=0)
    spread = 1 - mean @ mean

    def probabilities(kept):
        total = u[list(kept)].sum(axis=0)
        g = -np.square((len(kept) + 1) * mean - total - u).sum(axis=1) / spread
        w = np.exp(log_p + beta * g)
        w[list(kept)] = 0
        return w / w.sum()

    expected = {
        pair: probabilities(())[pair[0]] * probabilities(pair[:1])[pair[1]] for pair in permutations(range(4), 2)
    }
    data = ArrayRows(u, np.zeros(4, int), None, log_p)
    found = Counter(
        tuple(drawn(data, 2, seed, relative=False, beta=beta, by_error=False).ranking.ids.tolist())
        for seed in range(trials)
    )
    assert sum(expected.values()) == pytest.approx(1)
    for pair, p in expected.items():
        assert found[pair] / trials == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / trials))


@pytest.mark.parametrize("by_error", [True, False])
def test_wrong_labels_are_avoided_and_named(by_error):
    data = rows(1200, 20, wrong=0.4)
    true = data.logits.argmax(axis=1)
    found = drawn(data, 80, beta=30.0, by_error=by_error)
    wrong = data.codes != true
    assert wrong[found.ranking.ids].mean() < 0.05 < 0.3 < wrong.mean()
    assert found.suspects is not None
    assert found.suspects.share == pytest.approx(wrong.mean(), abs=0.03)
    np.testing.assert_array_equal(found.suspects.codes, data.codes[found.suspects.ids])
    assert np.mean(found.suspects.likely == true[found.suspects.ids]) > 0.9


@pytest.mark.parametrize("rule", [{}, {"by_error": False}, {"relative": False}, {"normalize": False}, {"beta": 0.0}])
@pytest.mark.parametrize("allocation", [Allocation.BALANCED, Allocation.PER_CLASS])
def test_a_shorter_list_is_the_beginning_of_every_class_and_threads_do_not_matter(rule, allocation):
    data = rows(300, classes=5)
    many, few = drawn(data, 60, allocation=allocation, **rule), drawn(data, 20, allocation=allocation, **rule)
    for code in range(5):
        longer, shorter = (a.ranking.ids[a.ranking.codes == code].tolist() for a in (many, few))
        assert longer[: len(shorter)] == shorter
    again = drawn(data, 60, allocation=allocation, jobs=3, **rule)
    np.testing.assert_array_equal(again.ranking.ids, many.ranking.ids)


@pytest.mark.parametrize("by_error", [True, False])
def test_the_units_of_the_features_do_not_matter(by_error):
    data = rows()
    wanted = drawn(data, 40, by_error=by_error).ranking.ids
    for factor in (1e-6, 1e6):
        scaled = ArrayRows(data.h * factor, data.codes, data.logits, data.log_p)
        np.testing.assert_array_equal(drawn(scaled, 40, by_error=by_error).ranking.ids, wanted)


def test_large_classes_are_narrowed_by_a_draw_and_still_give_their_share(monkeypatch):
    monkeypatch.setattr(steered, "LARGEST_CLASS", 30)
    monkeypatch.setattr(steered, "CANDIDATES_PER_ROW", 2)
    monkeypatch.setattr(steered_error, "ALL_CANDIDATES", 60)
    monkeypatch.setattr(steered_error, "LEAST_CANDIDATES", 10)
    monkeypatch.setattr(steered_error, "CANDIDATES_PER_ROW", 2)
    data = rows(400)
    for by_error in (True, False):
        found = drawn(data, 80, by_error=by_error)
        assert np.bincount(found.ranking.codes).tolist() == [20] * 4
        assert len(set(found.ranking.ids.tolist())) == 80


def test_fewer_directions_and_signs_for_classes_change_little(monkeypatch):
    """The approximations for many classes: of rows in 8 of 60 directions nothing is lost by keeping 32."""
    rng = np.random.default_rng(0)
    data = rows(600, 8, classes=12)
    data = ArrayRows((data.h @ rng.standard_normal((8, 60))).astype("f8"), data.codes, data.logits, data.log_p)
    wanted = set(drawn(data, 120, beta=GREEDY).ranking.ids.tolist())
    monkeypatch.setattr(steered_error, "_DIRECTIONS", (32,))
    monkeypatch.setattr(steered_error, "WORK", 0.0)
    fewer = set(drawn(data, 120, beta=GREEDY).ranking.ids.tolist())
    assert len(wanted & fewer) > 110
    monkeypatch.setattr(steered_error, "CODES", 10)
    coded = drawn(data, 120, beta=GREEDY).ranking
    assert np.bincount(coded.codes).tolist() == [10] * 12


@pytest.mark.parametrize("by_error", [True, False])
@pytest.mark.parametrize("make", [
    lambda h, y: (np.ones_like(h), y), lambda h, y: (np.zeros_like(h), y), lambda h, y: (h, np.zeros_like(y)),
    lambda h, y: (h[:1], y[:1] * 0), lambda h, y: (h, np.arange(len(y))), lambda h, y: (h.astype("f4") * 1e-40, y),
    lambda h, y: (h * [1e150, 1, 1, 1, 1, 1e-150], y),
])  # fmt: skip
def test_degenerate_rows_are_drawn_all_the_same(make, by_error):
    data = rows(60)
    h, codes = make(data.h, data.codes)
    found = drawn(ArrayRows(h, codes, None, np.zeros(len(codes))), 12, by_error=by_error)
    assert len(set(found.ranking.ids.tolist())) == min(12, len(codes))

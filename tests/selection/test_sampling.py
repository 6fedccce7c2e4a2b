import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdac_cli.selection.sampling import EffectiveSize, TopK, keys
from tests.oracles import inclusion_probabilities


def draw(log_w, k, seed):
    """The k rows drawn from weights in one pool."""
    top = TopK(np.array([k]))
    n = len(log_w)
    top.add(keys(log_w, np.arange(n), seed), np.zeros(n, int), np.arange(n), np.zeros(n, int))
    return top.ranking().ids


@pytest.mark.parametrize("k", [1, 2, 4])
def test_inclusion_is_that_of_drawing_one_after_another(k):
    weights = np.array([0.02, 0.1, 0.2, 0.5, 1.0, 3.0])
    trials = 20_000
    hits = np.zeros(len(weights))
    for seed in range(trials):
        hits[draw(np.log(weights), k, seed)] += 1
    expected = inclusion_probabilities(weights, k)
    error = np.sqrt(expected * (1 - expected) / trials)
    assert (np.abs(hits / trials - expected) < 4 * error + 1e-9).all()


def test_densities_a_thousand_nats_apart_neither_underflow_nor_overflow():
    log_w = np.array([-5000.0, 5000.0, -4999.0, 4000.0])
    assert draw(log_w, 2, seed=1).tolist() == [1, 3]
    assert draw(log_w, 4, seed=1)[:2].tolist() == [1, 3]


@settings(max_examples=60)
@given(st.integers(1, 60), st.integers(1, 4), st.integers(0, 5), st.lists(st.integers(0, 60), max_size=4))
def test_any_chunks_give_the_same_rows_in_the_same_order(n, pools, seed, cuts):
    rng = np.random.default_rng(seed)
    pool = rng.integers(pools, size=n)
    caps = rng.integers(0, 6, size=pools)
    caps = np.minimum(caps, np.bincount(pool, minlength=pools))
    key = keys(rng.standard_normal(n) * 9, np.arange(n), seed)
    whole = TopK(caps)
    whole.add(key, pool, np.arange(n), pool, log_p=key)
    pieces = TopK(caps)
    for part in np.split(rng.permutation(n), sorted(min(cut, n) for cut in cuts)):
        pieces.add(key[part], pool[part], part, pool[part], log_p=key[part])
    one, other = whole.ranking(), pieces.ranking()
    np.testing.assert_array_equal(one.ids, other.ids)
    assert len(set(one.ids.tolist())) == caps.sum()
    np.testing.assert_array_equal(np.bincount(one.codes, minlength=pools), caps)
    np.testing.assert_array_equal(pool[one.ids], one.codes)
    np.testing.assert_array_equal(one.log_p, key[one.ids])
    assert one.score is None
    assert one.codes.dtype == np.int64
    for p in range(pools):  # brute force: the largest keys of the pool, best first
        members = np.flatnonzero(pool == p)
        best = members[np.argsort(-key[members], kind="stable")][: caps[p]]
        np.testing.assert_array_equal(one.ids[one.codes == p], best)


def test_every_beginning_of_the_ranking_has_the_pools_in_proportion():
    pool = np.repeat([0, 1], [600, 400])
    top = TopK(np.array([60, 20]))
    top.add(keys(np.zeros(1000), np.arange(1000), 0), pool, np.arange(1000), pool)
    codes = top.ranking().codes
    for m in range(1, 81):
        assert abs((codes[:m] == 0).sum() - m * 0.75) <= 1


@settings(max_examples=50)
@given(st.lists(st.floats(-800, 800), min_size=1, max_size=40), st.integers(1, 10))
def test_effective_size_is_its_definition(log_w, cut):
    log_w = np.array(log_w)
    codes = np.arange(len(log_w)) % 2
    size = EffectiveSize(2)
    for part in np.split(np.arange(len(log_w)), range(cut, len(log_w), cut)):
        size.add(log_w[part], codes[part])
    for c in (0, 1):
        w = np.exp(log_w[codes == c] - log_w[codes == c].max(initial=-np.inf))
        expected = w.sum() ** 2 / (w**2).sum() if len(w) else 0.0
        np.testing.assert_allclose(size.sizes()[c], expected, rtol=1e-9)
    w = np.exp(log_w - log_w.max())
    np.testing.assert_allclose(size.total(), w.sum() ** 2 / (w**2).sum(), rtol=1e-9)

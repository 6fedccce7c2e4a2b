"""What every method of the table must hold to, whatever it does."""

import numpy as np
import pytest

from pdac_cli.errors import UsageError
from pdac_cli.options import Allocation
from pdac_cli.selection.methods import METHODS, Offer, Request, method_named

N = 400


def data(seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.choice(4, size=N, p=[0.5, 0.3, 0.15, 0.05])
    return codes, rng.standard_normal(N) * 5 - 20


def answer(name, budget, allocation=Allocation.PER_CLASS, temperature=1.0, seed=0, chunk=N, codes=None, log_p=None):
    if codes is None:
        codes, log_p = data()
    method = METHODS[name]
    selector = method.start(Request(budget, np.bincount(codes), allocation, temperature, seed))
    for at in range(0, N, chunk):
        part = slice(at, at + chunk)
        density = log_p[part] if method.needs_density else None
        selector.offer(Offer(np.arange(N)[part], codes[part], density))
    return selector.answer()


@pytest.mark.parametrize("allocation", list(Allocation))
@pytest.mark.parametrize("name", METHODS)
class TestEveryMethod:
    @pytest.mark.parametrize("budget", [1, 3, 40, 399, 400, 5000])
    def test_exactly_the_budget_distinct_in_range_with_the_right_class(self, name, allocation, budget):
        codes, _ = data()
        ranking = answer(name, budget, allocation).ranking
        assert len(ranking.ids) == len(set(ranking.ids.tolist())) == min(budget, N)
        assert ((ranking.ids >= 0) & (ranking.ids < N)).all()
        np.testing.assert_array_equal(ranking.codes, codes[ranking.ids])

    @pytest.mark.parametrize("chunk", [1, 7, 64, 399])
    def test_chunking_is_irrelevant(self, name, allocation, chunk):
        whole, pieces = (answer(name, 50, allocation, chunk=c).ranking for c in (N, chunk))
        np.testing.assert_array_equal(whole.ids, pieces.ids)
        np.testing.assert_array_equal(whole.log_p, pieces.log_p)

    def test_same_seed_same_answer_other_seed_another(self, name, allocation):
        one, again, other = (answer(name, 50, allocation, seed=s).ranking.ids.tolist() for s in (1, 1, 2))
        assert one == again
        assert one != other

    def test_input_is_left_alone(self, name, allocation):
        codes, log_p = data()
        copies = codes.copy(), log_p.copy()
        answer(name, 50, allocation, codes=codes, log_p=log_p)
        np.testing.assert_array_equal(codes, copies[0])
        np.testing.assert_array_equal(log_p, copies[1])


def test_temperature_zero_is_uniform():
    np.testing.assert_array_equal(answer("pdac", 60, temperature=0).ranking.ids, answer("uniform", 60).ranking.ids)


def test_pdac_prefers_dense_rows_and_a_negative_temperature_sparse_ones():
    _, log_p = data()
    means = [log_p[answer("pdac", 60, temperature=t).ranking.ids].mean() for t in (-1, 0, 0.5, 1)]
    assert means == sorted(means)


def test_an_unknown_method_is_told_the_known_ones():
    with pytest.raises(UsageError, match="'pdca'; expected one of: pdac, uniform"):
        method_named("pdca")

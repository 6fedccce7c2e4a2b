import numpy as np
from scipy.special import log_softmax as scipy_log_softmax

from pdac_cli.density.relative import log_softmax
from tests.selection.arrays import ArrayRows, select


def rows(n=300, seed=0):
    rng = np.random.default_rng(seed)
    codes = rng.integers(3, size=n)
    return ArrayRows(np.zeros((n, 1)), codes, rng.standard_normal((n, 3)).astype("f4") * 8)


def test_log_softmax_is_scipys_and_bears_large_logits():
    z = rows().logits * 100
    np.testing.assert_allclose(log_softmax(z), scipy_log_softmax(z.astype("f8"), axis=1), rtol=1e-12)


def test_hardest_and_highest_are_a_sort_by_cross_entropy():
    given = rows()
    loss = -scipy_log_softmax(given.logits.astype("f8"), axis=1)[np.arange(300), given.codes]
    hard, easy = (select(name, given, 40).ranking for name in ("hardest", "highest-prob"))
    np.testing.assert_array_equal(hard.ids, np.argsort(-loss, kind="stable")[:40])
    np.testing.assert_array_equal(easy.ids, np.argsort(loss, kind="stable")[:40])
    np.testing.assert_allclose(hard.score, loss[hard.ids])
    np.testing.assert_allclose(easy.score, np.exp(-loss[easy.ids]))
    assert hard.log_p is None

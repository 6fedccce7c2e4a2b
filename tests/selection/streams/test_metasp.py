import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from pdac_cli.selection.streams.buffer import Buffer
from pdac_cli.selection.streams.interface import Batch, Influence, KeepContext
from pdac_cli.selection.streams.metasp import METASP, scaled, shortest_mix
from tests.selection.streams.steps import FakeNetwork, step_of


@pytest.mark.parametrize("seed", range(6))
def test_the_mix_is_the_shortest_of_all(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, 5)) + (seed % 3)  # with an offset the best is often an end
    best = minimize_scalar(lambda g: np.linalg.norm(g * a + (1 - g) * b), bounds=(0.001, 0.999), method="bounded")
    assert np.linalg.norm(shortest_mix(a, b)) == pytest.approx(best.fun, abs=1e-4)
    np.testing.assert_allclose(shortest_mix(a, a), a)


def test_influences_get_the_length_of_the_loss():
    assert np.linalg.norm(scaled(Influence(np.array([3.0, -4.0]), 2.5))) == pytest.approx(2.5)
    assert not scaled(Influence(np.zeros(3), 2.5)).any()


def test_helpful_rows_weigh_more():
    slopes = np.linspace(-1, 1, 30)
    network = FakeNetwork(influences=[(slopes, 1.0), (slopes[::-1], 1.0)])
    stored, new = np.arange(20), np.arange(20, 30)
    step = step_of(stored, new, earlier=stored < 12, count=4, network=network)
    rows = np.concatenate([new, stored[:4]])
    weight, influence = METASP.weigh(step, rows)
    assert weight.sum() == pytest.approx(1)
    assert weight.min() >= 0
    np.testing.assert_allclose(weight, np.maximum(1 - influence, 0) / np.maximum(1 - influence, 0).sum())
    old, current = network.asked
    assert set(old) <= set(range(12))
    assert set(current) <= set(range(12, 20))
    # On old rows alone: the first task has none, so the new rows stand in until some are stored.
    first = FakeNetwork(influences=[(slopes, 1.0)])
    weight, influence = METASP.weigh(step_of([], new, count=4, network=first), new)
    assert set(first.asked[0]) <= set(new)
    assert np.all(np.diff(weight) <= 0)


def feed(context, h, score, source, first, batch=10):
    for start in range(0, len(h), batch):
        part = slice(start, min(start + batch, len(h)))
        n = len(h[part])
        columns = {
            "source": np.full(n, source), "row": np.arange(first + start, first + start + n),
            "label": np.full(n, source), "log_density": np.full(n, np.nan), "score": score[part],
            "cluster": np.full(n, np.nan),
        }  # fmt: skip
        METASP.keep(context, Batch(columns, h[part]))


def empty(budget):
    return KeepContext(Buffer.empty(budget, {"score": np.empty(0), "cluster": np.empty(0)}), 0, look=None)


def test_each_cluster_keeps_its_row_of_least_influence():
    """Three clusters far apart, the first three rows one of each."""
    rng = np.random.default_rng(0)
    which = np.concatenate([[0, 1, 2], rng.integers(0, 3, 87)])
    h = 100 * np.eye(3)[which] + rng.standard_normal((90, 3))
    score = rng.standard_normal(90)
    context = empty(3)
    feed(context, h, score, 0, 0)
    expected = [np.flatnonzero(which == c)[np.argmin(score[which == c])] for c in range(3)]
    assert sorted(context.buffer.columns["row"]) == sorted(expected)
    for c in range(3):  # and the centres are the clusters' means
        np.testing.assert_allclose(context.memo["centres"][c], h[which == c].mean(axis=0))


def test_tasks_share_the_buffer_and_give_up_their_rows_of_most_influence():
    rng = np.random.default_rng(1)
    context = empty(12)
    kept = None
    for task in range(3):
        h, score = rng.standard_normal((50, 4)), rng.standard_normal(50)
        feed(context, h, score, task, 100 * task)
        counts = np.bincount(context.buffer.columns["source"], minlength=3)
        assert counts.tolist() == [[12, 0, 0], [6, 6, 0], [4, 4, 4]][task]
        if task == 1:
            stayed = context.buffer.columns["score"][context.buffer.columns["source"] == 0]
            np.testing.assert_allclose(np.sort(stayed), np.sort(kept)[:6])
        kept = context.buffer.columns["score"].copy()
    assert context.buffer.seen == 150

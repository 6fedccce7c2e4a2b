import itertools

import numpy as np
import pytest

from pdac_cli.selection.streams.aser import ASER, balanced, shapley
from pdac_cli.selection.streams.buffer import Buffer
from pdac_cli.selection.streams.interface import Batch, KeepContext
from tests.selection.streams.steps import FakeNetwork, step_of


def worth(members, distance, same, k):
    """Share of the judge's class among the k nearest members, as a part of k."""
    nearest = sorted(members, key=lambda i: distance[i])[:k]
    return sum(same[i] for i in nearest) / k


def by_permutations(distance, same, k):
    """The Shapley value by its definition: the mean gain of a row over all orders in which the rows can join."""
    n = len(distance)
    value = np.zeros(n)
    orders = list(itertools.permutations(range(n)))
    for order in orders:
        for place, row in enumerate(order):
            gain = worth(order[: place + 1], distance, same, k) - worth(order[:place], distance, same, k)
            value[row] += gain / len(orders)
    return value


@pytest.mark.parametrize(("n", "k"), [(1, 1), (1, 3), (2, 3), (4, 1), (5, 3), (6, 3), (7, 3), (6, 6)])
def test_the_recursion_gives_shapley_values_by_definition(n, k):
    rng = np.random.default_rng(n + 10 * k)
    judges, rows = rng.standard_normal((3, 4)) + 50, rng.standard_normal((n, 4)) + 50
    y_judges, y = rng.integers(0, 2, 3), rng.integers(0, 2, n)
    found = shapley(judges, y_judges, rows, y, k)
    for j in range(3):
        distance = np.linalg.norm(rows - judges[j], axis=1)
        np.testing.assert_allclose(found[j], by_permutations(distance, y == y_judges[j], k), atol=1e-12)


def test_values_of_a_judge_add_up_to_the_worth_of_all_rows():
    rng = np.random.default_rng(0)
    judges, rows = rng.standard_normal((20, 5)), rng.standard_normal((90, 5))
    y_judges, y = rng.integers(0, 4, 20), rng.integers(0, 4, 90)
    found = shapley(judges, y_judges, rows, y, 3).sum(axis=1)
    for j in range(20):
        distance = np.linalg.norm(rows - judges[j], axis=1)
        assert found[j] == pytest.approx(worth(range(90), distance, y == y_judges[j], 3))


def test_samples_are_balanced_over_classes():
    y = np.repeat([0, 1, 2], [50, 5, 20])
    drawn = balanced(y, 30, np.random.default_rng(0))
    assert len(set(drawn.tolist())) == 30
    assert np.bincount(y[drawn]).tolist() == [13, 5, 12]
    assert len(balanced(y, 0, np.random.default_rng(0))) == 0
    assert len(balanced(y, 500, np.random.default_rng(0))) == 75


def test_rows_of_most_value_to_stored_and_of_least_value_to_new_rows_are_replayed():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((80, 3)), rng.integers(0, 3, 80)
    network, new = FakeNetwork(x), np.arange(64, 80)
    found = ASER.replay(step_of(np.arange(64), new, y, count=6, network=network, candidates=20))
    (looked,) = network.asked
    mine, judges = looked[:20], looked[20:40]
    np.testing.assert_array_equal(looked[40:], new)
    assert len(set(looked[:40].tolist())) == 40
    for part in (mine, judges):
        assert np.bincount(y[part]).max() - np.bincount(y[part]).min() <= 1
    value = shapley(x[judges], y[judges], x[mine], y[mine], 3).mean(axis=0)
    value -= shapley(x[new], y[new], x[mine], y[mine], 3).mean(axis=0)
    assert found.tolist() == mine[np.argsort(-value)[:6]].tolist()


def stored(h, y, budget):
    columns = {"source": np.zeros(len(y), int), "row": np.arange(len(y)), "label": y, "log_density": np.zeros(len(y))}
    return KeepContext(Buffer(budget, columns, seen=len(y)), 0, lambda slots: (h[slots], None))


def test_a_row_among_another_class_gives_way_to_one_among_its_own():
    """Two classes far apart; stored rows of class 0 that lie in class 1 have the least value."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    h = 20 * np.eye(2)[y] + rng.standard_normal((60, 2))
    h[:6] += [-20, 20]  # in the other class's place
    context = stored(h, y, 60)
    good = 20 * np.eye(2)[y[26:34]] + rng.standard_normal((8, 2))
    columns = {"source": np.zeros(8, int), "row": np.arange(60, 68), "label": y[26:34], "log_density": np.zeros(8)}
    ASER.keep(context, Batch(columns, good))
    gone = set(range(60)) - set(context.buffer.columns["row"].tolist())
    assert context.buffer.size == 60
    assert len(gone) == context.buffer.replaced > 0
    assert len(gone & set(range(6))) >= 2  # of the few that were candidates; the others were drawn as judges


def test_a_new_class_finds_its_way_into_a_full_buffer():
    rng = np.random.default_rng(1)
    y = np.arange(40) % 2
    h = 20 * np.eye(3)[y] + rng.standard_normal((40, 3))
    context = stored(h, y, 40)
    everything = [h]
    context.look = lambda slots: (np.concatenate(everything)[context.buffer.columns["row"][slots]], None)
    for k in range(10):
        new = 20 * np.eye(3)[np.full(8, 2)] + rng.standard_normal((8, 3))
        everything.append(new)
        columns = {"source": np.ones(8, int), "row": np.arange(40 + 8 * k, 48 + 8 * k), "label": np.full(8, 2),
                   "log_density": np.zeros(8)}  # fmt: skip
        ASER.keep(context, Batch(columns, new))
    assert 5 <= np.count_nonzero(context.buffer.columns["label"] == 2) <= 35


def test_a_small_buffer_is_replayed_uniformly():
    found = ASER.replay(step_of(np.arange(20), np.arange(20, 28), np.zeros(28, int), count=32))
    assert sorted(found) == list(range(20))

import numpy as np
import pytest

from pdac_cli.options.select import Allocation, Eviction
from pdac_cli.selection.eviction import keep_after_eviction, log_weights
from tests.oracles import inclusion_probabilities


def keep(log_p, count, seed=0, *, labels=None, rule=Eviction.RELATIVE, allocation=Allocation.JOINT):
    n = len(log_p)
    labels = np.zeros(n, int) if labels is None else np.asarray(labels)
    return keep_after_eviction(
        np.arange(n), labels, np.asarray(log_p, float), count, rule=rule, allocation=allocation, seed=seed, key=(2, 1)
    )


@pytest.mark.parametrize(("rule", "weights"), [
    (Eviction.RELATIVE, 1 - np.array([0.1, 0.2, 0.5, 0.8]) / 0.8),
    (Eviction.INVERSE, 1 / np.array([0.1, 0.2, 0.5, 0.8])),
    (Eviction.PAPER, 1 - np.array([0.1, 0.2, 0.5, 0.8])),
])  # fmt: skip
def test_weights_are_their_definitions(rule, weights):
    np.testing.assert_allclose(np.exp(log_weights(np.log([0.1, 0.2, 0.5, 0.8]), rule)), weights, rtol=1e-12)


def test_densities_above_one_have_weight_zero_under_the_printed_rule():
    assert np.isneginf(log_weights(np.array([3.0, 50.0]), Eviction.PAPER)).all()


@pytest.mark.parametrize("rule", list(Eviction))
def test_removal_is_drawing_one_after_another(rule):
    p = np.array([0.05, 0.2, 0.4, 0.6, 0.9])
    trials = 8000
    removed = np.zeros(len(p))
    for seed in range(trials):
        removed += 1
        removed[keep(np.log(p), 3, seed, rule=rule)] -= 1
    weights = np.exp(log_weights(np.log(p), rule))
    expected = inclusion_probabilities(weights, 2)
    assert (np.abs(removed / trials - expected) < 4 * np.sqrt(expected * (1 - expected) / trials) + 1e-9).all()


def test_the_densest_row_is_the_last_to_go():
    for seed in range(50):
        assert 2 in keep([-3.0, -9.0, -1.0, -4.0], 1, seed)


def test_rows_of_weight_zero_go_when_no_others_are_left():
    assert len(keep([5.0, 6.0, 7.0], 1, rule=Eviction.PAPER)) == 1
    assert len(keep([1.0, 1.0, 1.0, 1.0], 2)) == 2
    assert keep([1.0, 2.0], 0).tolist() == []


def test_without_a_density_every_row_is_as_likely_to_go():
    hits = np.zeros(6)
    for seed in range(6000):
        hits[keep(np.full(6, np.nan), 2, seed)] += 1
    assert ((hits - 2000) ** 2 / 2000).sum() < 20.5  # chi-square, 5 degrees of freedom, p = 0.001


def test_each_class_gives_up_its_share_unless_joint():
    labels = np.repeat([4, 9], [12, 6])
    log_p = np.where(labels == 4, -1000.0, 1000.0) + np.random.default_rng(0).standard_normal(18)
    per_class = labels[keep(log_p, 9, labels=labels, allocation=Allocation.PER_CLASS)]
    assert (per_class == 4).sum() == 6
    balanced = labels[keep(log_p, 9, labels=labels, allocation=Allocation.BALANCED)]
    assert (balanced == 4).sum() == 5
    joint = labels[keep(log_p, 9, labels=labels, allocation=Allocation.JOINT, rule=Eviction.INVERSE)]
    assert (joint == 4).sum() == 3

import numpy as np
import pytest
from scipy.stats import chisquare, norm, spearmanr

from pdac_cli.options.stream import Acceptance
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.selection.streams.buffer import Buffer
from pdac_cli.selection.streams.interface import Batch, KeepContext
from pdac_cli.selection.streams.reservoir import admit, admitted, latest, relative_to_batch, relative_to_latest

DENSITY, PAPER = Acceptance.DENSITY, Acceptance.PAPER


def columns(first, n):
    ids = np.arange(first, first + n)
    return {"source": np.zeros(n, int), "row": ids, "label": ids % 3, "log_density": np.zeros(n)}


def relative_to_window(recent, log_p, window):
    return relative_to_latest(log_p, latest(recent, log_p, window))


def fill(n, budget, seed=0, batch=7, acceptance=DENSITY, epsilon=None):
    context = KeepContext(Buffer.empty(budget), seed, look=None, acceptance=acceptance)
    epsilon = np.ones(n) if epsilon is None else epsilon
    for start in range(0, n, batch):
        size = min(batch, n - start)
        admit(context, Batch(columns(start, size), np.zeros((size, 1))), epsilon[start : start + size])
    return context.buffer


@pytest.mark.parametrize("acceptance", Acceptance)
def test_with_epsilon_one_every_row_is_kept_equally_often(acceptance):
    """Reservoir sampling's own property, on 3,000 independent streams."""
    n, budget, trials = 40, 6, 3000
    kept = np.zeros(n)
    for seed in range(trials):
        kept[fill(n, budget, seed, acceptance=acceptance).columns["row"]] += 1
    assert kept.sum() == trials * budget
    # Inclusions of one stream are negatively correlated, which only makes the statistic smaller.
    assert chisquare(kept).pvalue > 1e-3


def test_pairs_are_kept_together_as_in_drawing_without_replacement():
    n, budget, trials = 8, 3, 4000
    together = np.zeros((n, n))
    for seed in range(trials):
        rows = fill(n, budget, seed).columns["row"]
        together[np.ix_(rows, rows)] += 1
    pairs = together[np.triu_indices(n, 1)]
    assert chisquare(pairs).pvalue > 1e-3  # all 28 pairs alike


def test_the_rule_is_reservoir_sampling_written_as_a_loop():
    n, budget = 500, 20
    buffer = fill(n, budget, seed=4, batch=13)
    kept = []
    for position in range(n):
        u = row_uniforms(4, Purpose.ADMIT, np.array([position]))[0]
        v = row_uniforms(4, Purpose.REPLACE, np.array([position]))[0]
        if len(kept) < budget:
            kept.append(position)
        elif 1 + int(u * (position + 1)) <= budget:
            kept[int(v * budget)] = position
    assert buffer.columns["row"].tolist() == kept


@pytest.mark.parametrize("batch", [1, 2, 32, 1000])
def test_batches_do_not_matter_to_plain_reservoir_sampling(batch):
    np.testing.assert_array_equal(fill(800, 50, batch=batch).columns["row"], fill(800, 50, batch=11).columns["row"])


def test_rows_are_distinct_and_counted():
    buffer = fill(1000, 64, epsilon=np.random.default_rng(0).exponential(size=1000))
    assert len(set(buffer.columns["row"].tolist())) == buffer.size == 64
    assert buffer.seen == 1000
    np.testing.assert_array_equal(buffer.columns["label"], buffer.columns["row"] % 3)


def test_a_stream_shorter_than_the_budget_is_kept_whole():
    assert fill(5, 10).columns["row"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("acceptance", "sign"), [(DENSITY, 1), (PAPER, -1)])
def test_the_two_rules_differ_in_the_sign_of_density_and_inclusion_on_a_known_gaussian(acceptance, sign):
    """ε from the true density of a standard normal: the printed rule keeps the tails, the default keeps the middle."""
    n, budget = 4000, 100
    inclusion, density = [], []
    for seed in range(20):
        x = np.random.default_rng(seed).standard_normal(n)
        log_p = norm.logpdf(x)
        epsilon = np.concatenate([relative_to_batch(log_p[k : k + 32]) for k in range(0, n, 32)])
        kept = np.zeros(n)
        kept[fill(n, budget, seed, batch=32, acceptance=acceptance, epsilon=epsilon).columns["row"]] = 1
        inclusion.append(kept)
        density.append(log_p)
    correlation, p = spearmanr(np.concatenate(inclusion), np.concatenate(density))
    assert sign * correlation > 0.02
    assert p < 1e-6


def test_acceptance_probabilities_are_those_of_equation_19():
    trials, n, budget = 20_000, 1000, 50
    for epsilon in (0.1, 1.0, 3.0):
        for rule, expected in ((DENSITY, min(1, budget * epsilon / n)), (PAPER, min(1, budget / epsilon / n))):
            hits = [
                admitted(np.array([n - 1]), np.array([epsilon]), budget, rule, seed)[0] for seed in range(trials // 10)
            ]
            assert abs(np.mean(hits) - expected) < 5 * np.sqrt(max(expected, 1e-3) / (trials / 10))


def test_epsilon_over_a_batch_is_pi_times_its_size():
    log_p = np.array([-700.0, -701.0, np.nan, -703.0])
    p = np.exp(log_p[[0, 1, 3]] + 700)
    expected = p / p.sum() * 3
    epsilon = relative_to_batch(log_p)
    np.testing.assert_allclose(epsilon[[0, 1, 3]], expected)
    assert epsilon[2] == 1.0  # no density: as in plain reservoir sampling


def test_epsilon_over_a_window_is_the_batch_formula_on_the_last_rows():
    rng = np.random.default_rng(1)
    log_p = rng.standard_normal(50) * 5 - 400
    found = relative_to_window(log_p[:20], log_p[20:], 8)
    for k in range(20, 50):
        assert found[k - 20] == pytest.approx(relative_to_batch(log_p[k - 7 : k + 1])[-1])
    short = relative_to_window(log_p[:0], log_p[:3], 8)
    assert short[0] == 1.0
    assert short[2] == pytest.approx(relative_to_batch(log_p[:3])[-1])


def test_a_window_tells_rows_apart_where_every_batch_has_one_row_of_the_class():
    rng = np.random.default_rng(2)
    log_p = norm.logpdf(rng.standard_normal(400))
    recent, epsilon = np.empty(0), []
    for value in log_p:
        assert relative_to_batch(np.array([value]))[0] == 1.0  # within the batch alone nothing is left of the density
        epsilon.append(relative_to_window(recent, np.array([value]), 32)[0])
        recent = np.append(recent, value)[-32:]
    assert spearmanr(epsilon, log_p).statistic > 0.9
    assert np.mean(epsilon) == pytest.approx(1, abs=0.05)

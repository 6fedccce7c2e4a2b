import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch.nn.functional import cross_entropy

from pdac_cli.options.methods import MethodOptions
from pdac_cli.selection.gradients import residuals, total_gradient
from pdac_cli.selection.streams.buffer import Buffer
from pdac_cli.selection.streams.gss import (
    GSS,
    batch_cosine,
    cosines,
    drawn_for_removal,
    replacement_probability,
)
from pdac_cli.selection.streams.interface import Batch, KeepContext
from tests.oracles import inclusion_probabilities

D, K = 6, 4


def gradient(layer, h, y):
    """The last layer's gradient of the mean cross-entropy, by autograd, as one vector."""
    layer.zero_grad()
    cross_entropy(layer(torch.from_numpy(h)), torch.from_numpy(y)).backward()
    return torch.cat([layer.weight.grad.flatten(), layer.bias.grad]).numpy()


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_cosines_are_those_of_autograds_gradients():
    torch.manual_seed(0)
    layer = torch.nn.Linear(D, K).double()
    rng = np.random.default_rng(0)
    h, y = rng.standard_normal((30, D)), rng.integers(0, K, 30)
    with torch.no_grad():
        e = residuals(layer(torch.from_numpy(h)).numpy(), y)
    groups = [slice(10, 20), slice(20, 30)]
    drawn = np.stack([total_gradient(h[part], e[part]) for part in groups])
    theirs = [gradient(layer, h[part], y[part]) for part in groups]
    found = cosines(h[:10], e[:10], drawn)
    for i in range(10):
        own = gradient(layer, h[i : i + 1], y[i : i + 1])
        np.testing.assert_allclose(found[i], [cosine(own, other) for other in theirs], rtol=1e-9)
    own = gradient(layer, h[:10], y[:10])
    assert batch_cosine(h[:10], e[:10], drawn) == pytest.approx(max(cosine(own, other) for other in theirs))


def test_victims_are_drawn_by_their_scaled_scores_without_replacement():
    score = np.array([-0.5, 0.0, 0.25, 0.75])
    expected = inclusion_probabilities((score - score.min())[1:], 2)
    trials = 4000
    counts = np.zeros(4)
    for seed in range(trials):
        counts[drawn_for_removal(score, 2, np.random.default_rng(seed))] += 1
    assert counts[0] == 0
    assert chisquare(counts[1:], trials * expected).pvalue > 1e-3
    assert len(drawn_for_removal(np.full(5, 0.3), 3, np.random.default_rng(0))) == 0  # all alike: none stands out


def test_a_row_like_the_others_gives_way_to_one_unlike_them():
    found = replacement_probability(np.array([1.0, 0.0, -1.0, -1.0]), np.array([0.0, 0.0, 1.0, -1.0]))
    np.testing.assert_allclose(found, [2 / 3, 1 / 2, 0, 1 / 2])


def held_with(h, z, y, score):
    n = len(y)
    columns = {"source": np.zeros(n, int), "row": np.arange(n), "label": y, "log_density": np.full(n, np.nan)}
    buffer = Buffer(n, {**columns, "score": score}, seen=n)
    return KeepContext(buffer, 0, lambda slots: (h[slots], z[slots]), settings=MethodOptions())


def batch_of(h, z, y, first):
    n = len(y)
    columns = {"source": np.zeros(n, int), "row": np.arange(first, first + n), "label": y,
               "log_density": np.full(n, np.nan), "score": np.full(n, np.nan)}  # fmt: skip
    return Batch(columns, h, z)


@pytest.mark.parametrize(("sign", "enters"), [(1, False), (-1, True)])
def test_only_a_batch_against_all_drawn_gradients_enters_a_full_buffer(sign, enters):
    """Stored and new rows have the same features; with the other label the gradient turns around."""
    rng = np.random.default_rng(0)
    h, z = 1 + 0.1 * rng.standard_normal((40, D)), np.zeros((40, 2))
    context = held_with(h, z, np.zeros(40, int), rng.uniform(-0.5, 0.5, 40))
    new = np.zeros(16, int) if sign > 0 else np.ones(16, int)
    GSS.keep(context, batch_of(h[:16], z[:16], new, 40))
    assert (context.buffer.replaced > 0) is enters
    assert context.buffer.size == 40
    assert context.buffer.seen == 56
    fresh = context.buffer.columns["row"] >= 40
    assert fresh.sum() == context.buffer.replaced
    np.testing.assert_allclose(context.buffer.columns["score"][fresh], -1, atol=0.05)  # against all stored ones

"""The validation experiment: its data by scipy, its measures by their definition, its claims by their arithmetic."""

import csv
import json

import numpy as np
import pytest
from scipy.stats import multivariate_normal, ttest_rel

from pdac_cli.commands.valex.claims import ORDER, Claim, bins_of, c2_claims
from pdac_cli.commands.valex.data import Grid, Points, cells, draw, log_density, means, posterior
from pdac_cli.commands.valex.trials import Measured, World, measure, rankings
from pdac_cli.options.valex import NetworkOptions, Strategy, ValexOptions

SMALL = ("--trials", 4, "--rows", 1000, "--epochs", 3, "--warmup", 1, "--c1", "10,60", "--c2", "10,40")
QUICK = NetworkOptions(hidden=8, epochs=2, warmup=1)


def test_density_and_posterior_are_those_of_the_mixture():
    rows = draw(500, seed=3, part=0)
    each = np.stack([multivariate_normal(mean, 2 * np.eye(2)).pdf(rows.x) for mean in means()], axis=1)
    np.testing.assert_allclose(posterior(rows.x), each / each.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(np.exp(log_density(rows)), each[np.arange(500), rows.y] / 10, rtol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(means(), axis=1), 3)


def test_data_have_the_moments_of_the_mixture():
    rows = draw(200_000, seed=0, part=1)
    for label in range(10):
        mine = rows.x[rows.y == label]
        assert len(mine) == pytest.approx(20_000, rel=0.05)
        np.testing.assert_allclose(mine.mean(axis=0), means()[label], atol=0.05)
        np.testing.assert_allclose(np.cov(mine.T), 2 * np.eye(2), atol=0.08)


def test_cells_are_of_side_two_fifths_and_there_are_2500():
    x = np.array([[-10, -10], [-9.61, -10], [-9.59, -10], [-10, -9.59], [9.99, 9.99], [10.01, 0], [0, -10.01]])
    assert cells(x).tolist() == [0, 0, 50, 1, 2499, -1, -1]


def test_a_grid_has_the_cells_with_rows_of_both_kinds():
    train = Points(np.array([[0.1, 0.1], [0.1, 0.2], [5.1, 5.1], [20, 0]]), np.zeros(4, int))
    test = Points(np.array([[0.15, 0.1], [0.3, 0.3], [-5, -5]]), np.zeros(3, int))
    grid = Grid.of(train, test)
    assert grid.count == 1
    np.testing.assert_allclose(grid.probability(np.log([1, 2, 3, 4])), [0.3])
    np.testing.assert_allclose(grid.mean_of(np.array([[1.0, 2, 9], [3, 5, 9]])), [[1.5], [4]])


def test_buffers_are_drawn_in_proportion_to_the_weights_and_grow_by_addition(tmp_path):
    options = ValexOptions(output=tmp_path, trials=4000, rows=1000, c1_sizes=(10,), c2_sizes=(10,))
    weights = np.array([1.0, 2, 3, 4])
    drawn = rankings(np.log(weights), 3, options)
    share = np.bincount(drawn[:, 0], minlength=4) / 4000
    np.testing.assert_allclose(share, weights / 10, atol=4 * np.sqrt(0.25 / 4000))
    assert all(len(set(row)) == 3 for row in drawn.tolist())
    np.testing.assert_array_equal(rankings(np.log(weights), 2, options), drawn[:, :2])


def test_error_is_variance_plus_bias_and_groups_average_to_the_variance(tmp_path):
    options = ValexOptions(output=tmp_path, trials=6, rows=1000, c1_sizes=(10,), c2_sizes=(10,), network=QUICK)
    train, test = draw(1000, 0, 0), draw(1000, 0, 1)
    world = World(options, train, test, Grid.of(train, test), posterior(test.x))
    chosen = rankings(np.zeros(1000), 10, options)
    found = measure(Strategy.UNIFORM, chosen, world, lambda _: None)
    assert found.mse.mean() == pytest.approx(found.variance + found.bias, rel=1e-5)
    assert found.group_variance.shape == (3, world.grid.count)
    assert found.density[0] == pytest.approx(np.exp(log_density(train))[chosen[0]].mean())
    alone = measure(Strategy.UNIFORM, chosen[:4], world, lambda _: None)
    np.testing.assert_allclose(alone.mse, found.mse[:4], rtol=1e-4)  # a trial does not depend on its neighbours


def measured(strategy, mse, variance=None):
    groups = np.zeros((2, 1)) if variance is None else variance
    zeros = np.zeros(len(mse))
    return Measured(strategy, 10, np.array(mse), zeros, zeros, 0.0, 0.0, groups.mean(axis=0), groups)


def test_claims_are_paired_t_intervals():
    rng = np.random.default_rng(0)
    errors = {strategy: rng.random(20) + k / 2 for k, strategy in enumerate(Strategy)}
    trials = {(strategy, 10): measured(strategy, found) for strategy, found in errors.items()}
    for claim, (first, second) in zip(c2_claims(trials, 10), ORDER, strict=True):
        interval = ttest_rel(errors[first], errors[second]).confidence_interval(0.95)
        assert (claim.low, claim.high) == pytest.approx(tuple(interval))
    assert [Claim("", 1, -1, *ends).verdict for ends in ((-2, -1), (1, 2), (-1, 1))] == ["holds", "reversed", "open"]


def test_bins_divide_the_range_of_the_probability_into_five():
    probability = np.array([0.0, 0.1, 0.2, 0.5, 0.9, 1.0])
    bins = bins_of(measured(Strategy.UNIFORM, [0.0], np.arange(12.0).reshape(2, 6)), probability)
    assert [b.number for b in bins] == [1, 2, 3, 5]
    assert [len(b.values) for b in bins] == [2, 1, 1, 2]
    np.testing.assert_allclose(bins[0].groups, [0.5, 6.5])


def test_a_small_run_writes_its_tables_and_figures_and_is_reproducible(pdac, tmp_path):
    first = pdac("valex", "-o", tmp_path / "a", *SMALL, "--jobs", 1)
    assert first.code == 0, first.err
    assert "C2: p < uniform: " in first.out
    pdac("valex", "-o", tmp_path / "b", *SMALL, "--jobs", 2)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == [
        "c1-cells.csv", "c1.csv", "c1.png", "c1.svg", "c2-trials.csv", "c2.csv", "c2.png", "c2.svg", "claims.csv",
        "results.json",
    ]  # fmt: skip
    for name in names[:-1]:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert (tmp_path / "a" / "c2.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "a" / "c2-trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 2 * 4
    lines = json.loads((tmp_path / "a" / "results.json").read_text())["lines"]
    mine = [float(row["mse"]) for row in rows if row["strategy"] == "p" and row["size"] == "40"]
    (line,) = [line for line in lines if line["strategy"] == "p" and line["size"] == 40]
    assert line["mse"] == pytest.approx(np.mean(mine))


@pytest.mark.parametrize(("arguments", "words"), [
    (["--trials", 3], "--trials is 3; expected at least 4"),
    (["--c2", "10,ten"], "--c2 is '10,ten'; expected buffer sizes"),
    (["--c1", "10,10"], "--c1 names a size twice"),
    (["--c1", "0"], "--c1 has 0; expected sizes from 1"),
    (["--rows", 1000, "--c2", "2000", "--c1", "10"], "--c2 has 2000; expected sizes from 1 to --rows 1000"),
    (["--warmup", 50], "--warmup is 50; expected fewer than --epochs"),
    (["--batch", 0], "--batch is 0"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused(pdac, tmp_path, arguments, words):
    result = pdac("valex", "-o", tmp_path / "out", *arguments)
    assert result.code == 2
    assert words in result.err
    assert not (tmp_path / "out").exists()


def test_a_folder_with_files_is_kept_unless_forced(pdac, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    result = pdac("valex", "-o", tmp_path, *SMALL)
    assert result.code == 5
    assert "add --force" in result.err
    assert pdac("valex", "-o", tmp_path, *SMALL, "--force").code == 0
    assert (tmp_path / "notes.txt").read_text() == "mine"
    (tmp_path / "file").touch()
    assert pdac("valex", "-o", tmp_path / "file", *SMALL).code == 5


def test_the_grid_has_every_choice_and_agrees_with_the_plain_run_where_they_meet(pdac, tmp_path):
    """Batches of 32, the floor 1e-6 and the scaled start are those of the plain run, to the digit."""
    for name, more in (("plain", ()), ("grid", ("--grid",))):
        assert pdac("valex", "-o", tmp_path / name, *SMALL, *more, "--quiet").code == 0
    with (tmp_path / "grid" / "grid.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 2 * (2 + 2 * 3 * 2)  # batches x sizes x (two claims, and two of each floor and start)
    with (tmp_path / "plain" / "claims.csv").open() as file:
        plain = {(row["claim"], row["size"]): row["mean"] for row in csv.DictReader(file)}
    same = [
        row for row in rows if row["batch"] == "32" and row["floor"] in ("", "1e-06") and row["start"] in ("", "scaled")
    ]
    assert len(same) == 2 * 4
    for row in same:
        assert float(row["mean"]) == pytest.approx(float(plain[row["claim"], row["size"]]), abs=1e-12)
    full = [row for row in rows if row["batch"] == "full" and row["claim"] == "C2: p < uniform" and row["size"] == "10"]
    small = [row for row in rows if row["batch"] == "32" and row["claim"] == "C2: p < uniform" and row["size"] == "10"]
    assert full[0]["mean"] == small[0]["mean"]  # ten rows are one batch either way

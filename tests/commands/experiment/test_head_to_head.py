"""A head-to-head: its trials against selecting and training by hand, and its tables."""

import csv
import json

import h5py
import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from pdac_cli.commands.experiment.definition import load
from pdac_cli.commands.experiment.place import Place
from pdac_cli.commands.experiment.plan import units_of
from pdac_cli.commands.experiment.runner import pending
from pdac_cli.options.experiment import ExperimentOptions
from pdac_cli.options.shared import RunOptions

DEFINITION = """
seeds = 2
reference = "herding"
[data.a]
path = "{train}"
test = "{test}"
[options]
per_class = [1, 4]
pool = 0.5
[methods.mean]
method = "pdac"
steer_by = "mean"
[methods.paper]
method = "pdac"
density_kind = "class"
steer = 0.0
normalize = false
allocation = "joint"
dim = 2
components = 2
[[sweep]]
command = "heads"
methods = ["herding", "uniform", "mean", "paper", "hardest", "kmedoids"]
corruption = ["clean", "wrong-40"]
"""
pytestmark = pytest.mark.usefixtures("few_steps")


@pytest.fixture
def definition(feature_file, tmp_path):
    train, test = feature_file("train.h5"), feature_file("test.h5", seed=1)
    path = tmp_path / "trials.toml"
    path.write_text(DEFINITION.format(train=train, test=test))
    return path


def read(path):
    with h5py.File(path) as file:
        return file["features"][:], file["labels"][:]


def test_a_trial_is_selection_from_its_pool_and_a_head_on_what_is_kept(pdac, definition, tmp_path):
    result = pdac("experiment", definition, "-o", tmp_path / "out", "--methods", "herding,uniform", "-q")
    assert result.code == 0, result.err
    (h, y), (g, z) = read(tmp_path / "train.h5"), read(tmp_path / "test.h5")
    from pdac_cli.options.heads import Corruption
    from pdac_cli.pipeline.corruption import Labelled, corrupted, drawn_pool

    pool = corrupted(drawn_pool(Labelled(np.arange(len(y)), h, y), 0.5, 1), Corruption.WRONG_40, 1)
    with h5py.File(tmp_path / "pool.h5", "w") as file:
        file["features"], file["labels"] = pool.h, pool.y
    classes = len(set(y))
    for n in (1, 4):
        rows = pdac("select", tmp_path / "pool.h5", "--method", "herding", "-n", n * classes).rows
        nearest = KNeighborsClassifier(1).fit(normalize(pool.h[rows]), pool.y[rows])
        path = tmp_path / "out/runs/a-corruption=wrong-40-herding-seed-1.result.json"
        found = json.loads(path.read_text())["trials"][str(n)]
        assert found["1nn"] == pytest.approx(nearest.score(normalize(g), z))
        assert found["kept"] == n * classes


def test_tables_ranks_and_figures_of_every_rule_and_corruption(pdac, definition, tmp_path):
    out = tmp_path / "out"
    first = pdac("experiment", definition, "-o", out)
    assert first.code == 0, first.err
    assert "a, corruption wrong-40" in first.out
    assert "mean rank over cells" in first.out
    with (out / "table.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 6 * 2 * 2  # rules, corruptions, rows a class
    one = next(line for line in lines if (line["method"], line["rows"], line["corruption"]) == ("mean", "4", "clean"))
    two = next(
        line for line in lines if (line["method"], line["rows"], line["corruption"]) == ("herding", "4", "clean")
    )
    for head in ("logistic", "ridge", "ncm", "1nn", "linear"):
        difference = float(one[head]) - float(two[head])
        assert float(one[f"{head}_difference"]) == pytest.approx(difference, abs=1e-9)
    assert float(one["linear"]) == pytest.approx((float(one["logistic"]) + float(one["ridge"])) / 2)
    assert {path.name for path in out.iterdir()} >= {"ranks.png", "ranks.svg", "tables.md", "times.csv", "results.json"}
    assert "## 1nn" in (out / "tables.md").read_text()
    again = pdac("experiment", definition, "-o", out)
    assert "24 of 24 runs are complete" in again.err
    assert again.out == first.out


def test_what_was_run_is_kept_and_only_the_rest_is_run_again(pdac, definition, tmp_path):
    out = tmp_path / "out"
    assert pdac("experiment", definition, "-o", out, "--methods", "herding,mean", "-q").code == 0
    kept = out / "runs/a-corruption=clean-mean-seed-0.result.json"
    gone = out / "runs/a-corruption=clean-mean-seed-1.result.json"
    before, stamp = json.loads(gone.read_text()), kept.stat().st_mtime_ns
    gone.unlink()
    assert pdac("experiment", definition, "-o", out, "--methods", "herding,mean", "-q").code == 0
    assert kept.stat().st_mtime_ns == stamp
    same = []
    for found in (before, json.loads(gone.read_text())):
        same.append({n: {**one, "seconds": 0, "peak_mib": 0} for n, one in found["trials"].items()})
    assert same[0] == same[1]
    gone.unlink()
    (out / "results.csv").unlink()
    result = pdac("experiment", definition, "-o", out, "--tabulate", "--json")
    assert (result.code, result.json["runs"]) == (0, 7)
    assert not gone.exists()
    assert (out / "results.csv").exists()


def test_seeds_go_one_after_the_other_through_all_data(definition, tmp_path):
    options = ExperimentOptions(definition=definition)
    units, _ = units_of(load(options), options)
    (tmp_path / "runs").mkdir()
    chunks = pending(units, Place(tmp_path / "runs", "cpu", RunOptions()))
    assert [(chunk[0].seed, chunk[0].axes["corruption"], len(chunk)) for chunk in chunks] == [
        (0, "clean", 6), (0, "wrong-40", 6), (1, "clean", 6), (1, "wrong-40", 6),
    ]  # fmt: skip


def test_without_a_test_file_a_fifth_of_the_rows_is_set_apart(pdac, definition, tmp_path):
    text = definition.read_text()
    definition.write_text("\n".join(line for line in text.splitlines() if not line.startswith("test =")))
    assert pdac("experiment", definition, "-o", tmp_path / "out", "--methods", "uniform", "-q").code == 0


@pytest.mark.parametrize(("change", "words"), [
    ('per_class = []', "per_class is []; expected numbers of rows, each once"),
    ('per_class = [1, 1]', "per_class is [1, 1]; expected numbers of rows, each once"),
    ('per_class = [0]', "per_class is 0; expected a whole number from 1"),
    ('per_class = ["a"]', "per_class is 'a'; expected a whole number from 1"),
    ('per_class = 4\npool = 2', "--pool is 2.0; expected a share above 0 and at most 1"),
    ('per_class = 4\nallocation = "fair"', "allocation is 'fair'; expected one of"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused_before_anything_runs(pdac, definition, tmp_path, change, words):
    old = "per_class = [1, 4]\npool = 0.5" if "pool" in change else "per_class = [1, 4]"
    definition.write_text(definition.read_text().replace(old, change))
    result = pdac("experiment", definition, "-o", tmp_path / "out")
    assert result.code == 2
    assert words in result.err

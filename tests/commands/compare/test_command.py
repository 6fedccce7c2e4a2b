"""`pdac compare`: a table of methods, each number against its definition."""

import csv

import h5py
import numpy as np
import pytest

from pdac_cli.selection.methods import METHODS
from tests.conftest import SAMPLE
from tests.oracles import clustered

CHEAP = "pdac,uniform,kcenter,herding"
pytestmark = pytest.mark.usefixtures("few_steps")


@pytest.fixture
def files(tmp_path):
    """Feature files to select from and to test on, without logits."""
    rng = np.random.default_rng(0)
    for name, n in (("train", 240), ("test", 90)):
        y = np.arange(n) % 3
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["features"] = (rng.standard_normal((n, 8)) + 3 * np.eye(8)[y]).astype("f4")
            file["labels"] = y
    return tmp_path / "train.h5", tmp_path / "test.h5"


def test_a_table_of_every_method_and_budget(pdac, files):
    result = pdac("compare", files[0], "--budget", "12,20", "--methods", CHEAP, "--seeds", 2, "--dim", 3)
    assert result.code == 0, result.err
    head, columns, *lines = result.out.splitlines()
    assert head == "240 rows x 8, 3 classes"
    assert columns.split() == [
        "method",
        "budget",
        "runs",
        "seconds",
        "classes",
        "log-density",
        "radius",
        "mean",
        "off",
        "suspect",
    ]
    assert [line.split()[:3] for line in lines] == [
        [name, budget, "1" if name in ("kcenter", "herding") else "2"]
        for budget in ("12", "20")
        for name in CHEAP.split(",")
    ]


def test_every_number_is_its_definition(pdac, files, tmp_path):
    from sklearn.linear_model import LogisticRegression

    train, test = files
    found = pdac("compare", train, "--budget", 15, "--methods", "kcenter", "--test", test, "--dim", 3, "--json").json
    (line,) = found["lines"]
    rows = pdac("select", train, "--budget", 15, "--method", "kcenter").rows
    with h5py.File(train) as one, h5py.File(test) as other:
        h, y = one["features"][:].astype("f8"), one["labels"][:]
        g, z = other["features"][:].astype("f8"), other["labels"][:]
    gaps = np.linalg.norm(h[:, None] - h[rows][None], axis=2).min(axis=1)
    assert line["radius"] == pytest.approx(gaps.max(), rel=1e-5)
    assert line["coverage"] == len(set(y[rows].tolist())) / 3
    assert line["allocation"] == "joint"
    mean, std = h.mean(axis=0), h.std(axis=0)
    head = LogisticRegression(max_iter=200).fit((h[rows] - mean) / std, y[rows])
    assert line["accuracy"] == pytest.approx(head.score((g - mean) / std, z), abs=0.012)
    assert found["test_rows"] == 90
    apart = [h[[r for r in rows if y[r] == c]].mean(axis=0) - h[y == c].mean(axis=0) for c in set(y[rows].tolist())]
    spread = [np.square(h[y == c] - h[y == c].mean(axis=0)).sum(axis=1).mean() for c in set(y[rows].tolist())]
    off = np.mean([a @ a / s for a, s in zip(apart, spread, strict=True)])
    assert line["mean_distance"] == pytest.approx(off, rel=1e-6)
    pdac("select", train, "--budget", 15, "-o", tmp_path / "suspects.h5")
    with h5py.File(tmp_path / "suspects.h5") as index:
        suspects = set(index["suspects/row"][:].tolist())
    assert line["suspects"] == pytest.approx(len(suspects & set(rows)) / 15)
    # every row at the same density as pdac's own index says
    pdac("select", train, "--budget", 240, "--dim", 3, "--density", "class", "-o", tmp_path / "all.h5")
    with h5py.File(tmp_path / "all.h5") as index:
        log_p = dict(zip(index["row"][:].tolist(), index["log_density"][:], strict=True))
    assert line["mean_log_density"] == pytest.approx(np.mean([log_p[row] for row in rows]), rel=1e-9)


def test_a_csv_file_holds_what_the_json_says(pdac, files, tmp_path):
    out = tmp_path / "table.csv"
    arguments = ["compare", files[0], "--budget", 10, "--methods", CHEAP, "--seeds", 1, "--dim", 3, "-o", out]
    found = pdac(*arguments, "--json").json
    with out.open() as file:
        lines = list(csv.DictReader(file))
    assert [line["method"] for line in lines] == CHEAP.split(",")
    for line, same in zip(lines, found["lines"], strict=True):
        assert float(line["radius"]) == same["radius"]
        assert line["accuracy"] == ""
    assert pdac(*arguments).code == 5  # exists
    assert pdac(*arguments, "--force").code == 0


def test_all_leaves_out_what_needs_logits_with_a_note_and_runs_it_with_a_head(pdac, files):
    arguments = ["compare", files[0], "--budget", 6, "--seeds", 1, "--dim", 3, "--json"]
    without = pdac(*arguments).json
    run = {line["method"] for line in without["lines"]}
    needy = {name for name, method in METHODS.items() if method.needs_logits}
    assert run == set(METHODS) - needy
    for name in needy:
        assert any(note.startswith(f"{name} is left out: it needs logits") for note in without["notes"])
    trained = pdac(*arguments, "--head").json
    assert {line["method"] for line in trained["lines"]} == set(METHODS)
    assert any("linear head" in note for note in trained["notes"])


def test_what_costs_too_much_is_left_out_with_a_note_unless_it_is_named(pdac, files):
    found = pdac("compare", files[0], "--budget", 6, "--limit", 1e-7, "--json").json
    assert found["lines"] == []
    assert any(note.startswith("kcenter is left out: about") for note in found["notes"])
    named = pdac("compare", files[0], "--budget", 6, "--limit", 1e-7, "--methods", "kcenter", "--json").json
    assert len(named["lines"]) == 1
    assert named["notes"][0].startswith("kcenter is costly")


@pytest.mark.parametrize(("arguments", "code", "words"), [
    (["--budget", "many"], 2, "--budget is 'many'"),
    (["--budget", "5,0"], 2, "--budget has 0"),
    (["--budget", "5,5"], 2, "twice"),
    (["--budget", "5", "--methods", "best"], 2, "expected one of: pdac"),
    (["--budget", "5", "--seeds", "0"], 2, "--seeds is 0"),
    (["--budget", "5000"], 2, "there are 240 usable rows"),
    (["--budget", "5", "-o", "table.txt"], 2, ".csv"),
    (["--budget", "5", "--methods", "hardest"], 3, "--head"),
    (["--budget", "5", "--test", "missing.h5"], 3, "missing.h5"),
    (["--budget", "5", "--test", str(SAMPLE)], 3, "has 64 features"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused(pdac, files, arguments, code, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = pdac("compare", files[0], "--dim", 3, *arguments)
    assert result.code == code
    assert words in result.err
    assert len(result.err.splitlines()) == 1


def test_one_class_in_a_selection_is_a_head_that_answers_it(pdac, tmp_path):
    for name in ("a", "b"):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["features"], file["labels"] = clustered(40, 4, 2), np.arange(40) % 4
    found = pdac(
        "compare", tmp_path / "a.h5", "--budget", 1, "--methods", "kcenter", "--test", tmp_path / "b.h5", "--dim", 2,
        "--json",
    ).json  # fmt: skip
    assert found["lines"][0]["accuracy"] == 0.25
    assert found["lines"][0]["coverage"] == 0.25


@pytest.mark.parametrize("arguments", [("--budget", 15, "--methods", "kcenter"), ("--curve", "--methods", "kcenter")])
def test_rows_of_other_classes_measure_nothing(pdac, files, arguments):
    """Labels counted from 1 are refused before any work; rows of classes that are not learned are left out."""
    train, test = files
    with h5py.File(test, "a") as file:
        file["labels"][:] += 1
    found = pdac("compare", train, "--test", test, *arguments)
    assert found.code == 3
    assert "has no test rows of 1 of the 3 classes (class 0)" in found.err
    assert "they look like the same labels counted from 1, not 0" in found.err
    with h5py.File(test, "a") as file:
        file["labels"][:] = np.arange(90) % 3
    before = pdac("compare", train, "--test", test, *arguments, "--json").json
    with h5py.File(test, "a") as file:
        h, y = file["features"][:], file["labels"][:]
        del file["features"], file["labels"]
        file["features"], file["labels"] = np.concatenate([h, h[:9] + 50]), np.concatenate([y, np.full(9, 7)])
    after = pdac("compare", train, "--test", test, *arguments, "--json")
    assert "rows of class 7 are left out of the test" in after.err
    assert after.json["test_rows"] == before["test_rows"] == 90
    if "lines" in before:
        assert after.json["lines"][0]["accuracy"] == before["lines"][0]["accuracy"]

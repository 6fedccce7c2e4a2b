"""`pdac compare --curve`: accuracy over budget, against selecting and training by hand."""

import csv

import h5py
import numpy as np
import pytest
from sklearn.linear_model import Ridge

from tests.conftest import SAMPLE


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("train", 240), ("test", 300)):
        y = np.arange(n) % 3
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["features"] = (2 * rng.standard_normal((n, 8)) + 2 * np.eye(8)[y]).astype("f4")
            file["labels"] = y
    return tmp_path / "train.h5", tmp_path / "test.h5"


def ridge_accuracy(files, rows):
    """A head by scikit-learn on these rows; features standardised by all."""
    with h5py.File(files[0]) as one, h5py.File(files[1]) as other:
        h, y, g, z = one["features"][:].astype("f8"), one["labels"][:], other["features"][:], other["labels"][:]
    mean, std = h.mean(axis=0), h.std(axis=0)
    kept, codes = np.unique(y[rows], return_inverse=True)
    fitted = Ridge(alpha=8).fit((h[rows] - mean) / std, np.eye(len(kept))[codes])
    return float(np.mean(kept[fitted.predict((g - mean) / std).argmax(axis=1)] == z))


def test_points_are_heads_on_the_beginnings_of_one_list(pdac, files, tmp_path):
    found = pdac(
        "compare", files[0], "--test", files[1], "--curve", "--per-class", "2,10,30,500", "--methods",
        "herding,uniform,kcenter", "--classifier", "ridge", "--seeds", 2, "--json", "-o", tmp_path / "c.csv",
        "--plot", tmp_path / "c.png",
    ).json  # fmt: skip
    assert found["whole_accuracy"] == pytest.approx(ridge_accuracy(files, np.arange(240)))
    points = {(point["method"], point["per_class"]): point for point in found["points"]}
    assert len(points) == 9
    for name in ("herding", "kcenter"):
        for n in (2, 10, 30):
            rows = pdac("select", files[0], "--method", name, "-n", 3 * n).rows
            assert points[name, n]["accuracy"] == pytest.approx(ridge_accuracy(files, rows))
            assert points[name, n]["budget"] == 3 * n
    assert points["uniform", 2]["runs"] == 2
    assert any(note.startswith("500 a class: more rows than there are") for note in found["notes"])
    assert any("asked for fewer rows these may answer others: uniform" in note for note in found["notes"])
    with (tmp_path / "c.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 9
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"


def test_the_smallest_budget_that_reaches_the_goal_reaches_it_and_one_less_does_not(pdac, files):
    arguments = ["compare", files[0], "--test", files[1], "--curve", "--per-class", "1,40", "--methods", "herding"]
    found = pdac(*arguments, "--reach", 0.9, "--classifier", "ridge", "--json").json
    (enough,) = found["enough"]
    n, goal = enough["per_class"], 0.9 * found["whole_accuracy"]
    assert 1 <= n <= 40
    rows = pdac("select", files[0], "--method", "herding", "-n", 120).rows
    assert ridge_accuracy(files, rows[: 3 * n]) >= goal
    assert n == 1 or ridge_accuracy(files, rows[: 3 * (n - 1)]) < goal
    shown = pdac(*arguments, "--reach", 0.9, "--classifier", "ridge")
    assert shown.out.splitlines()[2].split()[-1] == str(n)
    assert "rows a class for 90%" in shown.out


@pytest.mark.parametrize(("arguments", "words"), [
    (["--curve"], "nothing to test on; add --test"),
    (["--curve", "--test", "t.h5", "--budget", "5"], "--budget and --curve are both given"),
    (["--curve", "--test", "t.h5", "--per-class", "5,5"], "names a number twice"),
    (["--curve", "--test", "t.h5", "--reach", "1.5"], "--reach is 1.5; expected a share above 0"),
    (["--curve", "--test", "t.h5", "--plot", "c.pdf"], "expected a name ending in .png or .svg"),
    (["--curve", "--test", "t.h5", "--classifier", "svm"], "expected one of: logistic, ridge, ncm, 1nn"),
    (["--curve", "--test", str(SAMPLE), "--per-class", "900"], "10 classes have 1,797 usable rows"),
    (["--per-class", "5", "--budget", "5"], "--per-class is for curves; expected --curve with it"),
    ([], "--budget is missing; expected row numbers such as 200,500, or --curve"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused(pdac, arguments, words):
    result = pdac("compare", SAMPLE, "--methods", "uniform", *arguments)
    assert result.code == 2
    assert words in result.err

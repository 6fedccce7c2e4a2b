"""`pdac train-cl --learner`: heads without a buffer beside replay, against scikit-learn on all rows seen."""

import csv

import h5py
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import normalize

EVERY = ("linear", "finetune", "ncm", "slda", "ridge", "ranpac", "joint")


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    for name, n in (("train", 240), ("test", 300)):
        y = np.arange(n) % 6
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["features"] = (2 * rng.standard_normal((n, 10)) + 2 * np.eye(10)[y]).astype("f4")
            file["labels"] = y
    return tmp_path / "train.h5", tmp_path / "test.h5"


def read(path):
    with h5py.File(path) as file:
        return file["features"][:].astype("f8"), file["labels"][:]


def run(pdac, files, out, *arguments):
    learners = [word for name in EVERY for word in ("--learner", name)]
    base = ["train-cl", files[0], "--test", files[1], "--budget", 30, "--epochs", 2, "--seeds", 2]
    return pdac(*base, "--method", "uniform", *learners, "--random-features", 50, "-o", out, "--json", *arguments)


def test_all_learners_are_in_one_table_with_what_they_keep(pdac, files, tmp_path):
    result = run(pdac, files, tmp_path / "run")
    assert result.code == 0, result.err
    found = {method["method"]: method for method in result.json["methods"]}
    assert list(found) == ["uniform", *EVERY[1:]]
    assert result.json["reference"] == "uniform"
    for name, width in (("ridge", 10), ("ranpac", 50)):
        part = 1 + width + 6 + width * width + 6 * width
        assert found[name]["bytes_kept"] == 8 * (2 * part + (500 if name == "ranpac" else 0))
    assert found["ncm"]["bytes_kept"] == 8 * (6 + 60)
    assert found["slda"]["bytes_kept"] == 8 * (6 + 60 + 100)
    assert found["joint"]["bytes_kept"] == 240 * (4 * 10 + 8)
    network = 4 * (10 * 6 + 6)
    assert found["finetune"]["bytes_kept"] == network
    assert found["uniform"]["bytes_kept"] == network + 30 * (4 * 10 + 8)
    for method in found.values():
        assert method["average_acc"][0] == pytest.approx(np.mean([np.mean(row) for row in method["matrix"]]), abs=10)
    assert found["finetune"]["acc"][0] < found["ridge"]["acc"][0]
    with (tmp_path / "run/results.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 14
    assert float(lines[0]["bytes_kept"]) == network + 30 * 48
    again = run(pdac, files, tmp_path / "run", "--resume")
    assert again.json["methods"] == result.json["methods"]


def test_accuracies_after_each_task_are_those_of_heads_on_all_rows_so_far(pdac, files, tmp_path):
    found = {method["method"]: method for method in run(pdac, files, tmp_path / "run").json["methods"]}
    (h, y), (g, z) = read(files[0]), read(files[1])
    for t in range(3):
        seen, tested = y < 2 * (t + 1), [np.isin(z, (2 * j, 2 * j + 1)) for j in range(t + 1)]
        means = NearestCentroid().fit(normalize(h[seen]), y[seen])
        nearest = (normalize(g) @ normalize(means.centroids_).T).argmax(axis=1)
        mean, std = h[seen].mean(axis=0), h[seen].std(axis=0)
        head = LogisticRegression(max_iter=200).fit((h[seen] - mean) / std, y[seen])
        for name, answers, within in (("ncm", nearest, 1e-9), ("joint", head.predict((g - mean) / std), 1.5)):
            expected = [100 * np.mean(answers[rows] == z[rows]) for rows in tested]
            np.testing.assert_allclose(found[name]["matrix"][t], expected, atol=within)


def test_the_order_of_classes_and_batches_changes_no_final_answer(pdac, files, tmp_path):
    arguments = ["train-cl", files[0], "--test", files[1], "--seeds", 1, "--learner", "slda", "--learner", "ridge"]
    one = pdac(*arguments, "-o", tmp_path / "a", "--json").json["methods"]
    two = pdac(*arguments, "-o", tmp_path / "b", "--json", "--class-order", "5,3,1,4,2,0", "--batch", 7).json["methods"]
    for first, second in zip(one, two, strict=True):
        assert first["acc"] == pytest.approx(second["acc"])


@pytest.mark.parametrize(("arguments", "words"), [
    (["--learner", "svm"], "expected one of: linear, finetune, ncm"),
    (["--learner", "ncm", "--learner", "ncm"], "--learner names a learner twice"),
    (["--learner", "ncm", "--method", "pdac"], "no --learner replays; expected --learner linear among them"),
    (["--learner", "ranpac", "--random-features", "0"], "--random-features is 0; expected 1 to 50,000"),
    (["--learner", "ncm", "--reference", "uniform"], "expected one of the methods: ncm"),
])  # fmt: skip
def test_what_cannot_be_meant_is_refused(pdac, files, tmp_path, arguments, words):
    result = pdac("train-cl", files[0], "-o", tmp_path / "run", *arguments)
    assert result.code == 2
    assert words in result.err


def test_closed_forms_on_images_are_refused(pdac, tmp_path):
    with h5py.File(tmp_path / "i.h5", "w") as file:
        file["images"], file["labels"] = np.zeros((20, 8, 8), np.uint8), np.arange(20) % 4
    result = pdac("train-cl", tmp_path / "i.h5", "-o", tmp_path / "run", "--learner", "ridge")
    assert result.code == 2
    assert "--learner ridge is a head on features, and the data are images" in result.err

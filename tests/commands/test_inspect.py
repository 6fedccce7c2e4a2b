"""`pdac inspect`: every kind of file is known, what is wrong with rows is found, and only what is."""

import json
import shutil
import sys

import h5py
import numpy as np
import pytest

from pdac_cli import cli
from tests.conftest import SAMPLE

FOLDER = SAMPLE.parent


def one(result):
    assert (result.code, result.err) == (0, "")
    return result.json["inspected"][0]


def write(path, h, y, **more):
    with h5py.File(path, "w") as file:
        file["features"], file["labels"] = h, y
        for name, values in more.items():
            file[name] = values
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """One of each file that pdac writes, by kind."""
    folder = tmp_path_factory.mktemp("made")
    ends = (".json", ".h5", ".npy", ".txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for arguments in (
            ["fit", SAMPLE, "-o", "m.h5"],
            *(["select", SAMPLE, "--method", "uniform", "-n", 30, "-o", f"c{end}"] for end in ends),
            ["stream", SAMPLE, "-n", 30, "--method", "er", "-o", "b.json", "--state", "s.h5", "--trace", "t.csv"],
        ):
            patch.setattr(sys, "argv", ["pdac", *map(str, arguments), "-q"])
            with pytest.raises(SystemExit):
                cli.main()
    run = folder / "run"
    run.mkdir()
    (run / "config.json").write_text('{"format": "pdac-run 1", "budget": 30}')
    shutil.copytree(run, folder / "done")
    (folder / "done" / "results.json").write_text(
        '{"summary": [{"method": "pdac", "acc": [90.0, 92.0], "seeds": [0, 1]}]}'
    )
    (folder / "sweep").mkdir()
    (folder / "sweep" / "a.json").write_text('{"cell": {}}')
    (folder / "o.parts").mkdir()
    (folder / "o.parts" / "manifest.json").write_text('{"format": "pdac-extract 1"}')
    return folder


@pytest.mark.parametrize(("name", "kind", "says"), [
    ("m.h5", "model", {"rows fitted on": 1797, "features, dimensions, components": [64, 10, 7], "EM steps": 20}),
    ("c.json", "index", {"rows kept": 30, "method": "uniform", "budget": 30, "seed": 0}),
    ("c.h5", "index", {"rows kept": 30}),
    ("c.npy", "row numbers", {"rows kept": 30}),
    ("c.txt", "row numbers", {"rows kept": 30}),
    ("b.json", "index", {"method": "er"}),
    ("s.h5", "state of a stream", {"features": 64}),
    ("t.csv", "trace of a stream", {"rows of the stream": 1797}),
    ("run", "run of train-cl", {"complete": False}),
    ("done", "run of train-cl", {"pdac": {"ACC": 91.0, "seeds": 2}}),
    ("sweep", "experiment", {}),
    ("o.parts", "parts of an extraction", {"parts": 0}),
    (FOLDER / "digits.h5", "features", {"rows": 1797, "features": 64, "type": "float32"}),
    (FOLDER / "digits-images.h5", "images", {"images": "(1,797, 8, 8, 1)"}),
    (FOLDER / "digits-resnet18.pt", "checkpoint of a network", {}),
])  # fmt: skip
def test_every_kind_is_known_and_says_what_it_is(pdac, made, name, kind, says):
    found = one(pdac("inspect", made / name, "--json"))
    assert found["kind"] == kind
    assert {key: found["facts"].get(key) for key in says} == says
    assert found["bytes"] > 0
    assert found["next"]


def test_a_screenful_for_people(pdac, made):
    for path in (SAMPLE, made / "m.h5", made / "c.json", made / "s.h5", made / "done"):
        result = pdac("inspect", path)
        assert result.code == 0
        assert len(result.out.splitlines()) <= 24
    result = pdac("inspect", SAMPLE, made / "c.json")
    assert result.out.count("\n\n") == 1
    assert "nothing found" in result.out


def test_classes_are_counted_as_numpy_counts_them(pdac):
    with h5py.File(SAMPLE) as file:
        labels, logits = file["labels"][:], file["logits"][:]
        lengths = np.linalg.norm(file["features"][:].astype(float), axis=1)
    found, expected = one(pdac("inspect", SAMPLE, "--json")), [lengths.min(), lengths.mean(), lengths.max()]
    assert [each["rows"] for each in found["per_class"]] == np.bincount(labels).tolist()
    assert found["health"] == []
    assert found["facts"]["logits that agree with the label"] == (logits.argmax(1) == labels).mean()
    assert found["facts"]["shortest, mean, longest row"] == pytest.approx(expected)


def rows():
    return np.random.default_rng(0).normal(size=(60, 8)).astype("f4"), np.arange(60) % 3


def nan(h, y):
    h[7, 2] = np.nan


def constant(h, y):
    h[:, [1, 4]] = 3


def copied_features(h, y):
    h[:, 5] = h[:, 2]


def copied_rows(h, y):
    h[10], h[13], h[30] = h[1], h[1], h[2]  # of classes 1 and 1 (rows 10 and 13 are of class 1), 0 and 2


def tiny(h, y):
    y[:4] = 7


def in_order(h, y):
    y.sort()


@pytest.mark.parametrize(("harm", "check", "says"), [
    (nan, "not finite", "1 of 60 rows hold NaN or infinity"),
    (constant, "constant features", "2 of 8 features (1, 4)"),
    (copied_features, "repeated features", "1 features are copies of others (5)"),
    (copied_rows, "repeated rows", "3 rows repeat another, 1 of them under another label"),
    (tiny, "tiny classes", "1 of 4 have fewer than 10 rows (7)"),
    (in_order, "order", "rows are sorted by label"),
])  # fmt: skip
def test_what_is_wrong_is_found_and_nothing_else(pdac, tmp_path, harm, check, says):
    h, y = rows()
    harm(h, y)
    path = write(tmp_path / "f.h5", h, y)
    for rows_at_once in (1000, 7):
        found = one(pdac("inspect", path, "--json", "--chunk-rows", rows_at_once))["health"]
        assert [(each["check"], each["found"]) for each in found] == [(check, says)]


@pytest.mark.parametrize(("logits", "says"), [
    (np.zeros((60, 3)), "all rows have the same"),
    (np.eye(3)[(np.arange(60) + 1) % 3], "the largest is the label's in 0.0% of the rows, no more than by chance"),
    (np.random.default_rng(0).normal(size=(60, 2)), "2 columns, and there is a label 2"),
    (np.eye(3)[np.arange(60) % 3], None),
])  # fmt: skip
def test_logits_that_say_nothing_are_found(pdac, tmp_path, logits, says):
    h, y = rows()
    found = one(pdac("inspect", write(tmp_path / "f.h5", h, y, logits=logits), "--json"))["health"]
    assert [each["found"] for each in found] == ([] if says is None else [says])


def test_features_without_labels_are_described_all_the_same(pdac, tmp_path):
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["features"] = rows()[0]
    found = one(pdac("inspect", tmp_path / "f.h5", "--json"))
    assert found["arrays"] == [{"name": "features", "shape": [60, 8], "dtype": "float32"}]
    assert "has no labels" in found["health"][0]["found"]


@pytest.mark.parametrize(("make", "code"), [
    (lambda path: path.write_bytes(b"nothing of ours"), 3),
    (lambda path: path.write_bytes(b""), 3),
    (lambda path: path.mkdir(), 3),
    (lambda path: path.write_text("{}"), 3),
    (lambda path: path.write_text('{"format": "a\\u001b[2J"}'), 3),
    (lambda path: None, 3),
])  # fmt: skip
def test_what_is_nothing_of_ours_is_refused_in_one_line(pdac, tmp_path, make, code):
    make(tmp_path / "x")
    result = pdac("inspect", tmp_path / "x")
    assert (result.code, result.out) == (code, "")
    assert result.err.startswith("error: ")
    assert len(result.err.splitlines()) == 1


def test_text_from_files_commands_nothing(pdac, tmp_path):
    h, y = rows()
    path = write(tmp_path / "f.h5", h, np.array(["a\x1b[2J", "b\nerror: c", "d"]).astype("S")[y])
    with h5py.File(path, "r+") as file:
        file.attrs["made\x1bby"] = "x\x1b[31m\ny"
    result = pdac("inspect", path)
    assert result.code == 0
    assert all(line.isprintable() for line in result.out.splitlines())
    assert not any(line.startswith("error") for line in result.out.splitlines())


def test_names_given_are_used(pdac, tmp_path):
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["mine"], file["classes"] = rows()
    found = one(pdac("inspect", tmp_path / "f.h5", "--features-key", "mine", "--labels-key", "classes", "--json"))
    assert found["facts"]["rows"] == 60
    assert json.dumps(found)


def test_a_folder_of_arrays_is_features_and_any_other_is_refused(pdac, tmp_path):
    folder = tmp_path / "arrays"
    folder.mkdir()
    assert pdac("inspect", folder).code == 3
    np.save(folder / "img_emb_0.npy", rows()[0])
    found = one(pdac("inspect", folder, "--no-labels", "--json"))
    assert (found["kind"], found["facts"]["rows"]) == ("features", 60)

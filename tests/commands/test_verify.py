"""`pdac verify`: what is as it says passes, and every way to lie about a selection is found."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest


@pytest.fixture
def selected(pdac, feature_file, tmp_path, monkeypatch):
    """A feature file f.h5 and an index of it, in the current folder."""
    monkeypatch.chdir(tmp_path)
    feature_file("f.h5", n=300)

    def make(*more, output="c.json"):
        result = pdac("select", "f.h5", "-n", 30, "-o", output, "-q", *more)
        assert result.code == 0, result.err
        return output

    return make


def words(result):
    return {check["name"]: check["passed"] for check in result.json["checks"]}


@pytest.mark.parametrize("more", [
    ["--method", "uniform"], [], ["--density", "class", "--dim", "3", "--components", "2", "--temperature", "0.5"],
    ["--preset", "paper", "--dim", "3"], ["--method", "herding", "--allocation", "joint"],
    ["--seed", "7", "--steer", "5"], ["--method", "least-error"], ["--method", "hardest", "--head"],
    ["--ignore-label", "1"], ["--method", "typiclust", "--neighbours", "5"],
])  # fmt: skip
def test_a_selection_is_derived_anew_from_what_it_records(pdac, selected, more):
    result = pdac("verify", selected(*more), "--again", "--json")
    assert (result.code, result.err) == (0, "")
    assert words(result) == {"contents": True, "fingerprint": True, "labels": True, "derived anew": True}
    assert result.json["verified"] is True


def test_every_form_and_a_file_that_has_moved(pdac, selected):
    assert pdac("verify", selected(output="c.h5"), "--again").code == 0
    Path("f.h5").rename("g.h5")
    result = pdac("verify", "c.h5")
    assert (result.code, result.out) == (3, "")
    assert "was made from f.h5, which is not there" in result.err
    result = pdac("verify", "c.h5", "g.h5", "--again")
    assert (result.code, result.err) == (0, "")
    assert "derived anew" in result.out


def test_an_index_is_found_out_from_another_folder(pdac, selected, monkeypatch, tmp_path):
    selected()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert pdac("verify", "../c.json").code == 0


def changed(path, change):
    content = json.loads(path.read_text())
    change(content)
    content.pop("class_counts")
    path.write_text(json.dumps(content))


def other_label(content):
    content["kept"][3]["label"] = (content["kept"][3]["label"] + 1) % 3


def other_row(content):
    kept = {item["row"] for item in content["kept"]}
    mine = content["kept"][3]
    with h5py.File("f.h5") as file:
        labels = file["labels"][:]
    mine["row"] = next(row for row in range(300) if row not in kept and labels[row] == mine["label"])


def other_order(content):
    content["kept"][0], content["kept"][1] = content["kept"][1], content["kept"][0]


def other_density(content):
    content["kept"][0]["log_density"] += 1.0


def other_seed(content):
    content["seed"] = 5


def other_budget(content):
    content["budget"] = 20


@pytest.mark.parametrize(("change", "again", "wrong", "says"), [
    (other_label, [], "labels", "the index says"),
    (other_budget, [], "budget", "30 rows are kept and the budget is 20"),
    (other_row, ["--again"], "derived anew", "29 of 30 rows are the same; at place 4 is row"),
    (other_order, ["--again"], "derived anew", "30 of 30 rows are the same; at place 1 is row"),
    (other_density, ["--again"], "derived anew", "log-density is not"),
    (other_seed, ["--again"], "derived anew", "rows are the same; at place"),
])  # fmt: skip
def test_a_lie_is_found(pdac, selected, tmp_path, change, again, wrong, says):
    selected("--steer", 0)
    changed(tmp_path / "c.json", change)
    result = pdac("verify", "c.json", "--json", *again)
    assert result.code == 3
    assert words(result)[wrong] is False
    assert result.json["verified"] is False
    assert says in result.err
    assert len(result.err.splitlines()) == 1
    if again:  # only what is derived anew is found this way
        assert pdac("verify", "c.json").code == 0


def test_another_feature_file_is_found_out(pdac, selected, feature_file):
    selected()
    feature_file("g.h5", n=300, seed=9)
    result = pdac("verify", "c.json", "g.h5")
    assert result.code == 3
    assert "g.h5, of 300 rows, is not the set of 300 rows" in result.err
    assert "WRONG" in result.out
    with h5py.File("f.h5", "r+") as file:
        labels = file["labels"][:]
        labels[:] = (labels + 1) % 3
        file["labels"][:] = labels
    assert pdac("verify", "c.json").code == 3


def test_names_for_labels_and_a_buffer_of_two_tasks(pdac, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, classes in (("f.h5", ["cat", "dog"]), ("g.h5", ["ant", "bee"])):
        with h5py.File(name, "w") as file:
            file["features"] = rng.normal(size=(60, 6))
            file["labels"] = np.array(classes).astype("S")[np.arange(60) % 2]
    assert pdac("select", "f.h5", "-n", 20, "-o", "a.json", "--task", 1, "-q").code == 0
    assert pdac("select", "g.h5", "-n", 20, "-o", "b.json", "--buffer", "a.json", "-q").code == 0
    result = pdac("verify", "b.json", "--again", "--json")
    assert (result.code, result.err) == (0, "")
    assert set(words(result)) >= {"labels of task 1", "labels of task 2", "derived anew"}
    assert pdac("verify", "b.json", "f.h5", "g.h5").code == 0
    assert pdac("verify", "b.json", "g.h5", "f.h5").code == 3
    assert "expected one for each" in pdac("verify", "b.json", "g.h5").err


def test_what_rows_are_called_is_checked_and_labels_may_lie_apart(pdac, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with h5py.File("f.h5", "w") as file:
        file["features"] = np.random.default_rng(0).normal(size=(60, 6))
        file["name"] = np.array([f"n{k}" for k in range(60)]).astype("S")
    np.save("y.npy", np.arange(60) % 3)
    for more in (["--no-labels"], ["--labels", "y.npy"]):
        done = pdac("select", "f.h5", "-n", 9, "-o", "c.json", "--ids-key", "name", "-q", "--force", *more)
        assert done.code == 0, done.err
        result = pdac("verify", "c.json", "--again", "--json")
        assert (result.code, result.err) == (0, "")
        assert words(result)["ids"] is True
    changed(tmp_path / "c.json", lambda content: content["kept"][2].update(id="n60"))
    result = pdac("verify", "c.json")
    assert result.code == 3
    assert "8 of 9 rows have the file's" in result.err


def test_row_numbers_say_less(pdac, selected):
    selected(output="c.npy")
    result = pdac("verify", "c.npy", "f.h5", "--json")
    assert result.code == 0
    assert words(result) == {"contents": True, "fingerprint": None}
    np.save("far.npy", np.array([1, 300]))
    assert "row 300 is out of range" in pdac("verify", "far.npy", "f.h5").err
    assert pdac("verify", "c.npy").code == 3
    assert pdac("verify", "c.npy", "f.h5", "--again").code == 2


def test_a_model_and_what_was_chosen_by_it(pdac, selected, feature_file):
    assert pdac("fit", "f.h5", "-o", "m.h5", "--dim", 3, "--components", 2, "-q").code == 0
    result = pdac("verify", "m.h5", "f.h5", "--again", "--json")
    assert (result.code, result.err) == (0, "")
    assert set(words(result).values()) == {True}
    assert words(pdac("verify", "m.h5", "--json"))["fingerprint"] is None
    assert pdac("verify", "m.h5", "--again").code == 2
    feature_file("g.h5", n=300, seed=9)
    assert "another set than it was fitted on" in pdac("verify", "m.h5", "g.h5").err
    with h5py.File("m.h5", "r+") as file:
        file["mu"][0, 0, 0] += 0.5 * abs(file["mu"][0, 0, 0])
    result = pdac("verify", "m.h5", "f.h5", "--again")
    assert result.code == 3
    assert "'mu' is not what the fit comes to" in result.err
    assert pdac("fit", "f.h5", "-o", "m.h5", "--dim", 3, "--components", 2, "-q", "--force").code == 0
    selected("--density", "class", "--model", "m.h5")
    assert pdac("verify", "c.json", "--again").code == 0
    Path("m.h5").rename("n.h5")
    assert "name it with --model" in pdac("verify", "c.json", "--again").err
    assert pdac("verify", "c.json", "--again", "--model", "n.h5").code == 0
    assert pdac("verify", "c.json", "--model", "n.h5").code == 2


def test_a_stream_its_buffer_and_its_state(pdac, feature_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    feature_file("f.h5", n=300)
    feature_file("g.h5", n=300, seed=5)
    more = ["-n", 30, "-o", "b.json", "--state", "s.h5", "-q"]
    assert pdac("stream", "f.h5", *more).code == 0
    assert pdac("stream", "f.h5", "g.h5", *more).code == 0
    for name in ("b.json", "s.h5"):
        result = pdac("verify", name, "--again", "--json")
        assert (result.code, result.err) == (0, "")
        assert set(words(result).values()) == {True}
    with h5py.File("g.h5", "r+") as file:
        file["features"][:] += 1
    for name in ("b.json", "s.h5"):
        assert pdac("verify", name).code == 3


def test_what_has_nothing_to_verify_is_sent_to_inspect(pdac, feature_file):
    result = pdac("verify", feature_file())
    assert (result.code, result.out) == (3, "")
    assert "pdac inspect" in result.err


@pytest.mark.parametrize("text", [b'{"format": "pdac \xe5"}', b'{"format": "pdac \\q"}'])
def test_a_format_that_is_no_text_is_bad_data(pdac, selected, text):
    selected()
    Path("damaged.json").write_bytes(text)
    result = pdac("verify", "damaged.json")
    assert (result.code, result.out) == (3, "")

"""What the files call their rows is in every index, and can be printed in place of row numbers."""

import json
import shutil

import h5py
import numpy as np
import pytest

from pdac_cli.files.index.index_file import read_index

N = 90


@pytest.fixture
def named(tmp_path):
    """Make a feature file whose rows are called by paths, one of which is no UTF-8."""

    def make(name="f.h5", key="paths", seed=0):
        rng = np.random.default_rng(seed)
        ids = np.array([f"{name}/{k} é.png".encode() for k in range(N)])
        ids[1] = b"\xff.png"
        with h5py.File(tmp_path / name, "w") as file:
            file["features"], file["labels"], file[key] = rng.normal(size=(N, 4)), np.arange(N) % 3, ids
        return tmp_path / name, ids

    return make


def test_ids_are_printed_and_written_in_place_of_rows(pdac, named, tmp_path):
    path, ids = named()
    rows = pdac("select", path, "-n", "90", "--method", "uniform", "-q").rows
    command = ("select", path, "-n", "90", "--method", "uniform", "-q", "--print", "ids")
    expected = b"".join(ids[row] + b"\n" for row in rows)
    pdac(*command, "-o", tmp_path / "kept.txt")
    assert (tmp_path / "kept.txt").read_bytes() == expected
    summary = pdac(*command, "--json").json
    assert [text.encode("utf-8", "surrogateescape") for text in summary["ids"]] == [ids[row] for row in rows]
    assert summary["indices"] == rows


def test_another_array_can_name_the_rows(pdac, named):
    path, ids = named(key="mine")
    command = ("select", path, "-n", "2", "--method", "herding", "-q", "--print", "ids")
    refused = pdac(*command)
    assert refused.code == 3
    assert "says nothing of what its rows are called; expected an array 'ids'" in refused.err
    assert pdac(*command, "--ids-key", "mine").out.splitlines()[0].encode() in ids.tolist()
    wrong = pdac(*command, "--ids-key", "features")
    assert wrong.code in (2, 3)
    for name, words in (("k.json", "has the ids beside the rows"), ("k.npy", "has row numbers")):
        found = pdac(*command, "--ids-key", "mine", "-o", name)
        assert found.code == 2
        assert words in found.err


@pytest.mark.parametrize("suffix", [".json", ".h5"])
def test_ids_are_in_every_index_and_stay_through_tasks(pdac, named, tmp_path, suffix):
    (first, ids), (second, other) = named(), named("g.h5", seed=1)
    with h5py.File(tmp_path / "h.h5", "w") as file:
        file["features"], file["labels"] = np.random.default_rng(2).normal(size=(N, 4)), np.arange(N) % 3
    before = []
    for k, path in enumerate([first, second, tmp_path / "h.h5"]):
        result = pdac("select", path, "-n", "60", "--method", "herding", "-o", tmp_path / f"{k}{suffix}", "-q", *before)
        assert result.code == 0, result.err
        before = ["--buffer", tmp_path / f"{k}{suffix}"]
    index = read_index(tmp_path / f"2{suffix}")
    expected = [(ids, other, [b""] * N)[task - 1][row] for task, row in zip(index.task, index.row, strict=True)]
    assert [text.encode("utf-8", "surrogateescape") for text in index.ids] == expected
    assert set(index.task) == {1, 2, 3}


def test_a_stream_remembers_them_when_its_files_are_gone(pdac, named, tmp_path):
    (first, ids), (second, other) = named(), named("g.h5", seed=1)
    shutil.copy(first, tmp_path / "copy.h5")
    common = ("-n", "20", "--method", "er", "--state", tmp_path / "s.h5", "-q")
    assert pdac("stream", first, *common, "-o", tmp_path / "b.json").code == 0
    first.unlink()
    assert pdac("stream", second, *common, "-o", tmp_path / "b.json").code == 0
    kept = json.loads((tmp_path / "b.json").read_text())["kept"]
    assert {row["source"] for row in kept} == {0, 1}
    for row in kept:
        assert row["id"].encode("utf-8", "surrogateescape") == (ids, other)[row["source"]][row["row"]]
    one = ("-n", "20", "--method", "er", "-q", "-o", tmp_path / "one.json")
    assert pdac("stream", tmp_path / "copy.h5", second, *one).code == 0
    again = json.loads((tmp_path / "one.json").read_text())["kept"]
    assert [row["id"] for row in again] == [row["id"] for row in kept]
    assert pdac("stream", second, "--no-labels", "--ids-key", "labels", *one, "--force").code == 0
    assert {row["id"] for row in json.loads((tmp_path / "one.json").read_text())["kept"]} <= {"0", "1", "2"}


def test_a_line_end_in_an_id_is_not_printed(pdac, tmp_path):
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["features"], file["labels"], file["ids"] = np.eye(4), [0] * 4, [b"a\nrm"] * 4
    result = pdac("select", tmp_path / "f.h5", "-n", "2", "--method", "uniform", "--print", "ids", "-q")
    assert (result.code, result.out) == (3, "")
    assert r"is called 'a\nrm'; expected text of one line to print" in result.err


def test_rows_without_labels_are_one_class(pdac, named, tmp_path):
    path, _ = named()
    with h5py.File(tmp_path / "zeros.h5", "w") as file, h5py.File(path) as given:
        file["features"], file["labels"] = given["features"][:], np.zeros(N, int)
    for method in ("pdac", "uniform", "herding", "kcenter", "kmeans", "facility"):
        command = ("-n", "10", "--method", method, "-q")
        assert (
            pdac("select", path, "--no-labels", *command).rows == pdac("select", tmp_path / "zeros.h5", *command).rows
        )
    assert pdac("fit", path, "--no-labels", "--dim", "2", "-o", tmp_path / "m.h5", "-q").code == 0


def test_a_stream_by_logits_needs_labels(pdac, named, tmp_path):
    result = pdac("stream", named()[0], "--no-labels", "-n", "5", "--method", "gss", "-o", tmp_path / "b.json")
    assert result.code == 2
    assert "--method gss compares what the logits say with the labels" in result.err

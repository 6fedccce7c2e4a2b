"""Kept rows as tables: what pandas and pyarrow read from them is what the index says."""

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

EVIL = "=1+1"


@pytest.fixture
def feats(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    with h5py.File("f.h5", "w") as file:
        file["features"] = rng.normal(size=(60, 6)) + 6 * np.eye(3, 6)[np.arange(60) % 3]
        file["labels"] = np.array(["cat", EVIL, "dog"]).astype("S")[np.where(np.arange(60) == 7, 0, np.arange(60) % 3)]
        file["ids"] = np.array([f"a/{k}.png" for k in range(60)]).astype("S")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_holds_what_the_index_holds(pdac, feats, form):
    for output in ("c.json", f"c.{form}"):
        result = pdac("select", "f.h5", "-n", 12, "-o", output, "-q")
        assert (result.code, result.err) == (0, "")
    index = json.loads(Path("c.json").read_text())
    table = pd.read_csv("c.csv") if form == "csv" else pq.read_table("c.parquet").to_pandas()
    assert list(table) == ["row", "id", "file", "task", "label", "class", "rank", "log_density", "score", "suspect"]
    for name in ("row", "id", "label", "task"):
        assert table[name].tolist() == [item[name] for item in index["kept"]]
    for name in ("log_density", "score"):
        assert table[name].to_numpy() == pytest.approx([item[name] for item in index["kept"]])
    assert table["rank"].tolist() == list(range(1, 13))
    names = [index["label_names"][item["label"]] for item in index["kept"]]
    quoted = "'" + EVIL if form == "csv" else EVIL  # a spreadsheet would compute it
    assert table["class"].tolist() == [quoted if name == EVIL else name for name in names]
    assert table["suspect"].tolist() == [item["row"] in index["suspects"]["row"] for item in index["kept"]]
    assert set(table["file"]) == {"f.h5"}


def test_columns_that_nobody_knows_are_left_out(pdac, feature_file, tmp_path):
    assert pdac("select", feature_file(), "-n", 9, "--method", "uniform", "-o", tmp_path / "c.csv", "-q").code == 0
    assert list(pd.read_csv(tmp_path / "c.csv")) == ["row", "file", "task", "label", "rank"]


def test_without_pyarrow_a_table_is_refused_before_the_work(pdac, feature_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    result = pdac("select", feature_file(), "-n", 9, "-o", tmp_path / "c.parquet")
    assert (result.code, result.out) == (2, "")
    assert "pip install pyarrow" in result.err
    assert list(tmp_path.glob("c*")) == []


def test_ids_alone_are_text(pdac, feature_file, tmp_path):
    assert pdac("select", feature_file(), "-n", 9, "-o", tmp_path / "c.csv", "--print", "ids").code == 2

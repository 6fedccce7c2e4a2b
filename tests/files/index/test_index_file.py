"""Index files say the same in every form, and none that could not be one of ours is believed."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdac_cli.errors import DataError, StorageError, UsageError
from pdac_cli.files.index.index_file import (
    Index,
    IndexSource,
    format_text,
    index_suffix,
    read_index,
    read_rows,
    write_index,
)

ONE = Index(
    row=np.array([7, 0, 99]),
    source=np.zeros(3, np.int64),
    task=np.ones(3, np.int64),
    label=np.array([1, 0, 1]),
    log_density=np.array([-1.5, math.nan, 0.1 + 0.2]),
    sources=(IndexSource("00ff" * 8, ("feats.h5",), 100, 1),),
    method="pdac",
    budget=3,
    seed=2**63 - 1,
    options={"temperature": 0.1, "allocation": "per-class", "strict": False, "model": None, "dim": 10},
)
TWO = replace(
    ONE,
    row=np.array([7, 7, 3]),
    source=np.array([0, 1, 1]),
    task=np.array([1, 2, 2]),
    log_density=np.array([-math.inf, math.inf, -1e-300]),
    sources=(*ONE.sources, IndexSource("ab" * 16, ("b\n1.h5", "é.h5"), 8, 2)),
    label_names=("cat", "Ärger"),
    ids=("a b.png", "", "\udcff/é\n"),
)


def same(a: Index, b: Index) -> bool:
    for name in ("row", "source", "task", "label", "log_density"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert getattr(a, name).dtype == getattr(b, name).dtype
    return all(
        getattr(a, name) == getattr(b, name)
        for name in ("sources", "method", "budget", "seed", "options", "label_names", "class_counts", "ids")
    )


@pytest.mark.parametrize("index", [ONE, TWO], ids=["one", "two"])
@pytest.mark.parametrize("suffix", [".json", ".h5"])
def test_everything_comes_back(index: Index, suffix: str, tmp_path: Path) -> None:
    write_index(index, tmp_path / f"a{suffix}", False)
    assert same(read_index(tmp_path / f"a{suffix}"), index)
    with pytest.raises(StorageError, match="exists"):
        write_index(index, tmp_path / f"a{suffix}", False)


@pytest.mark.parametrize("suffix", [".txt", ".npy", ".json", ".h5"])
def test_rows_of_every_form(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    write_index(ONE, path, False)
    for n in (100, None):
        rows = read_rows(path, n)
        np.testing.assert_array_equal(rows, [7, 0, 99])
        assert rows.dtype == np.int64
    with pytest.raises(DataError, match="row 99 is out of range; expected 0 to 98, for there are 99 rows"):
        read_rows(path, 99)
    write_index(TWO, path, True)
    with pytest.raises(DataError, match="several feature sets"):
        read_rows(path, 100)


def test_plain_forms(tmp_path: Path) -> None:
    assert format_text(ONE) == "7\n0\n99\n"
    assert format_text(TWO) == "1\t7\n2\t7\n2\t3\n"


def test_text_by_ids(tmp_path: Path) -> None:
    named = replace(ONE, ids=("a b.png", "\udcff.png", "é"))
    assert format_text(named, by_id=True) == "a b.png\n\udcff.png\né\n"
    write_index(named, tmp_path / "a.txt", False, by_id=True)
    assert (tmp_path / "a.txt").read_bytes() == b"a b.png\n\xff.png\n\xc3\xa9\n"
    assert format_text(replace(TWO, ids=("x", "y", "z")), by_id=True) == "1\tx\n2\ty\n2\tz\n"
    for text, words in (
        ("", "row 0 has no id"),
        ("a\nb", r"row 0 is called 'a\\nb'"),
        ("\x1b[2J", "is called"),
    ):
        with pytest.raises(DataError, match=words):
            format_text(replace(ONE, ids=("x", text, "z")), by_id=True)
    with pytest.raises(DataError, match=r"feats\.h5: says nothing of what its rows are called"):
        format_text(ONE, by_id=True)
    write_index(ONE, tmp_path / "a.npy", False)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), [7, 0, 99])
    write_index(TWO, tmp_path / "b.npy", False)
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), [[1, 7], [2, 7], [2, 3]])
    for name in ("a.npy", "a.txt"):
        write_index(ONE, tmp_path / name, True)
        with pytest.raises(DataError, match=r"row numbers only.*json or .h5"):
            read_index(tmp_path / name)


def test_json_is_plain_to_see(tmp_path: Path) -> None:
    write_index(ONE, tmp_path / "a.json", False)
    text = (tmp_path / "a.json").read_text()
    content = json.loads(text)
    assert list(content)[:3] == ["format", "version", "meaning"]
    assert (content["format"], content["version"], content["meaning"]) == ("pdac-index", 1, "these rows are kept")
    assert content["class_counts"] == {"0": 1, "1": 2}
    assert content["kept"][1] == {"source": 0, "row": 0, "task": 1, "label": 0, "log_density": None}
    assert [item["row"] for item in content["kept"]] == [7, 0, 99]
    assert '    {"source": 0, "row": 7, "task": 1, "label": 1, "log_density": -1.5},\n' in text
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = 1
    write_index(ONE, tmp_path / "a.h5", True)
    with h5py.File(tmp_path / "a.h5") as file:
        assert file.attrs["meaning"] == b"these rows are kept"
        assert file["row"][:].tolist() == [7, 0, 99]
        assert file["class_counts"][:].tolist() == [[0, 1], [1, 2]]


def test_same_index_same_bytes(tmp_path: Path) -> None:
    shuffled = replace(TWO, options=dict(reversed(list(TWO.options.items()))))
    for suffix in (".txt", ".npy", ".json", ".h5"):
        write_index(TWO, tmp_path / f"a{suffix}", False)
    time.sleep(1.1)
    for suffix in (".txt", ".npy", ".json", ".h5"):
        write_index(shuffled, tmp_path / f"b{suffix}", False)
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_suffixes(tmp_path: Path) -> None:
    for name in ("a", "a.csv", "a.JSON.gz"):
        with pytest.raises(UsageError, match=r"expected .txt, .npy, .json or .h5"):
            write_index(ONE, tmp_path / name, False)
    assert index_suffix(Path("/dev/null")) == ".txt"
    assert list(tmp_path.iterdir()) == []


IMPOSSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "lengths": ({"row": np.array([1])}, "different lengths"),
    "no sources": ({"sources": ()}, "'sources' is empty"),
    "source": ({"source": np.array([0, 2, 1])}, "'source' of kept row 1 is 2; expected 0 to 1"),
    "negative source": ({"source": np.array([0, -1, 1])}, "'source' of kept row 1 is -1"),
    "row": ({"row": np.array([7, 8, 3])}, "'row' of kept row 1 is 8; expected 0 to 7"),
    "negative row": ({"row": np.array([-7, 7, 3])}, "'row' of kept row 0 is -7"),
    "twice": ({"row": np.array([7, 3, 3])}, "row 3 of source 1 is listed twice"),
    "task": ({"task": np.array([1, 2, 1])}, "'task' of kept row 2 is 1; expected 2"),
    "label": ({"label": np.array([1, -1, 1])}, "'label' of kept row 1 is -1; expected 0 or more"),
    "label without name": ({"label": np.array([1, 2, 1])}, "'label' of kept row 1 is 2; expected .* at most 1"),
    "seed": ({"seed": -1}, "'seed' is -1"),
    "rows": ({"sources": (IndexSource("a", (), 0, 1), IndexSource("a", (), 8, 2))}, "source 0 has 0 rows"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
@pytest.mark.parametrize("suffix", [".json", ".h5"])
def test_impossible_content(case: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change, words = IMPOSSIBLE[case]
    wrong = replace(TWO, **change)
    path = tmp_path / f"a{suffix}"
    with pytest.raises(ValueError, match=words):
        write_index(wrong, path, False)
    assert not path.exists()
    if case == "lengths" and suffix == ".json":
        return  # JSON has a row in one piece
    monkeypatch.setattr("pdac_cli.files.index.index_file.find_problem", lambda _: None)
    write_index(wrong, path, False)
    with pytest.raises(DataError, match=f"a{suffix}: .*{words}"):
        read_index(path)


def as_json(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        write_index(TWO, path, False)
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return make


JSON: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda p: None, "not found"),
    "empty": (lambda p: p.touch(), "is empty"),
    "folder": (lambda p: p.mkdir(), "is a folder"),
    "not JSON": (lambda p: p.write_text("{"), "not valid JSON"),
    "not text": (lambda p: p.write_bytes(b"{\xff\xfe"), "not valid JSON"),
    "deep": (lambda p: p.write_text("[" * 10**4), "nested too deeply"),
    "deeper": (lambda p: p.write_text("[" * 10**6), "1,000,000 values in 1,000,000 bytes"),
    "many objects": (lambda p: p.write_text("[" + "{}," * 10**5 + "{}]"), "values in 300,004 bytes"),
    "many names": (lambda p: p.write_text("[" + '"a",' * 10**5 + '""]'), "values in 400,004 bytes"),
    "long number": (lambda p: p.write_text("{" + '"a": ' + "1" * 10**5 + "}"), "not valid JSON"),
    "constant": (lambda p: p.write_text('{"a": NaN}'), "NaN is no JSON number"),
    "list": (lambda p: p.write_text("[]"), "is no index file"),
    "other": (lambda p: p.write_text("{}"), "is no index file"),
    "version": (as_json(lambda c: c.update(version=2)), "'version' is '2'; expected 1"),
    "version true": (as_json(lambda c: c.update(version=True)), "'version' is 'True'; expected 1"),
    "no kept": (as_json(lambda c: c.pop("kept")), "'kept' is missing; expected a list"),
    "kept": (as_json(lambda c: c.update(kept=3)), "'kept' is a int; expected a list"),
    "kept number": (as_json(lambda c: c.update(kept=[3])), "'source' of kept row 0 is missing"),
    "row text": (as_json(lambda c: c["kept"][1].update(row="3")), "'row' of kept row 1 is a str; expected a whole"),
    "row float": (as_json(lambda c: c["kept"][1].update(row=3.0)), "'row' of kept row 1 is a float"),
    "row bool": (as_json(lambda c: c["kept"][1].update(row=True)), "'row' of kept row 1 is a bool"),
    "row long": (as_json(lambda c: c["kept"][1].update(row=2**63)), "'row' of kept row 1 is a int; .*64 bits"),
    "density": (as_json(lambda c: c["kept"][2].update(log_density="x")), "'log_density' of kept row 2 is a str"),
    "density long": (as_json(lambda c: c["kept"][2].update(log_density=10**400)), "'log_density' of kept row 2"),
    "no density": (as_json(lambda c: c["kept"][2].pop("log_density")), "'log_density' of kept row 2 is missing"),
    "source": (as_json(lambda c: c.update(sources=["x"])), "source 0 is a str; expected an object"),
    "files": (as_json(lambda c: c["sources"][0].update(files=[1])), "'files' of source 0"),
    "fingerprint": (as_json(lambda c: c["sources"][0].pop("fingerprint")), "'fingerprint' of source 0 is missing"),
    "names": (as_json(lambda c: c.update(label_names=[1])), "'label_names' has other values"),
    "options": (as_json(lambda c: c.update(options={"a": [1]})), "option 'a' is a list"),
    "infinite": (as_json(lambda c: c.update(options={"a": math.inf})), "no JSON number"),
    "counts": (as_json(lambda c: c.update(class_counts={"0": 3})), "'class_counts' differ"),
    "method": (as_json(lambda c: c.update(method=None)), "'method' is a NoneType; expected a string"),
}


@pytest.mark.parametrize("case", JSON)
def test_json_refused(case: str, tmp_path: Path) -> None:
    make, words = JSON[case]
    make(tmp_path / "a.json")
    with pytest.raises(DataError, match=f"a.json: .*{words}") as caught:
        read_index(tmp_path / "a.json")
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


def as_hdf5(change: Callable[[h5py.File], object]) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        write_index(TWO, path, False)
        with h5py.File(path, "r+") as file:
            change(file)

    return make


def swap(file: h5py.File, name: str, values: Any) -> None:
    del file[name]
    file[name] = values


HDF5: dict[str, tuple[Callable[[Path], object], str]] = {
    "text": (lambda p: p.write_text("hello"), "not an HDF5 file"),
    "cut": (lambda p: (write_index(TWO, p, False), p.write_bytes(p.read_bytes()[:3000])), "truncated"),
    "other": (as_hdf5(lambda f: f.attrs.pop("format")), "is no index file"),
    "version": (as_hdf5(lambda f: f.attrs.__setitem__("version", 2)), "'version' is 2; expected 1"),
    "no row": (as_hdf5(lambda f: f.__delitem__("row")), "no dataset 'row'"),
    "row float": (as_hdf5(lambda f: swap(f, "row", [0.5, 1, 2])), "'row' is float64 .*expected integers"),
    "row 2-D": (as_hdf5(lambda f: swap(f, "row", [[1, 2]])), r"'row' is int64 \(1, 2\)"),
    "row huge": (
        as_hdf5(lambda f: (f.__delitem__("row"), f.create_dataset("row", (10**13,), "i8", chunks=(99,)))),
        "'row' declares .* bytes",
    ),
    "density": (as_hdf5(lambda f: swap(f, "log_density", [1, 2, 3])), "'log_density' is int64 .*expected floats"),
    "method": (as_hdf5(lambda f: f.attrs.__setitem__("method", 3)), "'method' is a int"),
    "options": (as_hdf5(lambda f: f.attrs.__setitem__("options", np.bytes_(b"["))), "'options' is no JSON object"),
    "files": (as_hdf5(lambda f: swap(f, "sources/files", np.array([b"[1]", b"[]"]))), "'sources/files' of source 0"),
    "sources": (as_hdf5(lambda f: swap(f, "sources/rows", [8])), "'sources' have different lengths"),
    "vlen": (as_hdf5(lambda f: swap(f, "label_names", ["a", "b"])), "'label_names' is of variable length"),
    "vlen attribute": (as_hdf5(lambda f: f.attrs.__setitem__("method", "pdac")), "'method' is missing or of var"),
    "names": (as_hdf5(lambda f: swap(f, "label_names", [1, 2])), "'label_names' is int64 .*expected strings"),
}  # fmt: skip


@pytest.mark.parametrize("case", HDF5)
def test_hdf5_refused(case: str, tmp_path: Path) -> None:
    make, words = HDF5[case]
    make(tmp_path / "a.h5")
    with pytest.raises(DataError, match=f"a.h5: .*{words}"):
        read_index(tmp_path / "a.h5")


ROWS: dict[str, tuple[str, Any, str]] = {
    "word": ("a.txt", b"1\nx\n", "'x' is no row number"),
    "float": ("a.txt", b"1.0\n", "'1.0' is no row number"),
    "odd digits": ("a.txt", "٣\n".encode(), "is no row number"),
    "long": ("a.txt", b"9" * 10**5, "is no row number"),
    "blank": ("a.txt", b" \n\n", "no row numbers"),
    "negative": ("a.txt", b"1\n-2\n", "row -2 is out of range; expected 0 to 9"),
    "beyond": ("a.txt", b"1\n10\n12\n", "row 10 is out of range"),
    "twice": ("a.txt", b"1\n3\n2\n3\n1\n", "row 3 is listed twice"),
    "tasks": ("a.txt", b"1\t3\n", "several feature sets"),
    "npy float": ("a.npy", np.array([1.0]), "holds float64 of shape .*expected integers"),
    "npy bool": ("a.npy", np.array([True, False]), "holds bool"),
    "npy 3 columns": ("a.npy", np.zeros((3, 3), int), r"shape \(3, 3\)"),
    "npy pairs": ("a.npy", np.zeros((3, 2), int), "several feature sets"),
    "npy beyond": ("a.npy", np.array([3, 2**63], np.uint64), "out of range"),
    "npy twice": ("a.npy", np.array([3, 4, 3], np.uint8), "row 3 is listed twice"),
    "npy pickle": ("a.npy", np.array([None]), "pickled"),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_refused(case: str, tmp_path: Path) -> None:
    name, content, words = ROWS[case]
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    else:
        np.save(tmp_path / name, content, allow_pickle=True)
    with pytest.raises(DataError, match=words):
        read_rows(tmp_path / name, 10)


def test_rows_of_plain_text(tmp_path: Path) -> None:
    (tmp_path / "rows").write_bytes(b"3\r\n\n 1 \n2")
    np.testing.assert_array_equal(read_rows(tmp_path / "rows", 4), [3, 1, 2])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_json_is_read_or_refused(data: st.DataObject, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_index(TWO, path, True)
    content = json.loads(path.read_text())
    node: Any = content
    while True:  # walk to a random place and put something else there
        key = data.draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
        if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
            node = node[key]
            continue
        node[key] = data.draw(VALUES)
        break
    path.write_text(json.dumps(content))
    try:
        index = read_index(path)
    except DataError:
        return
    write_index(index, path, True)
    assert same(read_index(path), index)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 2000), byte=st.binary(min_size=0, max_size=3))
def test_damaged_json_is_read_or_refused(at: int, byte: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_index(TWO, path, True)
    data = path.read_bytes()
    path.write_bytes(data[:at] + byte + data[at + 1 :])
    try:
        read_index(path)
        read_rows(path, None)
    except DataError:
        pass

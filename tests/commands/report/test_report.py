"""`pdac report`: what is drawn is what the files say, from outside the code; nothing of a file is obeyed by a page."""

import base64
import io
import json
import re
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
from PIL import Image

from pdac_cli import cli
from pdac_cli.files.index.index_file import Index, IndexSource, write_index
from tests.conftest import SAMPLE

IMAGES = SAMPLE.parent / "digits-images.h5"
FIGURE = re.compile(r"<script type=application/json>(.*?)</script>", re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two indices of the sample, a stream's trace and a run."""
    folder = tmp_path_factory.mktemp("report")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for arguments in (
            ["select", SAMPLE, "-n", 100, "-o", "a.json"],
            ["select", SAMPLE, "-n", 50, "--method", "uniform", "-o", "b.h5"],
            ["select", SAMPLE, "-n", 50, "--method", "uniform", "-o", "c.npy"],
            ["stream", SAMPLE, "-n", 30, "--method", "er", "-o", "s.json", "--trace", "t.csv"],
        ):  # fmt: skip
            patch.setattr(sys, "argv", ["pdac", *map(str, arguments), "-q"])
            with pytest.raises(SystemExit) as ended:
                cli.main()
            assert not ended.value.code
        write_run(folder / "run")
    return folder


def write_run(path):
    """What train-cl leaves, of two methods and two seeds."""
    results, summary = [], []
    for k, method in enumerate(("herding", "uniform")):
        matrices = [[[0.9 + k / 100], [0.7 + seed / 10, 0.8]] for seed in (0, 1)]
        for seed, accuracy in enumerate(matrices):
            results.append({
                "method": method, "seed": seed, "acc": float(np.mean(accuracy[-1])), "fm": 0.2 - seed / 10,
                "accuracy": accuracy, "losses": [[1.0], [0.5]], "classes": [[0, 1], [2, 3]], "train_rows": [9, 9],
                "seconds": {"training": 1.0, "selection": 0.5}, "warnings": [],
            })  # fmt: skip
            for task in (1, 2):
                sources = tuple(IndexSource("f" * 32, ("f.h5",), 100, t) for t in range(1, task + 1))
                where = np.repeat(np.arange(task), 12 // task)
                rows = np.arange(12)
                index = Index(rows, where, where + 1, where, np.zeros(12), sources, method, 12, seed, {})
                folder = path / method / f"seed-{seed}"
                folder.mkdir(parents=True, exist_ok=True)
                write_index(index, folder / f"buffer-{task}.json", force=True)
    config = {"format": "pdac-run 1", "fingerprint": "f" * 32, "test_rows": 9}
    (path / "config.json").write_text(json.dumps(config))
    (path / "results.json").write_text(json.dumps({"config": config, "summary": summary, "results": results}))


def figures(path):
    return [json.loads(text) for text in FIGURE.findall(path.read_text("utf-8"))]


def array(value):
    """The numbers of a typed array as plotly stores it."""
    if isinstance(value, list):
        return np.array(value)
    found = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
    return found.reshape([int(size) for size in value["shape"].split(",")]) if "shape" in value else found


def bars(found, title):
    """Heights by trace and name of the chart whose y-axis is called so."""
    figure = next(
        one["figure"]
        for one in found
        if one["figure"]["layout"]["yaxis"]["title"].get("text") == title.replace("%", "&#37;")
    )
    return {trace["name"]: dict(zip(trace["x"], array(trace["y"]), strict=True)) for trace in figure["data"]}


def test_a_selection_is_drawn_as_it_is(pdac, folder, tmp_path):
    page = tmp_path / "r.html"
    result = pdac("report", SAMPLE, folder / "a.json", folder / "b.h5", "--images", IMAGES, "-o", page, "--json")
    assert (result.code, result.err) == (0, "")
    assert page.stat().st_size == result.json["page_bytes"] < 8e6
    found = figures(page)
    assert len(found) == result.json["charts"] == 10 + 6
    with h5py.File(SAMPLE) as file:
        h, y, ids = file["features"][:].astype(float), file["labels"][:], file["ids"][:].astype(str)
    kept = [row["row"] for row in json.loads((folder / "a.json").read_text())["kept"]]
    for label, one in enumerate(found[:10]):
        assert one["page"]["panels"] == 2
        members = np.flatnonzero(y == label)
        for end, rows in (("x", kept), ("x2", None)):
            traces = [
                trace for trace in one["figure"]["data"] if trace["xaxis"] == end and trace["type"] == "scattergl"
            ]
            assert len(traces) == 2
            shown = np.concatenate([array(trace["customdata"])[:, 0] for trace in traces]).astype(int)
            assert sorted(shown) == members.tolist()
            assert [text for trace in traces for text in trace["text"]] == ids[shown].tolist()
            if rows is not None:
                mine = array(traces[1]["customdata"])[:, 0].astype(int)
                assert sorted(mine) == sorted(set(rows) & set(members))
    unit = h / np.linalg.norm(h, axis=1, keepdims=True)
    distances = bars(found, "distance / spread")
    for label in range(10):
        mine = unit[y == label]
        chosen = unit[[row for row in kept if y[row] == label]]
        spread = np.sqrt(((mine - mine.mean(0)) ** 2).sum(1).mean())
        expected = np.linalg.norm(chosen.mean(0) - mine.mean(0)) / spread
        assert distances["a"][str(label)] == pytest.approx(expected, rel=1e-5)
    assert bars(found, "% of the rows")["before"] == pytest.approx({str(k): 100 * np.mean(y == k) for k in range(10)})
    assert bars(found, "% of the rows")["after: a"] == pytest.approx(dict.fromkeys(map(str, range(10)), 10.0))


def test_a_drawn_density_is_that_of_the_model(pdac, folder, tmp_path):
    assert pdac("fit", SAMPLE, "-o", tmp_path / "m.h5", "-q").code == 0
    page = tmp_path / "r.html"
    assert pdac("report", SAMPLE, folder / "c.npy", "--model", tmp_path / "m.h5", "-o", page, "-q").code == 0
    more = ["--model", tmp_path / "m.h5", "--density", "class", "-n", 1797, "-o", tmp_path / "all.json", "-q"]
    assert pdac("select", SAMPLE, *more).code == 0
    expected = {row["row"]: row["log_density"] for row in json.loads((tmp_path / "all.json").read_text())["kept"]}
    with h5py.File(tmp_path / "m.h5") as file, h5py.File(SAMPLE) as rows:
        mean, W, mu, chol = (file[name][3] for name in ("mean", "W", "mu", "chol"))
        h = rows["features"][:].astype(float)
    traces = [trace for trace in figures(page)[3]["figure"]["data"] if trace["type"] == "scattergl"]
    for trace in traces:
        numbers, values = array(trace["customdata"])[:, 0].astype(int), array(trace["customdata"])[:, 1]
        assert values == pytest.approx([expected[row] for row in numbers], rel=1e-5, abs=1e-4)
        unit = h[numbers] / np.linalg.norm(h[numbers], axis=1, keepdims=True)
        assert array(trace["x"]) == pytest.approx((unit - mean) @ W[:, 0], abs=1e-4)
    outlines = [trace for trace in figures(page)[3]["figure"]["data"] if trace["type"] == "scatter"]
    points = np.stack([array(outlines[0]["x"]), array(outlines[0]["y"])])
    inverse = np.linalg.inv((chol[0] @ chol[0].T)[:2, :2])
    off = points - mu[0][:2, None]
    assert np.einsum("in,ij,jn->n", off, inverse, off) == pytest.approx(4.0)  # two standard deviations


def test_pictures_are_the_rows_own(pdac, folder, tmp_path):
    page = tmp_path / "r.html"
    assert pdac("report", SAMPLE, folder / "a.json", "--images", IMAGES, "-o", page, "-q").code == 0
    one = figures(page)[4]
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(one["page"]["sheet"]))))
    with h5py.File(IMAGES) as file:
        images = file["images"][:, :, :, 0]
    checked = 0
    for trace in one["figure"]["data"]:
        for row, _, number in array(trace["customdata"]).tolist() if "customdata" in trace else ():
            top, left = int(number) // 64 * 8, int(number) % 64 * 8
            assert (sheet[top : top + 8, left : left + 8] == images[int(row)]).all()
            checked += 1
    assert checked == 181
    text = page.read_text("utf-8")
    assert text.count("<figcaption>") == 80
    assert "Least typical rows" in text


def test_images_of_a_folder_are_found_by_id_and_none_outside_it(pdac, tmp_path):
    names = ["a.png", "sub/b.png", "../secret.png", "missing.png", "broken.png"] * 6
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["features"], file["labels"] = np.random.default_rng(0).normal(size=(30, 4)), np.zeros(30, int)
        file["ids"] = np.array(names).astype("S")
    (tmp_path / "in" / "sub").mkdir(parents=True)
    for name in ("in/a.png", "in/sub/b.png", "secret.png"):
        Image.new("RGB", (10, 20), "red").save(tmp_path / name)
    (tmp_path / "in" / "broken.png").write_bytes(b"no image")
    result = pdac("report", tmp_path / "f.h5", "--images", tmp_path / "in", "-o", tmp_path / "r.html", "-q")
    assert result.code == 0
    [trace] = [one for one in figures(tmp_path / "r.html")[0]["figure"]["data"] if one["type"] == "scattergl"]
    numbers = array(trace["customdata"])[:, 2]
    assert ((numbers >= 0) == np.array([name in names[:2] for name in names])).all()


def test_of_many_rows_some_are_shown_and_all_that_are_kept(pdac, folder, tmp_path):
    page = tmp_path / "r.html"
    result = pdac("report", SAMPLE, folder / "a.json", "--rows", 300, "-o", page)
    assert result.code == 0
    assert re.search(r"note: 3\d\d of 1,797 rows are shown", result.err)
    assert "of 1,797 rows are shown" in page.read_text("utf-8")
    kept = sum(len(trace["text"]) for one in figures(page)[:10] for trace in one["figure"]["data"]
               if trace["name"] == "kept: a")  # fmt: skip
    assert kept == 100


def test_pictures_for_papers(pdac, folder, tmp_path):
    with h5py.File(SAMPLE) as file, h5py.File(tmp_path / "f.h5", "w") as out:
        two = file["labels"][:] < 2
        out["features"], out["labels"] = file["features"][:][two], file["labels"][:][two]
    result = pdac("report", tmp_path / "f.h5", "-o", tmp_path / "r.html", "--png", tmp_path / "png", "--json")
    assert len(result.json["pictures"]) == result.json["charts"] == len(list((tmp_path / "png").iterdir()))
    for path in result.json["pictures"]:
        assert np.asarray(Image.open(path).convert("L")).std() > 5


def test_runs_and_traces(pdac, folder, tmp_path):
    page = tmp_path / "r.html"
    assert pdac("report", folder / "run", "-o", page, "-q").code == 0
    results = json.loads((folder / "run" / "results.json").read_text())
    found = figures(page)
    shown = bars(found, "%")
    for method in ("herding", "uniform"):
        mine = [100 * one["acc"] for one in results["results"] if one["method"] == method]
        assert shown["ACC"][method] == pytest.approx(np.mean(mine))
    heat = found[0]["figure"]["data"][0]
    assert heat["type"] == "heatmap"
    assert array(heat["z"])[1] == pytest.approx([75, 80])
    held = found[5]["figure"]["data"]
    assert [array(trace["y"]).tolist() for trace in held] == [[12, 6], [0, 6]]
    difference = bars(found, "points")["ACC"]
    assert difference == {"herding": pytest.approx(0)}
    shutil.copytree(folder / "run", folder / "again", dirs_exist_ok=True)
    assert pdac("report", folder / "run", folder / "again", "-o", page, "-q", "--force").code == 0
    assert pdac("report", folder / "t.csv", "-o", page, "-q", "--force").code == 0
    lines = np.genfromtxt(folder / "t.csv", delimiter=",", names=True, usecols=range(8))
    first = figures(page)[0]["figure"]["data"][0]
    assert array(first["x"]) == pytest.approx(lines["rows"])
    assert array(first["y"]) == pytest.approx(lines["turnover"])


def test_an_experiment(pdac, tmp_path):
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    cell = {"data": "d", "axes": {"budget": "50"}, "method": "pdac", "seeds": [0, 1], "values": {"acc": [90.0, 92.0]},
            "differences": {"acc": {"pairs": 2, "mean": 1.0, "low": 0.5, "high": 1.5}}}  # fmt: skip
    (sweep / "results.json").write_text(json.dumps({"title": "T<b>", "cells": [cell]}))
    (sweep / "figure.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    assert pdac("report", sweep, "-o", tmp_path / "r.html", "-q").code == 0
    text = (tmp_path / "r.html").read_text("utf-8")
    assert bars(figures(tmp_path / "r.html"), "acc")["pdac"] == {"d, budget 50": 91.0}
    assert "+1.00 [+0.50, +1.50]" in text
    assert "alert(1)" not in text
    assert "T&lt;b&gt;" in text
    (sweep / "results.json").write_text(json.dumps({"cells": [{**cell, "values": {"acc": ["x"]}}]}))
    result = pdac("report", sweep, "-o", tmp_path / "r.html", "--force")
    assert (result.code, result.out) == (3, "")


EVIL = "</script><img src=x onerror=alert(1)>%{x}\x1b[2J"


def test_text_of_files_is_text_in_the_page(pdac, tmp_path):
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["features"] = np.random.default_rng(0).normal(size=(30, 4))
        file["labels"] = np.array([EVIL, "b"]).astype("S")[np.arange(30) % 2]
        file["ids"] = np.array([f"{EVIL}{k}" for k in range(30)]).astype("S")
    assert pdac("select", tmp_path / "f.h5", "-n", 6, "-o", tmp_path / f"{'<b>'}.json", "-q").code == 0
    assert pdac("report", tmp_path / "f.h5", tmp_path / "<b>.json", "-o", tmp_path / "r.html", "-q").code == 0
    text = (tmp_path / "r.html").read_text("utf-8")
    body = text[: text.index("plotly.js v")] + text[text.rindex("</script><script>") :]
    assert "<img" not in body
    assert "onerror=alert(1)>" not in body
    assert "\x1b" not in body
    assert "alert(1)&gt;%{x}" not in body
    assert "alert(1)&gt;&#37;{x}" in body
    assert "<b>" not in body
    assert "default-src 'none'" in text


@pytest.mark.parametrize(("arguments", "code", "says"), [
    (["r.txt"], 2, "ends in .txt; expected .html"),
    (["r.html", "t.csv"], 2, "these are not drawn together"),
    (["r.html", "--images", "none"], 3, "none: not found"),
    (["r.html", "--images", "other.npz"], 3, "has 5 images"),
    (["r.html", "--model", "a.json"], 4, "a.json"),
    (["r.html", "other.json"], 3, "(by its fingerprint)"),
    (["no/r.html"], 5, "is not there"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused_in_one_line(pdac, folder, monkeypatch, arguments, code, says):
    monkeypatch.chdir(folder)
    np.savez("other.npz", images=np.zeros((5, 8, 8), "u1"), labels=np.zeros(5, int))
    content = json.loads((folder / "a.json").read_text())
    content["sources"][0]["fingerprint"] = "0" * 32
    (folder / "other.json").write_text(json.dumps(content))
    result = pdac("report", SAMPLE, *arguments[1:], "-o", arguments[0])
    assert (result.code, result.out) == (code, ""), result.err
    assert says in result.err
    assert not (folder / "r.html").exists()


def test_options_without_effect_and_outputs_that_exist(pdac, folder, tmp_path):
    page = tmp_path / "r.html"
    result = pdac("report", folder / "t.csv", "--rows", 5, "-o", page)
    assert result.code == 2
    assert "--rows is given, and there are no features" in result.err
    assert pdac("report", folder / "t.csv", "-o", page, "-q").code == 0
    assert pdac("report", folder / "t.csv", "-o", page, "-q").code == 5
    first = page.read_bytes()
    assert pdac("report", folder / "t.csv", "-o", page, "-q", "--force").code == 0
    assert page.read_bytes() == first


def test_a_report_of_features_loads_no_torch():
    script = (
        "import sys\nfrom pdac_cli.commands.report import selections, traces, experiments\n"
        "print('torch' in sys.modules, 'plotly' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "False"]

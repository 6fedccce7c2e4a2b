"""Declared sweeps: what they run is what the commands run, and a sweep that was stopped ends like one that was not."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from scipy.stats import ttest_rel

from pdac_cli.commands.experiment import runner as experiment_run
from pdac_cli.commands.experiment.definition import load
from pdac_cli.commands.experiment.plan import units_of
from pdac_cli.commands.experiment.reading import preset_names
from pdac_cli.errors import Stopped
from pdac_cli.learning import step_timing
from pdac_cli.options.experiment import ExperimentOptions, Scale
from pdac_cli.options.select import Allocation, Eviction
from pdac_cli.options.shared import Units
from pdac_cli.options.stream import Acceptance, Updates

SMALL = """
title = "a small sweep"
measures = ["acc", "fm", "s", "selection_seconds"]
seeds = 3

[data.clusters]
path = "PATH"

[options]
density_kind = "class"
dim = 3
components = 2
epochs = 2
lr = 0.1

[methods.half]
method = "pdac"
temperature = 0.5

[[sweep]]
methods = ["uniform", "half"]
budget = [10, 20]

[[sweep]]
methods = ["pdac"]
components = [1, 2]
budget = 20

[small]
seeds = 1
[small.options]
epochs = 1
[small.sweep]
budget = [5]
"""
RUNS = 3 * (2 * 2 + 2)


@pytest.fixture
def features(feature_file):
    """400 rows of four classes with a `split`: a fifth are for testing."""
    path = feature_file(n=400, dim=12, classes=(0, 1, 2, 5))
    with h5py.File(path, "r+") as file:
        file["split"] = (np.arange(400) % 5 == 4).astype("u1")
    return path


@pytest.fixture
def definition(tmp_path, features):
    path = tmp_path / "sweep.toml"
    path.write_text(SMALL.replace("PATH", str(features)))
    return path


def rows_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def lasting(folder):
    """The files that must be the same, however often the sweep was stopped."""
    out = {"results.csv": (folder / "results.csv").read_bytes()}
    cells = json.loads((folder / "results.json").read_text())["cells"]
    for cell in cells:
        for part in (cell["values"], cell["differences"]):
            part.pop("selection_seconds", None)
    return {**out, "cells": cells}


def test_a_sweep_is_the_runs_of_train_cl(pdac, definition, features, tmp_path):
    out = tmp_path / "out"
    result = pdac("experiment", definition, "-o", out)
    assert result.code == 0, result.err
    assert "a small sweep" in result.out
    rows = rows_of(out / "results.csv")
    assert len(rows) == RUNS
    assert len(rows_of(out / "times.csv")) == RUNS
    for row in rows:  # two tasks
        assert float(row["s"]) == pytest.approx(float(row["fm"]) + 2 * float(row["acc"]))
    options, by_class = (
        ("--epochs", 2, "--lr", 0.1, "--budget", 20, "--seeds", 3, "-q"),
        ("--density", "class", "--dim", 3),
    )
    for label, given in {
        "uniform": ("--method", "uniform"),
        "half": ("--method", "pdac", "--temperature", 0.5, "--components", 2, *by_class),
        "pdac": ("--method", "pdac", "--components", 1, *by_class),
    }.items():
        folder = tmp_path / label
        assert pdac("train-cl", features, "-o", folder, *options, *given).code == 0
        expected = [100 * found["acc"] for found in json.loads((folder / "results.json").read_text())["results"]]
        mine = [r for r in rows if r["method"] == label and r["budget"] == "20" and r["components"] in ("", "1")]
        assert [float(r["acc"]) for r in mine] == pytest.approx(expected)


def test_differences_are_paired_with_the_reference_that_agrees(pdac, definition, tmp_path):
    out = tmp_path / "out"
    assert pdac("experiment", definition, "-o", out, "-q").code == 0
    acc = {}
    for row in rows_of(out / "results.csv"):
        acc.setdefault((row["method"], row["budget"], row["components"]), []).append(float(row["acc"]))
    for row in rows_of(out / "table.csv"):
        mine = acc[row["method"], row["budget"], row["components"]]
        assert float(row["acc"]) == pytest.approx(np.mean(mine))
        if row["method"] == "uniform":
            assert row["acc_difference"] == ""
            continue
        reference = acc["uniform", row["budget"], ""]
        difference = np.array(mine) - reference
        assert float(row["acc_difference"]) == pytest.approx(difference.mean())
        if np.ptp(difference) > 0:
            interval = ttest_rel(mine, reference).confidence_interval(0.95)
            assert (float(row["acc_difference_low"]), float(row["acc_difference_high"])) == pytest.approx(
                tuple(interval)
            )


def test_a_stopped_sweep_goes_on_to_the_same_end(pdac, definition, tmp_path, monkeypatch):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert pdac("experiment", definition, "-o", whole, "-q").code == 0
    ran = []

    def first_few(unit, done, real=experiment_run._tell):
        ran.append(unit.name)
        if len(ran) == 5:
            raise Stopped("stopped here; add --resume to go on")
        real(unit, done)

    monkeypatch.setattr(experiment_run, "_tell", first_few)
    stopped = pdac("experiment", definition, "-o", parts, "-q")
    assert stopped.code == 6
    assert "run the same command again" in stopped.err
    assert not (parts / "results.json").exists()
    again = pdac("experiment", definition, "-o", parts)
    assert f"5 of {RUNS} runs are complete" in again.err
    assert len(ran) == len(set(ran)) == RUNS
    assert lasting(whole) == lasting(parts)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_killed_sweep_goes_on_to_the_same_end(pdac, definition, tmp_path, jobs):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert pdac("experiment", definition, "-o", whole, "-q").code == 0
    command = [
        sys.executable,
        "-m",
        "pdac_cli",
        "experiment",
        str(definition),
        "-o",
        str(parts),
        "-q",
        "--jobs",
        str(jobs),
    ]
    for number in (signal.SIGKILL, signal.SIGTERM):
        running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        before = len(list(parts.glob("runs/*/results.json")))
        while running.poll() is None and len(list(parts.glob("runs/*/results.json"))) == before:
            time.sleep(0.01)
        running.send_signal(number)
        _, err = running.communicate(timeout=120)
        assert running.returncode in (-number, 6, 0), err  # 0: it was done before the signal came
        time.sleep(2 if jobs > 1 else 0)  # its processes end when they notice
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert lasting(whole) == lasting(parts)


def test_another_definition_does_not_mix_with_the_runs_that_are_there(pdac, definition, tmp_path):
    few = ("--seeds", 1, "--methods", "uniform", "-q")
    assert pdac("experiment", definition, "-o", tmp_path / "out", *few).code == 0
    other = pdac("experiment", definition, "-o", tmp_path / "out", *few, "--set", "lr=0.2")
    assert other.code == 2
    assert "a run with lr 0.1 and not 0.2" in other.err
    assert pdac("experiment", definition, "-o", tmp_path / "out", *few, "--set", "lr=0.2", "--force").code == 0
    more = pdac(
        "experiment", definition, "-o", tmp_path / "out", "--methods", "uniform", "--set", "lr=0.2", "--seeds", 2
    )
    assert "2 of 4 runs are complete" in more.err


def test_a_rerun_of_a_part_leaves_the_rest_in_the_table(pdac, definition, tmp_path):
    out = tmp_path / "out"
    assert pdac("experiment", definition, "-o", out, "-q").code == 0
    whole = {name: (out / name).read_bytes() for name in ("results.csv", "table.csv", "times.csv")}
    for part in (
        ("--set", "budget=20"),
        ("--methods", "pdac"),
        ("--seeds", 1),
        ("--set", "budget=[20]", "--methods", "half"),
    ):
        again = pdac("experiment", definition, "-o", out, *part)
        assert again.code == 0, again.err
        assert {name: (out / name).read_bytes() for name in whole} == whole
    assert "half" in again.out
    assert "uniform" in again.out
    # Runs that the definition does not have are there as well, after those that it has, and stay.
    assert pdac("experiment", definition, "-o", out, "--set", "budget=15", "--methods", "uniform", "-q").code == 0
    assert pdac("experiment", definition, "-o", out, "-q").code == 0
    rows = rows_of(out / "results.csv")
    assert [row["budget"] for row in rows[RUNS:]] == ["15"] * 3
    assert rows[:RUNS] == list(csv.DictReader(whole["results.csv"].decode().splitlines()))


def test_a_file_that_is_not_a_runs_is_left_out_of_the_table(pdac, definition, tmp_path):
    out = tmp_path / "out"
    few = ("experiment", definition, "-o", out, "--seeds", 1, "--methods", "uniform", "-q")
    assert pdac(*few).code == 0
    before = rows_of(out / "results.csv")
    (found,) = (out / "runs").glob("*budget=10-uniform-seed-0.json")
    stored = json.loads(found.read_text())
    for k, change in enumerate([{"cell": None}, {"cell": {"axes": 1}}, {"seed": "0"}, {"method": "../.."}, {}]):
        (out / "runs" / f"other-{k}.json").write_text(json.dumps({**stored, **change}))
    odd = {"cell": {**stored["cell"], "label": "$uniform"}}  # which a figure would take for a formula
    (out / "runs" / "clusters-budget=10-_uniform-seed-0.json").write_text(json.dumps({**stored, **odd}))
    shutil.copytree(found.with_suffix(""), out / "runs" / "clusters-budget=10-_uniform-seed-0")
    assert pdac(*few).code == 0
    assert rows_of(out / "results.csv") == before


@pytest.mark.parametrize("content", [
    "{}", '{"results": []}', '{"results": [1]}', '{"results": [{"acc": "high"}]}', '{"results": [{"acc": 0.5}]}',
    '{"results": [{"acc": 0.5, "seconds": {"extraction": null}}]}', "[1]", "no JSON",
])  # fmt: skip
def test_results_of_another_kind_are_named(pdac, definition, tmp_path, content):
    few = ("experiment", definition, "-o", tmp_path / "out", "--seeds", 1, "--methods", "uniform", "--set", "budget=10")
    assert pdac(*few, "-q").code == 0
    (path,) = (tmp_path / "out").glob("runs/*/results.json")
    path.write_text(content)
    result = pdac(*few, "-q")
    assert result.code == 3
    assert str(path) in result.err
    assert len(result.err.splitlines()) == 1


def test_what_is_compared_with_what_can_be_chosen(pdac, definition, features, tmp_path):
    out = tmp_path / "out"
    few = ("experiment", definition, "-o", out, "--seeds", 2, "--set", "budget=20")
    usual = pdac(*few)
    assert "difference: minus uniform" in usual.out
    other = pdac(*few, "--reference", "half")
    assert "difference: minus half" in other.out
    rows = {row["method"]: row for row in rows_of(out / "table.csv") if row["components"] == ""}
    assert rows["half"]["acc_difference"] == ""
    assert float(rows["uniform"]["acc_difference"]) == pytest.approx(
        float(rows["uniform"]["acc"]) - float(rows["half"]["acc"])
    )
    wrong = pdac(*few, "--reference", "best")
    assert (wrong.code, len(wrong.err.splitlines())) == (2, 1)
    assert "--reference: 'best' is not known; expected one of: uniform, half, pdac" in wrong.err


def test_a_finished_sweep_is_shown_without_torch(pdac, definition, tmp_path):
    few = ("experiment", str(definition), "-o", str(tmp_path / "out"), "--seeds", "1", "--methods", "uniform")
    assert pdac(*few, "-q").code == 0
    code = (
        "import sys; from pdac_cli.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert not {'torch', 'h5py', 'sklearn', 'matplotlib', 'rich.progress'} & set(sys.modules), 'loaded'\n"
    )
    found = subprocess.run([sys.executable, "-c", code, *few], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "2 of 2 runs are complete" in found.stderr
    assert "uniform" in found.stdout


def test_scale_and_changes(definition):
    full = load(ExperimentOptions(definition=definition))
    assert full.sweeps[0].axes["budget"] == (10, 20)
    small = load(ExperimentOptions(definition=definition, scale=Scale.SMALL, changes={"temperature": "0.25"}))
    assert (small.seeds, small.options["epochs"], small.sweeps[0].axes["budget"]) == (1, 1, (5,))
    assert small.options["temperature"] == 0.25
    assert "temperature" not in small.methods["half"]
    units, absent = units_of(small, ExperimentOptions(definition=definition))
    assert len(units) == 4
    assert absent == []
    assert {unit.options["epochs"] for unit in units} == {1}


def test_a_sweep_of_compare_is_that_command(pdac, feature_file, tmp_path):
    train, test = feature_file("train.h5"), feature_file("test.h5", seed=1)
    path = tmp_path / "choose.toml"
    path.write_text(
        f'measures = ["accuracy", "coverage", "seconds"]\nseeds = 3\n[data.a]\npath = "{train}"\ntest = "{test}"\n'
        '[[sweep]]\ncommand = "compare"\nmethods = ["uniform", "pdac"]\nbudget = [6, 12]\ndim = [2, 4]\n'
    )
    assert pdac("experiment", path, "-o", tmp_path / "out", "-q").code == 0
    compared = pdac(
        "compare", train, "--test", test, "-n", "6,12", "--methods", "uniform,pdac", "--seeds", 3, "--dim", 4, "--json"
    )
    for line in compared.json["lines"]:
        mine = [
            float(row["accuracy"])
            for row in rows_of(tmp_path / "out" / "results.csv")
            if (row["method"], row["budget"], row["dim"]) == (line["method"], str(line["budget"]), "4")
        ]
        assert np.mean(mine) == pytest.approx(100 * line["accuracy"])
    again = pdac("experiment", path, "-o", tmp_path / "out")
    assert "24 of 24 runs are complete" in again.err


@pytest.mark.parametrize(("change", "code", "words"), [
    ("colour = 1", 2, "sweep: 'colour' is not known; expected one of: title, measures"),
    ("seeds = 'three'", 2, "seeds is 'three'; expected a whole number"),
    ("seeds = true", 2, "seeds is true; expected a whole number"),
    ("measures = ['accc']", 2, "'accc' is not known; expected some of: acc, fm"),
    ("[data.b]\ncolour = 1", 2, "[data.b]: 'colour' is not known; expected one of: path, test"),
    ("[data.b]\noptions = {lrr = 1}", 2, "'lrr' is not known; expected one of: setting"),
    ("[methods.x]\nallocation = 'fair'", 2, "allocation is 'fair'; expected one of: per-class, balanced, joint"),
    ("[methods.x]\nepochs = 1.5", 2, "epochs is 1.5; expected a whole number"),
    ("[[sweep]]\nmethods = ['uniform']\nbudgets = [1]", 2, "'budgets' is not known; expected one of: command, methods"),
    ("[[sweep]]\nmethods = ['uniform']\nlr = [0.1, 0.1]", 2, "lr is [0.1, 0.1]; expected values, each once"),
    ("[[sweep]]\nbudget = [30]", 2, "has no methods; expected a list of methods"),
    ("[[sweep]]\nmethods = ['best']\nbudget = [30]", 2, "best on clusters: --method is 'best'"),
    ("[[sweep]]\nmethods = ['best']\nbudget = [30]\nsetting = 'online'\nepochs = 1", 2, "expected"),
    ("[[sweep]]\nmethods = ['uniform']\nbudget = [-1]", 2, "--budget is -1"),
    ("[[sweep]]\nmethods = ['uniform']\ncommand = 'fit'", 2, "'fit' is not known; expected one of: train-cl, compare"),
    ("[[sweep]]\nmethods = ['uniform']\nbudget = [20]", 2, "is defined twice"),
    ("[[plot]]\ncolour = 1", 2, "[[plot]]: 'colour' is not known"),
    ("this is no TOML", 3, "is not TOML"),
])  # fmt: skip
def test_what_a_definition_may_not_say(pdac, definition, tmp_path, change, code, words):
    name = change.split(" = ")[0]
    text = "\n".join(
        line for line in definition.read_text().splitlines() if not line.startswith(f"{name} = ") or name == "methods"
    )
    top, rest = text.split("[data.clusters]")
    whole = f"{top}\n{change}\n[data.clusters]{rest}" if "[" not in name else f"{text}\n{change}\n"
    definition.write_text(whole)
    result = pdac("experiment", definition, "-o", tmp_path / "out")
    assert result.code == code, result.err
    assert words in result.err
    assert len(result.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("arguments", "code", "words"), [
    ([], 2, "expected either a definition file or --preset"),
    (["missing.toml"], 3, "missing.toml"),
    (["--preset", "table7"], 2, "--preset is 'table7'; expected one of: density, figure3"),
    (["--preset", "table1"], 2, "it is not said where cifar10, cifar100 is; expected a path"),
    (["--preset", "table1", "--data", "cifar=x"], 2, "'cifar' is not known; expected one of: cifar10, cifar100"),
    (["--preset", "table1", "--data", "cifar10"], 2, "--data is 'cifar10'; expected a name and a value"),
    (["--preset", "table1", "--data", "cifar10=a", "--data", "cifar10=b"], 2, "--data names cifar10 twice"),
    (["--preset", "table1", "--methods", "spdac"], 2, "--methods: 'spdac' is not known"),
    (["--preset", "table1", "--seeds", "0"], 2, "--seeds is 0"),
    (["--preset", "table1", "--jobs", "0"], 2, "--jobs is 0"),
    (["--preset", "table1", "--set", "colour=1", "--plan"], 2, "'colour' is not known"),
    (["--preset", "table1", "--data", "cifar10=missing.h5"], 3, "missing.h5"),
])  # fmt: skip
def test_what_bad_arguments_get(pdac, tmp_path, monkeypatch, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    result = pdac("experiment", *arguments)
    assert result.code == code
    assert words in result.err
    assert len(result.err.splitlines()) == 1


PAPER = {  # data sets × combinations × methods × seeds, as the paper has them
    "table1": 2 * 4 * 12 * 3,
    "table2": 2 * 2 * 12 * 3,
    "table3": 3 * 4 * 7 * 3,  # SPDAC by both acceptance rules
    "table4": 3 * 2 * 6 * 3,
    "table5": 2 * 5 * 3,
    "table6": 2 * 4 * 3,
    "figure3": 2 * 3,
    "figure4": 2 * (1 + 5 + 4) * 3,
    "figure5": 3 * ((1 + 2 * 6) * 3 + 4 * 5),
}


@pytest.mark.parametrize("scale", Scale)
@pytest.mark.parametrize("name", sorted(PAPER))
def test_presets_are_the_papers_runs_by_its_printed_rule(name, scale):
    assert set(PAPER) <= set(preset_names())
    options = ExperimentOptions(preset=name, scale=scale, seeds=3, data=dict.fromkeys(["cifar10", "cifar100"], "x"))
    definition = load(options)
    if "tinyimagenet" in definition.data:
        options = ExperimentOptions(preset=name, scale=scale, seeds=3, data=dict.fromkeys(definition.data, "x"))
    units, absent = units_of(load(options), options)
    assert absent == []
    assert len(units) == PAPER[name]
    for unit in units:
        given = unit.options
        if unit.command == "storage":
            continue
        assert (given["lr"], given["batch"], given["replay_batch"], given["pad"], given["flip"]) == (
            0.03,
            32,
            32,
            4,
            True,
        )
        assert given["tasks"] == {"cifar10": 5, "cifar100": 10, "tinyimagenet": 10}[unit.data]
        if unit.label in ("pdac", "spdac", "spdac-density"):
            rule = (given["allocation"], given["temperature"], given["ridge"], given["units"])
            assert rule == (Allocation.JOINT, 1.0, 1e-6, Units.ABSOLUTE)
        if unit.label == "pdac":
            assert (given["eviction"], given["normalize"], given["rescore"]) == (Eviction.PAPER, False, True)
        if unit.label == "uniform":
            assert given["allocation"] is Allocation.JOINT
        if unit.label in ("spdac", "spdac-density"):
            stream = (given["method"], given["acceptance"], given["allocation"], given["step_rows"], given["updates"])
            rule = Acceptance.PAPER if unit.label == "spdac" else Acceptance.DENSITY
            assert stream == ("spdac", rule, Allocation.JOINT, 1, Updates.PRINTED)
        if scale is Scale.FULL:
            assert given["width"] == 64
            assert given.get("epochs", 10) == 10


def test_the_size_of_the_densities_is_what_the_paper_counts(pdac, tmp_path):
    """From L = 1 to 9 at d = 5: 0.01 on CIFAR-10 and 0.19 on TinyImageNet, which are MiB."""
    definition = tmp_path / "size.toml"
    definition.write_text(
        'measures = ["model_mib"]\n[data.c10]\nclasses = 10\n[data.tiny]\nclasses = 200\n'
        '[[sweep]]\ncommand = "storage"\nmethods = ["pdac"]\ndim = 5\ncomponents = [1, 9]\n'
    )
    assert pdac("experiment", definition, "-o", tmp_path / "out", "-q").code == 0
    size = {
        (row["data"], row["components"]): float(row["model_mib"]) for row in rows_of(tmp_path / "out" / "results.csv")
    }
    assert size["c10", "9"] - size["c10", "1"] == pytest.approx(0.01, abs=1e-3)
    assert size["tiny", "9"] - size["tiny", "1"] == pytest.approx(0.19, abs=1e-3)
    assert size["c10", "1"] == pytest.approx(4 / 2**20 * 10 * (512 * 5 + 31))


def test_figures_are_drawn_and_log_likelihoods_never_fall(pdac, definition, tmp_path):
    text = definition.read_text().replace('"selection_seconds"', '"log_likelihood@2"')
    plots = '[[plot]]\nx = "components"\ny = "acc"\n[[plot]]\nx = "step"\ny = "log_likelihood"\nby = "task"\n'
    definition.write_text(text.replace("[small]", f"{plots}[small]"))
    out = tmp_path / "out"
    rule = ("--set", "density_kind=class", "--set", "steer=0")
    given = ("--methods", "pdac", "--seeds", 1, "--set", "rescore=true", "--set", "iterations=4", *rule)
    result = pdac("experiment", definition, "-o", out, *given)
    assert result.code == 0, result.err
    assert (out / "figure.png").read_bytes().startswith(b"\x89PNG")
    curves = {}
    for row in rows_of(out / "log-likelihood.csv"):
        key = (row["components"], row["task"])
        curves.setdefault(key, []).append(float(row["log_likelihood"]))
    assert len(curves) == 2 * 2
    for values in curves.values():
        assert len(values) == 5
        assert min(np.diff(values)) > -1e-6
    mean = np.mean([values[2] for (components, _), values in curves.items() if components == "2"])
    (row,) = [row for row in rows_of(out / "results.csv") if row["components"] == "2"]
    assert float(row["log_likelihood@2"]) == pytest.approx(mean)


def test_the_presets_are_listed_and_a_plan_runs_nothing(pdac, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed = pdac("experiment", "--list")
    assert set(PAPER) <= {line.split()[0] for line in listed.out.splitlines()}
    plan = pdac("experiment", "--preset", "table5", "--scale", "small", "--plan", "--set", "width=2")
    assert plan.code == 0, plan.err
    assert "20 runs, about" in plan.out
    assert not os.listdir(tmp_path)  # noqa: PTH208


@pytest.mark.parametrize("verb", [(), ("--plan",)])
def test_a_path_that_is_not_there_is_refused_before_anything_runs(pdac, definition, tmp_path, verb):
    definition.write_text(definition.read_text() + '[data.other]\npath = "nowhere.h5"\n')
    result = pdac("experiment", definition, "-o", tmp_path / "out", *verb)
    assert result.code == 3
    assert result.err == "error: nowhere.h5: not found; expected the data of this experiment; check the path\n"
    assert not (tmp_path / "out").exists()
    scheme = pdac("experiment", definition, "--data", f"other=cifar10:{tmp_path / 'none'}", *verb)
    assert (scheme.code, "none: not found" in scheme.err) == (3, True)


def test_a_plan_of_features_has_its_hours_from_the_file(pdac, definition, feature_file, tmp_path, monkeypatch):
    monkeypatch.setattr(step_timing, "step_seconds", lambda *_: 0.01)
    plan = pdac("experiment", definition, "--plan", "--json", "--set", "epochs=1000").json
    twice = pdac("experiment", definition, "--plan", "--json", "--set", "epochs=100000").json
    assert [line["runs"] for line in plan["lines"]] == [6, 6, 3, 3]
    assert plan["hours"] == pytest.approx(sum(line["hours"] for line in plan["lines"]))
    assert all(line["hours"] > 0 for line in plan["lines"])
    assert twice["hours"] == pytest.approx(100 * plan["hours"])
    train, test = feature_file("train.h5"), feature_file("test.h5", seed=1)
    path = tmp_path / "choose.toml"
    path.write_text(
        f'[data.a]\npath = "{train}"\ntest = "{test}"\n[[sweep]]\ncommand = "compare"\n'
        'methods = ["uniform", "herding"]\nbudget = [6]\n'
    )
    chosen = pdac("experiment", path, "--plan", "--json").json
    assert chosen["hours"] > 0


def test_a_plan_without_any_size_is_refused(pdac, definition):
    definition.write_text(definition.read_text() + "[data.other]\nclasses = 5\n")
    result = pdac("experiment", definition, "--plan")
    assert result.code == 2
    assert "[data.other]: has no rows, and its time cannot be estimated; expected rows (of a class)" in result.err


def test_every_option_of_a_run_reaches_it(definition, tmp_path):
    changes = {
        "candidates": "7", "beta": "0.3", "width": "5", "ridge": "0.1", "window": "3", "flip": "false",
        "resize": "[4, 6]",
        "imbalance": "none", "eviction": "paper", "allocation": "balanced", "class_order": "random",
    }  # fmt: skip
    options = ExperimentOptions(definition=definition, changes=changes)
    units, _ = units_of(load(options), options)
    found = units[0].train_options(tmp_path, "cpu", options.run)
    assert (found.settings.aser.candidates, found.beta, found.density.ridge, found.window) == (7, 0.3, 0.1, 3)
    assert (found.learning.width, found.learning.resize, found.learning.flip) == (5, (4, 6), False)
    assert (found.imbalance, found.eviction, found.allocation) == (None, Eviction.PAPER, Allocation.BALANCED)
    assert (found.class_order, found.learning.device, found.seeds, found.resume) == ("random", "cpu", 1, True)
    assert units[0].identity() != units[1].identity()


@pytest.mark.parametrize(("change", "words"), [
    (("--set", "beta=0.3"), "--set: beta has no effect on any run; it belongs to the method spdac"),
    (("--set", "density_kind=relative", "--set", "dim=2"), "--set: dim has no effect on any run; it belongs to --den"),
    (("--methods", "uniform", "--set", "temperature=0.5"), "--set: temperature has no effect on any run"),
])  # fmt: skip
@pytest.mark.parametrize("verb", [(), ("--plan",)])
def test_an_option_that_no_run_has_a_use_for_is_refused(pdac, definition, tmp_path, change, words, verb):
    result = pdac("experiment", definition, "-o", tmp_path / "out", *change, *verb)
    assert (result.code, words in result.err) == (2, True), result.err
    assert not (tmp_path / "out").exists()


def test_an_axis_that_no_run_has_a_use_for_is_refused(pdac, definition):
    definition.write_text(definition.read_text().replace('density_kind = "class"\n', "").replace("dim = 3\n", ""))
    result = pdac("experiment", definition, "--plan")
    assert "sweep: components has no effect on any run; it belongs to --density class" in result.err

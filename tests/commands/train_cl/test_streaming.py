"""Continual runs by every streaming method, from the command line."""

from __future__ import annotations

import itertools
import json
import signal
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from pdac_cli.commands.train_cl import command as train_cl
from pdac_cli.commands.train_cl import plan as train_cl_plan
from pdac_cli.commands.train_cl.methods import methods_of
from pdac_cli.errors import UsageError
from pdac_cli.files.index.index_file import read_index
from pdac_cli.learning.progress import STAGES
from pdac_cli.options.methods import StreamMethod
from pdac_cli.options.train_cl import Setting, TrainOptions
from tests.commands.train_cl.runs import SMALL, interrupted, outcome, result

torch.set_num_threads(1)
METHODS = [method.value for method in StreamMethod]
EVERY = [argument for method in METHODS for argument in ("--method", method)]
BUDGET, RELAXED = 20, ("--setting", "relaxed", "--width", 2, "--epochs", 2, "--budget", 20, "--batch", 16)


@pytest.fixture
def whole(pdac, images, tmp_path):
    """A run of every method on images."""
    found = pdac("train-cl", images, "-o", tmp_path / "whole", *RELAXED, *EVERY, *SMALL)
    assert found.code == 0, found.err
    return tmp_path / "whole"


def buffers(folder, method):
    return [(folder / method / "seed-0" / f"buffer-{task}.json").read_bytes() for task in (1, 2)]


def test_every_method_keeps_its_budget_and_its_seconds(whole):
    for method in METHODS:
        index = read_index(whole / method / "seed-0" / "buffer-2.json")
        assert (len(index.row), index.method) == (BUDGET, method)
        assert set(index.task.tolist()) == {1, 2}
        seconds = result(whole, method)["seconds"]
        assert set(seconds) == set(STAGES)
        assert seconds["retrieval"] > 0
        assert (seconds["weighting"] > 0) is (method == "metasp")
        assert (seconds["extraction"] > 0) is (method in ("gss", "aser"))
        assert (index.score is not None) is (method in ("gss", "metasp", "spdac"))
    config = json.loads((whole / "config.json").read_text())
    assert (config["neighbours"], config["gradient_batches"]) == (3, 10)
    assert len({tuple(read_index(whole / method / "seed-0" / "buffer-2.json").row) for method in METHODS}) >= 4


def test_a_stopped_run_of_every_method_goes_on_to_the_same_end(pdac, images, tmp_path, whole, monkeypatch):
    """Every tenth time that it is asked the run is to stop, as by a signal, wherever it stands, and goes on."""
    asked = itertools.count(1)

    @contextmanager
    def impatient():
        yield lambda: next(asked) % 10 == 0

    monkeypatch.setattr(train_cl, "stop_requests", impatient)
    run = ("train-cl", images, "-o", tmp_path / "cut", *RELAXED, *EVERY, *SMALL)
    codes = [pdac(*run).code]
    while codes[-1] == 6 and len(codes) < 50:
        codes.append(pdac(*run, "--resume").code)
    assert codes.pop() == 0
    assert len(codes) > 2 * len(METHODS)
    for method in METHODS:
        assert outcome(tmp_path / "cut", method) == outcome(whole, method)
        assert buffers(tmp_path / "cut", method) == buffers(whole, method)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [4, 11, 19])
@pytest.mark.parametrize("method", METHODS)
def test_a_killed_run_goes_on_to_the_same_end(pdac, images, tmp_path, method, steps):
    run = ("train-cl", images, *RELAXED, "--method", method, *SMALL)
    assert pdac(*run, "-o", tmp_path / "whole").code == 0
    assert interrupted(steps, signal.SIGKILL, *run, "-o", tmp_path / "cut").returncode == -signal.SIGKILL
    assert pdac(*run, "-o", tmp_path / "cut", "--resume").code == 0
    assert outcome(tmp_path / "cut", method) == outcome(tmp_path / "whole", method)
    assert buffers(tmp_path / "cut", method) == buffers(tmp_path / "whole", method)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_online_run_on_features(pdac, features, tmp_path, method):
    run = ("train-cl", features, "--setting", "online", "--budget", 30, "--method", method, *SMALL)
    for name in ("one", "two"):
        assert pdac(*run, "-o", tmp_path / name).code == 0
    assert outcome(tmp_path / "one", method) == outcome(tmp_path / "two", method)
    assert buffers(tmp_path / "one", method) == buffers(tmp_path / "two", method)
    assert len(read_index(tmp_path / "one" / method / "seed-0" / "buffer-2.json").row) == 30


@pytest.mark.parametrize("method", ["er-mir", "gss", "aser"])
def test_with_room_for_everything_what_is_kept_does_not_matter(pdac, features, tmp_path, method):
    run = ("train-cl", features, "--setting", "online", "--budget", 1000, *SMALL)
    found = pdac(*run, "--method", method, "--method", "er", "-o", tmp_path / "run")
    assert found.code == 0, found.err
    rows = [
        sorted(read_index(tmp_path / "run" / name / "seed-0" / "buffer-2.json").row.tolist()) for name in (method, "er")
    ]
    assert rows[0] == rows[1]
    if method == "gss":  # which replays as er does
        assert outcome(tmp_path / "run", "gss") == outcome(tmp_path / "run", "er")


def test_influence_changes_how_rows_are_weighed(pdac, features, tmp_path):
    """With nothing to keep but everything, MetaSP and ER replay the same rows and differ by the weights alone."""
    run = ("train-cl", features, "--setting", "online", "--budget", 1000, "--tasks", 1, *SMALL)
    assert pdac(*run, "--method", "metasp", "--method", "er", "-o", tmp_path / "run").code == 0
    losses = [np.array(result(tmp_path / "run", method)["losses"]) for method in ("metasp", "er")]
    assert losses[0].shape == losses[1].shape
    assert not np.allclose(losses[0], losses[1], rtol=1e-4)


@pytest.mark.parametrize("method", ["er", "spdac"])
def test_every_pass_feeds_a_relaxed_run_or_the_first_alone(pdac, features, tmp_path, method):
    run = ("train-cl", features, "--budget", 30, "--method", method, "--tasks", 1, *SMALL)
    for name, how in (
        ("all", ("--setting", "relaxed", "--epochs", 3)),
        ("first", ("--setting", "relaxed", "--epochs", 3, "--feed", "first")),
        ("one", ("--setting", "relaxed", "--epochs", 1)),
    ):
        assert pdac(*run, *how, "-o", tmp_path / name).code == 0
    rows = {
        name: read_index(tmp_path / name / method / "seed-0" / "buffer-1.json").row.tolist()
        for name in ("all", "first", "one")
    }
    assert rows["first"] == rows["one"]
    assert rows["all"] != rows["first"]
    assert len(set(rows["all"])) == 30


@pytest.mark.parametrize(("arguments", "words"), [
    (("--setting", "offline", "--feed", "all"), "--feed has no effect on this run; it belongs to --setting relaxed"),
    (("--setting", "online", "--method", "kcenter"), "--method is 'kcenter' with --setting online; expected one of: "),
    (("--setting", "relaxed", "--method", "mir"), "expected one of: spdac, er, er-mir, gss, aser, metasp"),
    (("--method", "aser"), "--method aser keeps rows batch by batch; expected --setting relaxed or online"),
    (("--setting", "online", "--candidates", 0), "--candidates is 0"),
    (("--setting", "online", "--neighbours", 0), "--neighbours is 0"),
    (("--setting", "online", "--gradient-batches", -1), "--gradient-batches is -1"),
])  # fmt: skip
def test_what_cannot_be_is_refused_before_any_work(pdac, features, tmp_path, arguments, words):
    found = pdac("train-cl", features, "-o", tmp_path / "run", *arguments)
    assert found.code == 2
    assert words in found.err
    assert not (tmp_path / "run").exists()


def test_methods_that_look_ahead_run_in_one_process():
    options = TrainOptions(data=("x.h5",), setting=Setting.ONLINE, methods=("er", "er-mir"))
    with pytest.raises(UsageError, match="er-mir with 2 processes"):
        train_cl_plan.check_plan(options, None, methods_of(options), "cpu", 2)


def test_streams_of_a_network_compare_the_papers_rule_with_er():
    options = TrainOptions(data=("x.h5",), setting=Setting.ONLINE)
    assert options.compared_methods == ("spdac", "er")


def test_another_number_of_candidates_is_another_run(pdac, features, tmp_path):
    run = ("train-cl", features, "-o", tmp_path / "run", "--setting", "online", "--budget", 30, *SMALL)
    assert pdac(*run, "--method", "aser").code == 0
    found = pdac(*run, "--method", "aser", "--resume", "--candidates", 9)
    assert found.code == 2
    assert "candidates 128 and not 9" in found.err

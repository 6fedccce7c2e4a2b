"""Whole continual runs from the command line, small enough to take a second."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn.functional import cross_entropy

from pdac_cli.files.index.index_file import read_index
from pdac_cli.learning.loop import batch_bounds
from pdac_cli.learning.networks.heads import new_network
from pdac_cli.learning.progress import STAGES
from pdac_cli.rng import Purpose, generator
from pdac_cli.selection.methods import METHODS
from tests.commands.train_cl.runs import CLASSES, SMALL, interrupted, outcome, result
from tests.oracles import largest_remainder

torch.set_num_threads(1)


def test_a_run_on_features_writes_what_the_readme_says(pdac, features, tmp_path):
    out = tmp_path / "run"
    arguments = [argument for argument in SMALL if argument != "--quiet"]
    arguments[arguments.index("--seeds") + 1] = 2
    found = pdac("train-cl", features, "-o", out, "--epochs", 2, "--budget", 40, *arguments)
    assert found.code == 0, found.err
    assert "accuracy of pdac in %, mean over seeds" in found.out
    assert "pdac minus uniform, 2 paired seeds: ACC" in found.out
    assert "±" in found.out
    config = json.loads((out / "config.json").read_text())
    assert (config["train_rows"], config["test_rows"], config["classes"]) == (320, 80, 4)
    with (out / "results.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["method"], row["seed"]) for row in rows] == [
        ("pdac", "0"), ("uniform", "0"), ("pdac", "1"), ("uniform", "1"),
    ]  # fmt: skip
    results = json.loads((out / "results.json").read_text())["results"]
    for row, each in zip(rows, results, strict=True):
        matrix = each["accuracy"]
        assert float(row["acc"]) == each["acc"] == pytest.approx(np.mean(matrix[-1]))
        assert float(row["fm"]) == pytest.approx(matrix[0][0] - matrix[1][0])
        assert float(row["s"]) == each["s"] == pytest.approx(each["fm"] + 2 * each["acc"])
        assert each["classes"] == [[0, 1], [2, 5]]
        assert set(each["seconds"]) == set(STAGES)
    seed = out / "pdac" / "seed-0"
    assert sorted(path.name for path in seed.iterdir()) == [
        "accuracy.csv", "buffer-1.json", "buffer-2.json", "result.json",
    ]  # fmt: skip
    assert not list(out.rglob(".*"))


def test_the_reference_is_the_uniform_one_wherever_it_is_named_and_can_be_chosen(pdac, features, tmp_path):
    given = ("--epochs", 1, "--budget", 20, "--seeds", 1, "--method", "uniform", "--method", "herding")
    usual = pdac("train-cl", features, "-o", tmp_path / "a", *given)
    assert "herding minus uniform, 1 paired seed: ACC" in usual.out
    other = pdac("train-cl", features, "-o", tmp_path / "b", *given, "--reference", "herding")
    assert "uniform minus herding, 1 paired seed: ACC" in other.out
    assert json.loads((tmp_path / "b" / "results.json").read_text())["reference"] == "herding"
    wrong = pdac("train-cl", features, "-o", tmp_path / "c", *given, "--reference", "pdac")
    assert (wrong.code, wrong.err) == (
        2, "error: --reference is 'pdac'; expected one of the methods: uniform, herding\n",
    )  # fmt: skip
    assert not (tmp_path / "c").exists()
    compared = pdac("train-cl", "--compare", tmp_path / "a", tmp_path / "b")
    assert "differences: minus a uniform;" in compared.out
    compared = pdac("train-cl", "--compare", tmp_path / "a", tmp_path / "b", "--reference", "herding")
    assert "differences: minus a herding;" in compared.out


def test_the_buffer_after_each_task_obeys_the_budgets(pdac, features, tmp_path):
    out = tmp_path / "run"
    budget = 50
    assert pdac("train-cl", features, "-o", out, "--tasks", 4, "--budget", budget, "--epochs", 1, *SMALL).code == 0
    with h5py.File(features) as file:
        labels, test = file["labels"][:], file["split"][:] == 1
    for method in ("pdac", "uniform"):
        for task in (1, 2, 3, 4):
            index = read_index(out / method / "seed-0" / f"buffer-{task}.json")
            counts = np.bincount(index.task, minlength=task + 1)[1:]
            assert counts.tolist() == largest_remainder(budget, [1] * task).tolist()
            # Rows are those of the file, none of them a test row, each under its own label and task.
            assert np.array_equal(labels[index.row], index.label)
            assert not test[index.row].any()
            assert np.array_equal(np.array(CLASSES)[index.task - 1], index.label)


def by_hand(path: Path, replay: bool, epochs: int, seed: int = 0) -> list[list[float]]:
    """Losses of a bare loop over two tasks: everything of the first replayed in the second, or nothing."""
    with h5py.File(path) as file:
        train = file["split"][:] == 0
        x, labels = torch.from_numpy(file["features"][:][train]), file["labels"][:][train]
    y = torch.from_numpy(np.searchsorted(CLASSES, labels))
    network = new_network((x.shape[1],), 4, 1, 0, None, seed)
    optimizer = torch.optim.SGD(network.parameters(), 0.03)
    losses = []
    for task in (1, 2):
        mine = np.flatnonzero((y >= 2 * task - 2) & (y < 2 * task))
        before = np.flatnonzero(y < 2 * task - 2) if replay else np.empty(0, np.int64)
        losses.append([])
        for epoch in range(epochs):
            order = generator(seed, Purpose.BATCHES, task, epoch).permutation(mine)
            bounds, total = batch_bounds(len(mine), 32), 0.0
            for step in range(len(bounds) - 1):
                draw = generator(seed, Purpose.REPLAY, task, epoch, step).choice
                old = draw(before, min(32, len(before)), replace=False) if len(before) else before
                rows = np.concatenate([order[bounds[step] : bounds[step + 1]], old])
                loss = cross_entropy(network(x[rows]), y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += float(loss.detach())
            losses[-1].append(total / (len(bounds) - 1))
    return losses


def test_a_budget_of_everything_is_joint_replay_whatever_the_method(pdac, features, tmp_path):
    out = tmp_path / "run"
    assert pdac("train-cl", features, "-o", out, "--budget", 10_000, "--epochs", 3, *SMALL).code == 0
    expected = by_hand(features, replay=True, epochs=3)
    for method in ("pdac", "uniform"):
        assert np.allclose(result(out, method)["losses"], expected, rtol=1e-6)
    assert outcome(out, "pdac") == outcome(out, "uniform")


@pytest.mark.parametrize("setting", ["offline", "relaxed"])
def test_a_budget_of_nothing_is_plain_fine_tuning(pdac, features, tmp_path, setting):
    out, method = tmp_path / "run", {"offline": "pdac", "relaxed": "spdac"}[setting]
    chosen = ("--setting", setting, "--method", method)
    assert pdac("train-cl", features, "-o", out, "--budget", 0, "--epochs", 3, *chosen, *SMALL).code == 0
    found = result(out, method)
    assert np.allclose(found["losses"], by_hand(features, replay=False, epochs=3), rtol=1e-6)
    assert found["accuracy"][-1][0] < found["accuracy"][0][0]  # and forgets


def test_a_reservoir_of_everything_replays_its_own_task_too(pdac, features, tmp_path):
    out = tmp_path / "run"
    chosen = ("--setting", "online", "--method", "er", "--method", "spdac")
    assert pdac("train-cl", features, "-o", out, "--budget", 10_000, *chosen, *SMALL).code == 0
    assert outcome(out, "er") == outcome(out, "spdac")
    assert len(result(out, "er")["losses"][0]) == 1
    index = read_index(out / "er" / "seed-0" / "buffer-2.json")
    assert len(index.row) == 320


@pytest.mark.parametrize("method", ["er", "spdac"])
def test_fed_by_the_first_pass_a_relaxed_stream_offers_no_other(pdac, features, tmp_path, method):
    chosen = ("--method", method, "--budget", 30, "--batch", 16)
    for name, epochs in (("one", 1), ("three", 3)):
        more = ("--setting", "relaxed", "--epochs", epochs, "--feed", "first")
        assert pdac("train-cl", features, "-o", tmp_path / name, *chosen, *more, *SMALL).code == 0
    # On features of a frozen backbone the stream is the same, so the buffer is.
    one, three = (read_index(tmp_path / name / method / "seed-0" / "buffer-2.json") for name in ("one", "three"))
    assert np.array_equal(one.row, three.row)
    assert len(one.row) == 30
    assert set(one.task.tolist()) == {1, 2}


def test_the_stream_of_a_run_is_that_of_pdac_stream(pdac, tmp_path, features):
    """The buffer of an online run is what `pdac stream` keeps of the same rows in the same order."""
    out = tmp_path / "run"
    chosen = ("--setting", "online", "--method", "spdac", "--budget", 30, "--tasks", 1)
    assert pdac("train-cl", features, "-o", out, *chosen, *SMALL).code == 0
    with h5py.File(features) as file:
        rows = np.flatnonzero(file["split"][:] == 0)
        order = generator(0, Purpose.BATCHES, 1, 0).permutation(np.arange(len(rows)))
        h, y = file["features"][:][rows[order]], file["labels"][:][rows[order]]
    with h5py.File(tmp_path / "ordered.h5", "w") as file:
        file["features"], file["labels"] = h, y
    found = pdac("stream", tmp_path / "ordered.h5", "--budget", 30, "-o", tmp_path / "b.json", "-q")
    assert found.code == 0, found.err
    theirs = rows[order][read_index(tmp_path / "b.json").row]
    assert sorted(read_index(out / "spdac" / "seed-0" / "buffer-1.json").row) == sorted(theirs)


def test_the_same_seed_gives_the_same_run(pdac, images, tmp_path):
    small = ("--width", 2, "--epochs", 1, "--budget", 20, "--method", "pdac", *SMALL)
    for name in ("one", "two"):
        assert pdac("train-cl", images, "-o", tmp_path / name, *small).code == 0
    assert pdac("train-cl", images, "-o", tmp_path / "other", "--seed", 1, *small).code == 0
    assert outcome(tmp_path / "one", "pdac") == outcome(tmp_path / "two", "pdac")
    assert outcome(tmp_path / "one", "pdac") != outcome(tmp_path / "other", "pdac", seed=1)
    buffers = [(tmp_path / name / "pdac" / "seed-0" / "buffer-2.json").read_bytes() for name in ("one", "two")]
    assert buffers[0] == buffers[1]


def test_runs_side_by_side_come_to_the_same(pdac, images, tmp_path):
    small = ("--width", 2, "--epochs", 1, "--budget", 20, "--seeds", 2, "-q")
    for jobs in (1, 3):
        assert pdac("train-cl", images, "-o", tmp_path / str(jobs), "--jobs", jobs, *small).code == 0
    for method in ("pdac", "uniform"):
        for seed in (0, 1):
            assert outcome(tmp_path / "1", method, seed) == outcome(tmp_path / "3", method, seed)


def test_images_are_learned(pdac, images, tmp_path):
    found = pdac(
        "train-cl", images, "-o", tmp_path / "r", "--width", 4, "--epochs", 6, "--budget", 60, "--json", *SMALL
    )
    assert found.code == 0, found.err
    assert found.json["methods"][0]["method"] == "pdac"
    assert min(found.json["methods"][1]["acc"]) > 60  # chance is 25, forgetting all but the last task 50


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("method", sorted(set(METHODS) - {"pdac", "uniform"}))
def test_the_other_methods_of_select_run_too(pdac, images, tmp_path, method):
    small = ("--width", 2, "--epochs", 1, "--budget", 20, "--method", method, *SMALL)
    found = pdac("train-cl", images, "-o", tmp_path / "run", *small)
    assert found.code == 0, found.err
    assert "stored rows" not in found.err  # ocs is given them
    assert len(read_index(tmp_path / "run" / method / "seed-0" / "buffer-2.json").row) == 20


def test_rescoring_asks_the_current_network(pdac, images, tmp_path):
    small = (
        "--width",
        2,
        "--epochs",
        2,
        "--budget",
        24,
        "--method",
        "pdac",
        "--ridge",
        0.1,
        "--density",
        "class",
        "--steer",
        0,
        *SMALL,
    )
    for name, more in (("stored", ()), ("rescored", ("--rescore",))):
        found = pdac("train-cl", images, "-o", tmp_path / name, *small, *more)
        assert found.code == 0, found.err
    stored, rescored = (tmp_path / name / "pdac" / "seed-0" for name in ("stored", "rescored"))
    first = [read_index(folder / "buffer-1.json") for folder in (stored, rescored)]
    assert np.array_equal(first[0].row, first[1].row)
    assert np.allclose(first[0].log_density, first[1].log_density)
    second = [read_index(folder / "buffer-2.json") for folder in (stored, rescored)]
    kept = dict(zip(first[0].row, first[0].log_density, strict=True))
    for index, same in zip(second, (True, False), strict=True):
        old = index.task == 1
        assert all(
            bool(kept[row] == value) is same for row, value in zip(index.row[old], index.log_density[old], strict=True)
        )


def test_a_checkpoint_to_start_from(pdac, tmp_path):
    sample = Path(__file__).parents[3] / "sample_data"
    small = ("--epochs", 1, "--budget", 20, "--method", "uniform", "--tasks", 1, "--batch", 256, *SMALL)
    init = ("--init", sample / "digits-resnet18.pt")
    found = pdac("train-cl", sample / "digits-images.h5", "-o", tmp_path / "run", *small, *init)
    assert found.code == 0, found.err
    assert result(tmp_path / "run", "uniform")["acc"] > 0.5  # six steps from scratch come to a fifth


def test_the_papers_protocol_on_cifar10s_own_files(pdac, tmp_path):
    folder = tmp_path / "cifar" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for name in [*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]:
        part = rng.integers(0, 256, (20, 3073), np.uint8)
        part[:, 0] = np.arange(20) % 10
        part.tofile(folder / name)
    (folder / "batches.meta.txt").write_text("\n".join(f"class{k}" for k in range(10)))
    small = ("--width", 2, "--epochs", 1, "--budget", 10, "--method", "uniform", *SMALL)
    data = ("--data", f"cifar10:{tmp_path / 'cifar'}", "--preset", "cifar10")
    found = pdac("train-cl", *data, "-o", tmp_path / "run", *small)
    assert found.code == 0, found.err
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    settled = {name: config[name] for name in ("train_rows", "tasks", "pad", "flip", "lr", "batch", "replay_batch")}
    assert settled == {
        "train_rows": 100, "tasks": 5, "pad": 4, "flip": True, "lr": 0.03, "batch": 32, "replay_batch": 32,
    }  # fmt: skip
    assert result(tmp_path / "run", "uniform")["train_rows"] == [20] * 5


def test_a_folder_of_images(pdac, tmp_path):
    rng = np.random.default_rng(0)
    for part, count in (("train", 12), ("test", 3)):
        for label in ("cat", "dog", "emu", "fox"):
            (tmp_path / "tree" / part / label).mkdir(parents=True)
            for k in range(count):
                pixels = rng.integers(0, 256, (20, 20, 3), np.uint8)
                Image.fromarray(pixels).save(tmp_path / "tree" / part / label / f"{k}.png")
    small = ("--width", 2, "--epochs", 1, "--budget", 8, "--method", "pdac", "--resize", 8, *SMALL)
    found = pdac("train-cl", tmp_path / "tree", "-o", tmp_path / "run", *small)
    assert found.code == 0, found.err
    index = read_index(tmp_path / "run" / "pdac" / "seed-0" / "buffer-2.json")
    assert index.label_names == ("cat", "dog", "emu", "fox")
    assert index.class_counts == {0: 2, 1: 2, 2: 2, 3: 2}


def test_imbalanced_tasks_in_an_order_of_their_own(pdac, features, tmp_path):
    order = ("--class-order", "5,0,2,1", "--imbalance", 0.05)
    small = ("--budget", 10, "--epochs", 1, "--method", "uniform", "--hidden", 8, *order, *SMALL)
    assert pdac("train-cl", features, "-o", tmp_path / "run", *small).code == 0
    found = result(tmp_path / "run", "uniform")
    assert found["classes"] == [[5, 0], [2, 1]]
    with h5py.File(features) as file:
        counts = {c: int(((file["labels"][:] == c) & (file["split"][:] == 0)).sum()) for c in CLASSES}
    assert found["train_rows"] == [counts[5] + int(0.05 * counts[0]), counts[2] + int(0.05 * counts[1])]


def test_compare_pairs_seeds(pdac, features, tmp_path):
    small = (*SMALL[:3], "--seeds", 3, "--epochs", 1, "--budget", 20)
    for name, method in (("a", "pdac"), ("b", "uniform")):
        assert pdac("train-cl", features, "-o", tmp_path / name, "--method", method, *small).code == 0
    found = pdac("train-cl", "--compare", tmp_path / "a", tmp_path / "b", "--json")
    assert found.code == 0, found.err
    rows, differences = found.json["methods"], found.json["differences"]
    assert [found["against"] for found in differences] == ["b uniform"] * 2
    assert [row["method"] for row in rows] == ["a pdac", "b uniform"]
    expected = np.mean(np.array(rows[0]["acc"]) - np.array(rows[1]["acc"]))
    assert differences[0]["acc"]["mean"] == pytest.approx(expected)
    assert differences[0]["acc"]["low"] < expected < differences[0]["acc"]["high"]
    assert "b uniform" in pdac("train-cl", "--compare", tmp_path / "a", tmp_path / "b").out


def test_names_are_numbered_and_nothing_is_overwritten(pdac, features, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ("--epochs", 1, "--budget", 20, "--method", "uniform", *SMALL)
    for _ in range(2):
        assert pdac("train-cl", features, *small).code == 0
    assert sorted(path.name for path in Path("runs").iterdir()) == ["feats-offline", "feats-offline-2"]
    found = pdac("train-cl", features, "-o", "runs/feats-offline", *small)
    assert found.code == 5
    assert "exists" in found.err
    assert pdac("train-cl", features, "-o", "runs/feats-offline", "--force", *small).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "no data is given"),
        (("nowhere.h5",), 3, "not found"),
        (("FEATURES", "--method", "best"), 2, "expected one of: pdac"),
        (("FEATURES", "--setting", "online", "--method", "pdac"), 2, "expected one of: spdac, er"),
        (("FEATURES", "--setting", "online", "--epochs", "2"), 2, "--epochs is more than 1"),
        (("FEATURES", "--setting", "online", "--rescore"), 2, "--rescore"),
        (("FEATURES", "--tasks", "9"), 2, "--tasks is 9 and there are 4 classes"),
        (("FEATURES", "--density", "class", "--dim", "40"), 2, "--dim is 40"),
        (("FEATURES", "--lr", "0"), 2, "--lr is 0"),
        (("FEATURES", "--class-order", "1,2"), 2, "--class-order lists 2 labels; expected each of the 4"),
        (("FEATURES", "--test", "ONE"), 3, "one.h5: has no test rows of 2 of the 4 classes (classes 0, 5); expected"),
        (("FEATURES", "--width", "8", "--pad", "2"), 2, "--width and --pad have no effect on this run; they belong to"),
        (("FEATURES", "--imbalance", "0"), 2, "--imbalance is 0"),
        (("FEATURES", "--init", "IMAGES"), 4, "not a checkpoint"),
        (("IMAGES", "--hidden", "8"), 2, "--hidden has no effect on this run; it belongs to features"),
        (("IMAGES", "IMAGES"), 2, "2 sources of images"),
        (("IMAGES", "--data", "IMAGES"), 2, "data is given twice"),
        (("FEATURES", "--resume"), 3, "expected a run to resume"),
        (("--compare",), 2, "--compare is given without runs"),
        (("--compare", "nowhere"), 3, "not found"),
        (("IMAGES", "--channels-last", "--device", "cpu"), 2, "--channels-last on the CPU"),
        (("FEATURES", "--amp", "bf16", "--device", "cpu"), 2, "--amp bf16 on the CPU"),
    ],
)
def test_what_bad_input_gets(pdac, features, images, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    names = {"FEATURES": str(features), "IMAGES": str(images), "ONE": "one.h5"}
    with h5py.File(features) as file, h5py.File("one.h5", "w") as one:
        one["features"], one["labels"] = file["features"][:], file["labels"][:] + 1
    found = pdac("train-cl", *(names.get(argument, argument) for argument in arguments))
    assert (found.code, message in found.err) == (code, True), found.err
    assert not Path("runs").exists() or not list(Path("runs").iterdir())  # the corrected command may take the name
    assert found.err.count("\n") <= 2


def test_resume_refuses_other_options(pdac, features, tmp_path):
    out, small = tmp_path / "run", ("--epochs", 1, "--method", "uniform", *SMALL)
    assert pdac("train-cl", features, "-o", out, "--budget", 20, *small).code == 0
    found = pdac("train-cl", features, "-o", out, "--budget", 30, "--resume", *small)
    assert found.code == 2
    assert "budget 20 and not 30" in found.err


@pytest.mark.parametrize("setting", ["offline", "relaxed"])
def test_a_terminated_run_goes_on_to_the_same_end(pdac, images, tmp_path, setting):
    small = ("--setting", setting, "--width", 2, "--epochs", 3, "--budget", 20, *SMALL)
    assert pdac("train-cl", images, "-o", tmp_path / "whole", *small).code == 0
    found = interrupted(14, signal.SIGTERM, "train-cl", images, "-o", tmp_path / "cut", *small)
    assert found.returncode == 6, found.stderr
    assert "add --resume to go on" in found.stderr
    assert (tmp_path / "cut" / {"offline": "pdac", "relaxed": "spdac"}[setting] / "seed-0" / "checkpoint.pt").exists()
    assert pdac("train-cl", images, "-o", tmp_path / "cut", "--resume", *small).code == 0
    for method in {"offline": ("pdac", "uniform"), "relaxed": ("spdac", "er")}[setting]:
        assert outcome(tmp_path / "cut", method) == outcome(tmp_path / "whole", method)
        names = [f"{method}/seed-0/buffer-{task}.json" for task in (1, 2)]
        assert all((tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes() for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [3, 9, 17, 33])
@pytest.mark.parametrize("setting", ["offline", "relaxed"])
def test_a_killed_run_goes_on_to_the_same_end(pdac, images, tmp_path, setting, steps):
    small = ("--setting", setting, "--width", 2, "--epochs", 3, "--budget", 20, *SMALL)
    assert pdac("train-cl", images, "-o", tmp_path / "whole", *small).code == 0
    found = interrupted(steps, signal.SIGKILL, "train-cl", images, "-o", tmp_path / "cut", *small)
    assert found.returncode == -signal.SIGKILL
    assert pdac("train-cl", images, "-o", tmp_path / "cut", "--resume", *small).code == 0
    for method in {"offline": ("pdac", "uniform"), "relaxed": ("spdac", "er")}[setting]:
        assert outcome(tmp_path / "cut", method) == outcome(tmp_path / "whole", method)
    assert not list((tmp_path / "cut").rglob("*.tmp"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["features", "images"])
@pytest.mark.parametrize("setting", ["offline", "online"])
def test_two_processes_learn_as_one(pdac, request, tmp_path, kind, setting):
    """Losses and buffers are those of one process with the joint batch; a run fails where its ranks' buffers differ."""
    data = request.getfixturevalue(kind)
    epochs = () if setting == "online" else ("--epochs", 2)
    width = ("--width", 2) if kind == "images" else ()
    small = ("--setting", setting, *width, "--budget", 20, "--batch", 31, *epochs, *SMALL)
    assert pdac("train-cl", data, "-o", tmp_path / "one", *small).code == 0
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--standalone",
        "-m",
        "pdac_cli",
    ]
    command = [*launcher, "train-cl", data, "-o", tmp_path / "two", *small]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    found = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr[-2000:]
    for method in {"offline": ("pdac", "uniform"), "online": ("spdac", "er")}[setting]:
        one, two = result(tmp_path / "one", method), result(tmp_path / "two", method)
        assert np.allclose(one["losses"][0][:1], two["losses"][0][:1], rtol=1e-5)
        assert np.allclose(one["losses"], two["losses"], rtol=1e-6 if kind == "features" else 2e-2)
        # A network's rounding grows from step to step; features of a file stay as they are.
        if kind == "features" or method in ("uniform", "er"):
            rows = [
                read_index(tmp_path / name / method / "seed-0" / "buffer-2.json").row.tolist()
                for name in ("one", "two")
            ]
            assert rows[0] == rows[1]


def test_k_means_compares_images_themselves_or_what_the_network_makes_of_them(pdac, images, tmp_path):
    """On raw inputs the network has no say: k-means++ of the first task's pixels, whatever the training."""
    rows = {}
    for name, kind, epochs in (("raw", "inputs", 1), ("longer", "inputs", 2), ("features", "features", 1)):
        run = ("train-cl", images, "-o", tmp_path / name, "--method", "kmeans", "--budget", 12, "--width", 2, *SMALL)
        assert pdac(*run, "--kmeans-of", kind, "--epochs", epochs).code == 0
        rows[name] = read_index(tmp_path / name / "kmeans" / "seed-0" / "buffer-1.json").row.tolist()
    assert rows["raw"] == rows["longer"]
    assert rows["raw"] != rows["features"]


def test_a_folder_of_others_is_not_said_to_hold_a_run(pdac, features, tmp_path):
    out = tmp_path / "theirs"
    out.mkdir()
    (out / "notes.txt").write_text("precious")
    found = pdac("train-cl", features, "-o", out, "--method", "uniform", "--force", *SMALL)
    assert found.code == 5
    assert "exists and holds no run of pdac train-cl; expected a new or empty folder" in found.err
    assert "--resume" not in found.err
    assert (out / "notes.txt").read_text() == "precious"

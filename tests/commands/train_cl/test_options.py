"""Options of a continual run that reach the stream, and fewer rows to learn from."""

import json

import h5py
import numpy as np

from pdac_cli.files.index.index_file import read_index
from pdac_cli.rng import Purpose, generator
from tests.commands.train_cl.runs import SMALL

BY_CLASS = ("--density", "class", "--dim", 3, "--components", 2)
STREAM = (*BY_CLASS, "--beta", 0.3, "--step-rows", 1, "--allocation", "joint", "--acceptance", "paper")


def test_the_printed_rule_of_a_stream_is_that_of_pdac_stream(pdac, features, tmp_path):
    """One task in one epoch, its batches taken from a file in the order the run has them."""
    run = tmp_path / "run"
    options = ("--setting", "online", "--method", "spdac", "--tasks", 1, "--budget", 20, *SMALL)
    assert pdac("train-cl", features, "-o", run, *options, *STREAM).code == 0
    with h5py.File(features) as file:
        rows = np.flatnonzero(file["split"][:] == 0)
        rows = rows[generator(0, Purpose.BATCHES, 1, 0).permutation(len(rows))]
        h, y = file["features"][:][rows], file["labels"][:][rows]
    with h5py.File(tmp_path / "ordered.h5", "w") as file:
        file["features"], file["labels"] = h, y
    stream = ("stream", tmp_path / "ordered.h5", "--budget", 20, "-q")
    kept = []
    for given in (STREAM, BY_CLASS):
        assert pdac(*stream, "-o", tmp_path / "b.json", "--force", *given).code == 0
        kept.append(sorted(rows[read_index(tmp_path / "b.json").row].tolist()))
    mine = sorted(read_index(run / "spdac" / "seed-0" / "buffer-1.json").row.tolist())
    assert mine == kept[0]
    assert mine != kept[1]


def test_fewer_rows_of_every_class(pdac, features, tmp_path):
    run = tmp_path / "run"
    code = pdac("train-cl", features, "-o", run, "--method", "uniform", "--rows-per-class", 7, "--budget", 20, *SMALL)
    assert code.code == 0
    found = json.loads((run / "uniform" / "seed-0" / "result.json").read_text())
    assert found["train_rows"] == [14, 14]
    with h5py.File(features) as file:
        y, split = file["labels"][:], file["split"][:]
    first = np.concatenate([np.flatnonzero((y == c) & (split == 0))[:7] for c in np.unique(y)])
    rows = read_index(run / "uniform" / "seed-0" / "buffer-2.json").row
    assert set(rows.tolist()) <= set(first.tolist())
    assert pdac("train-cl", features, "-o", run, "--rows-per-class", 1).code == 2

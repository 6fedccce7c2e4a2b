"""Clusters in the place of classes: what is apart is parted, in whatever order and chunks the rows are read."""

import json

import h5py
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from pdac_cli.console import Silent
from pdac_cli.files.features import open_features
from pdac_cli.options.shared import InputOptions
from pdac_cli.pipeline.clustering import clustered

BLOBS, N, D = 12, 3000, 8


@pytest.fixture(scope="module")
def blobs(tmp_path_factory):
    """Write rows around centres far apart, sorted by centre, with a row that is not finite."""
    rng = np.random.default_rng(0)
    centres = 5 * rng.normal(size=(BLOBS, D))
    true = np.sort(rng.integers(0, BLOBS, N))
    h = centres[true] + 0.1 * rng.normal(size=(N, D))
    path = tmp_path_factory.mktemp("blobs") / "f.h5"
    with h5py.File(path, "w") as file:
        file["features"], file["labels"] = h.astype("f4"), rng.integers(0, 3, N)
    return path, true


def codes(path, clusters=BLOBS, seed=0):
    with open_features(InputOptions(paths=(str(path),), no_labels=True)) as source:
        found = clustered(source, clusters, False, seed, Silent())
        assert found.fingerprint == source.fingerprint
        assert found.label_names is None
        y = np.concatenate([chunk.y for chunk in found.chunks(700)])
        np.testing.assert_array_equal(y, np.concatenate([y for _, y in found.label_chunks(999)]))
        return y


def test_blobs_of_a_sorted_file_are_found(blobs):
    path, true = blobs
    found = codes(path)
    assert adjusted_rand_score(true, found) > 0.95
    np.testing.assert_array_equal(found, codes(path))


def test_the_rows_kept_are_spread_over_the_clusters_whatever_the_chunks(pdac, blobs, tmp_path):
    path, true = blobs
    common = ("select", path, "-n", "60", "--clusters", BLOBS, "--no-normalize", "-q")
    for method in ("pdac",):
        rows = pdac(*common, "--method", method).rows
        assert len(set(rows)) == 60
        again = pdac(*common, "--method", method, "--chunk-rows", "111", "--jobs", "1").rows
        assert rows == again
        assert len(set(true[rows])) >= BLOBS - 1
    assert pdac(*common, "-o", tmp_path / "k.json").code == 0
    assert json.loads((tmp_path / "k.json").read_text())["options"]["clusters"] == BLOBS


def test_rows_that_are_not_finite_are_left_out_of_clusters_too(pdac, blobs, tmp_path):
    with h5py.File(blobs[0]) as file:
        h = file["features"][:]
    h[::500] = np.nan
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["features"] = h
    command = ("select", tmp_path / "f.h5", "-n", "30", "--clusters", "4", "-q")
    assert pdac(*command).code == 3
    rows = pdac(*command, "--drop-nonfinite").rows
    assert len(rows) == 30
    assert np.isfinite(h[rows]).all()


@pytest.mark.parametrize("method", ["least-error", "hardest", "bcsr", "csrel", "greedy", "gcr", "ocs", "pbcs"])
def test_methods_that_tell_classes_apart_need_classes(pdac, blobs, method):
    result = pdac("select", blobs[0], "-n", "5", "--no-labels", "--method", method)
    assert result.code == 2
    assert f"--method {method} keeps the rows that tell classes apart" in result.err
    assert pdac("compare", blobs[0], "-n", "5", "--no-labels", "--methods", method).code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--clusters", "1"], "--clusters is 1; expected at least 2"),
        (["--clusters", "3", "--labels", "y.npy"], "--clusters is given with labels"),
        (["--clusters", "3", "--model", "m.h5"], "--clusters is given with --model"),
        (["--clusters", "5000"], "--clusters is 5,000"),
    ],
)
def test_clusters_that_cannot_be(pdac, tmp_path, arguments, words):
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["features"] = np.eye(9)
    result = pdac("select", tmp_path / "f.h5", "-n", "5", *arguments)
    assert result.code == 2
    assert words in result.err


def test_compare_leaves_them_out_of_all(pdac, blobs):
    result = pdac("compare", blobs[0], "-n", "5", "--no-labels", "--methods", "uniform,herding", "--seeds", "1", "-q")
    assert result.code == 0, result.err
    refused = pdac("compare", blobs[0], "-n", "5", "--no-labels", "--test", blobs[0])
    assert "without labels there is no accuracy" in refused.err

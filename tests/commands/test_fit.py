import h5py
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from pdac_cli.files.results.model import read_model
from tests.conftest import SAMPLE


def test_fit_writes_the_model_of_equations_1_to_9(pdac, tmp_path):
    out = tmp_path / "model.h5"
    result = pdac("fit", SAMPLE, "-o", out, "--dim", 4, "--components", 3, "--seed", 5, "--no-normalize", "--json")
    assert result.code == 0, result.err
    with h5py.File(SAMPLE) as file:
        h, y = file["features"][:].astype("f8"), file["labels"][:]
    stored = read_model(out)
    model = stored.model
    np.testing.assert_array_equal(model.labels, range(10))
    np.testing.assert_array_equal(model.counts, np.bincount(y))
    likelihoods = []
    for c in range(10):
        rows = h[y == c]
        np.testing.assert_allclose(model.mean[c], rows.mean(axis=0), atol=1e-5)
        values = np.linalg.eigvalsh(np.cov(rows.T, bias=True))
        captured = np.trace(model.W[c].T.astype("f8") @ np.cov(rows.T, bias=True) @ model.W[c])
        np.testing.assert_allclose(captured, values[-4:].sum(), rtol=1e-4)
        xi = (rows - rows.mean(axis=0)) @ model.W[c]
        terms = [
            np.log(a) + multivariate_normal(m, s @ s.T).logpdf(xi)
            for a, m, s in zip(model.alpha[c], model.mu[c], model.chol[c], strict=True)
        ]
        likelihoods.append(logsumexp(terms, axis=0))
    np.testing.assert_allclose(result.json["log_likelihood"][-1], np.concatenate(likelihoods).mean(), atol=1e-4)
    assert (np.diff(result.json["log_likelihood"]) > -1e-6).all()
    assert result.json["fingerprint"] == stored.fingerprint
    assert stored.options["dim"] == 4
    assert stored.seed == 5


def test_the_size_printed_is_that_of_the_arrays(pdac, tmp_path):
    out = tmp_path / "model.h5"
    summary = pdac("fit", SAMPLE, "-o", out, "--json").json
    with h5py.File(out) as file:
        assert summary["model_bytes"] == sum(file[name].nbytes for name in ("W", "mu", "chol", "alpha"))
    assert summary["model_bytes"] == 10 * (64 * 10 * 4 + 7 * 10 * 8 + 7 * 100 * 8 + 7 * 8)
    assert out.stat().st_size < 2 * summary["model_bytes"]


def test_the_same_command_gives_the_same_bytes(pdac, tmp_path):
    paths = [tmp_path / "one.h5", tmp_path / "two.h5"]
    for path in paths:
        assert pdac("fit", SAMPLE, "-o", path, "-q").code == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_verbose_shows_the_likelihood_of_each_step(pdac, tmp_path):
    result = pdac("fit", SAMPLE, "-o", tmp_path / "m.h5", "-v", "--iterations", 3)
    assert [line.split()[1] for line in result.err.splitlines() if line.startswith("step")] == ["0", "1", "2", "3"]


def test_tolerance_stops_early(pdac, tmp_path):
    result = pdac("fit", SAMPLE, "-o", tmp_path / "m.h5", "--tol", 0.05, "--iterations", 100, "--json")
    with h5py.File(tmp_path / "m.h5") as file:
        steps = np.isfinite(file["log_likelihood"][:]).sum(axis=1)
    assert (steps < 60).all()
    assert len(set(steps.tolist())) > 1
    assert result.code == 0


def test_small_classes_are_clipped_with_one_warning_each(pdac, tmp_path):
    path = tmp_path / "small.h5"
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file["features"] = np.concatenate([rng.standard_normal((46, 16)), np.ones((4, 16))])
        file["labels"] = np.repeat([0, 1, 2, 5], [40, 5, 1, 4])
    result = pdac("fit", path, "-o", tmp_path / "m.h5", "-q")
    assert result.code == 0
    assert result.err.splitlines() == [
        "warning: flat density for classes 2, 5: one sample, or all samples the same",
        "warning: fewer than --dim 10 directions for class 1: the rank is lower",
        "warning: fewer than --components 7 for classes 1, 2, 5: too few samples",
    ]


def test_a_model_file_holds_plain_arrays_and_its_origin(pdac, tmp_path):
    out = tmp_path / "model.h5"
    pdac("fit", SAMPLE, "-o", out)
    with h5py.File(out) as file:
        assert file.attrs["format"] == b"pdac-model"
        assert file.attrs["version"] == 1
        assert {"pdac_version", "fingerprint", "seed", "options"} <= set(file.attrs)
        assert all(dataset.dtype.kind in "if" for dataset in file.values())


@pytest.mark.parametrize(("damage", "words"), [
    (lambda f: f.attrs.__setitem__("version", 2), "model format version 2; expected 1"),
    (lambda f: f.attrs.__delitem__("format"), "not a model file of pdac"),
    (lambda f: f.__delitem__("mu"), "'mu'"),
    (lambda f: f["alpha"].__setitem__(0, 3.0), "'alpha' holds values no model has"),
    (lambda f: f["chol"].__setitem__((0, 0, 0, 0), np.nan), "'chol' holds values no model has"),
    (lambda f: f["labels"].__setitem__(0, 99), "'labels' holds values no model has"),
    (lambda f: (f.__delitem__("mu"), f.create_dataset("mu", data=np.zeros((10, 7, 3)))), "expected (C, L, d"),
    (lambda f: f.attrs.__setitem__("options", "{"), "attributes are damaged"),
    (lambda f: (f.__delitem__("W"), f.create_dataset("W", (10, 64, 10**9), "f4", chunks=True)), "more than the"),
])  # fmt: skip
def test_a_damaged_model_is_refused(pdac, tmp_path, damage, words):
    out = tmp_path / "model.h5"
    pdac("fit", SAMPLE, "-o", out)
    with h5py.File(out, "r+") as file:
        damage(file)
    result = pdac("select", SAMPLE, "--budget", 50, "--model", out)
    assert result.code == 4
    assert words in result.err
    assert len(result.err.splitlines()) == 1

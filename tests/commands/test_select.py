import json

import h5py
import numpy as np
import pytest

from pdac_cli.density.common_rows import unit_rows
from pdac_cli.files.index.index_file import read_index
from tests.conftest import SAMPLE


@pytest.fixture
def pdac(pdac):
    """The paper's method where a test names none; every method is held to the same in test_methods."""

    def run(*arguments):
        named = {"--method", "--preset"} & set(arguments) or "select" not in arguments
        return pdac(*arguments, *(() if named else ("--method", "pdac")))

    run.plain = pdac  # the command line as it is
    return run


INDEPENDENT = ("--density", "class", "--steer", 0, "--no-normalize")  # draws, as printed


def labels_of(path):
    with h5py.File(path) as file:
        return file["labels"][:]


def test_rows_are_printed_one_a_line_and_everything_else_goes_to_stderr(pdac):
    result = pdac("select", "--budget", 30, SAMPLE)
    assert result.code == 0
    assert len(set(result.rows)) == 30
    assert all(0 <= row < 1797 for row in result.rows)
    assert "kept 30 of 1,797 rows by pdac" in result.err


@pytest.mark.parametrize("suffix", ["txt", "npy", "json", "h5"])
def test_every_index_form_holds_the_rows_that_are_printed(pdac, tmp_path, suffix):
    printed = pdac("select", "--budget", 40, SAMPLE).rows
    out = tmp_path / f"coreset.{suffix}"
    assert pdac("select", "--budget", 40, SAMPLE, "-o", out).code == 0
    if suffix == "txt":
        rows = np.loadtxt(out, dtype=int)
    elif suffix == "npy":
        rows = np.load(out)
    else:
        index = read_index(out)
        rows = index.row
        np.testing.assert_array_equal(index.label, labels_of(SAMPLE)[rows])
        assert np.isfinite(index.log_density).all()
        assert (index.method, index.budget, index.seed) == ("pdac", 40, 0)
        assert index.class_counts == dict(enumerate(np.bincount(index.label).tolist()))
    np.testing.assert_array_equal(rows, printed)


def test_json_and_hdf5_say_that_these_rows_are_kept(pdac, tmp_path):
    pdac("select", "--budget", 10, SAMPLE, "-o", tmp_path / "c.json")
    pdac("select", "--budget", 10, SAMPLE, "-o", tmp_path / "c.h5")
    assert json.loads((tmp_path / "c.json").read_text())["meaning"] == "these rows are kept"
    with h5py.File(tmp_path / "c.h5") as file:
        assert file.attrs["meaning"] == b"these rows are kept"


def test_with_a_model_or_without_the_answer_is_the_same(pdac, tmp_path):
    pdac("fit", SAMPLE, "-o", tmp_path / "m.h5", "--seed", 3)
    fitted = pdac("select", "--budget", 50, SAMPLE, "--seed", 3)
    given = pdac("select", "--budget", 50, SAMPLE, "--seed", 3, "--model", tmp_path / "m.h5")
    assert fitted.rows == given.rows


@pytest.mark.parametrize("how", [(), ("--steer-by", "mean"), ("--steer", 0), ("--density", "class")])
def test_a_model_of_these_rows_changes_nothing_however_they_are_drawn(pdac, tmp_path, how):
    pdac("fit", SAMPLE, "-o", tmp_path / "m.h5")
    wanted, found = tmp_path / "wanted.json", tmp_path / "found.json"
    assert pdac("select", "--budget", 50, SAMPLE, "-o", wanted, *how).code == 0
    assert pdac("select", "--budget", 50, SAMPLE, "-o", found, "--model", tmp_path / "m.h5", *how).code == 0
    for name in ("row", "label", "log_density"):
        np.testing.assert_array_equal(getattr(read_index(found), name), getattr(read_index(wanted), name))


def test_log_densities_in_the_index_are_those_of_the_model(pdac, tmp_path):
    pdac("fit", SAMPLE, "-o", tmp_path / "m.h5", "--dim", 3, "--no-normalize")
    pdac(
        "select", "--budget", 50, SAMPLE, "--model", tmp_path / "m.h5", "-o", tmp_path / "c.json", "--density", "class"
    )
    index = read_index(tmp_path / "c.json")
    with h5py.File(SAMPLE) as file, h5py.File(tmp_path / "m.h5") as m:
        for row, label, log_density in zip(index.row, index.label, index.log_density, strict=True):
            xi = (file["features"][row].astype("f8") - m["mean"][label]) @ m["W"][label]
            p = sum(
                a * np.exp(-0.5 * np.sum(np.linalg.solve(c, xi - mu) ** 2)) / np.prod(np.diag(c)) / (2 * np.pi) ** 1.5
                for a, mu, c in zip(m["alpha"][label], m["mu"][label], m["chol"][label], strict=True)
            )
            np.testing.assert_allclose(log_density, np.log(p * m["counts"][label] / 1797), atol=1e-4)


@pytest.mark.parametrize("allocation", ["per-class", "balanced", "joint"])
def test_allocation_shares_the_budget(pdac, feature_file, allocation, tmp_path):
    path = tmp_path / "skewed.h5"
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file["features"] = rng.standard_normal((1000, 8)) * np.repeat([1.0, 10.0], [750, 250])[:, None]
        file["labels"] = np.repeat([0, 1], [750, 250])
    rows = pdac("select", "--budget", 100, path, "--allocation", allocation, "--dim", 4, *INDEPENDENT).rows
    kept = np.bincount(labels_of(path)[rows], minlength=2).tolist()
    if allocation == "joint":
        assert kept[1] < 10  # densities of the narrow class are far higher
    else:
        assert kept == ([75, 25] if allocation == "per-class" else [50, 50])


def test_temperature_zero_is_uniform(pdac):
    wanted = pdac("select", "--budget", 60, SAMPLE, "--method", "uniform", "--allocation", "balanced").rows
    for density in ("relative", "class"):
        cold = pdac("select", "--budget", 60, SAMPLE, "--temperature", 0, "--steer", 0, "--density", density)
        assert cold.rows == wanted


@pytest.mark.parametrize("how", [
    ["--chunk-rows", 7], ["--chunk-rows", 1000], ["--jobs", 1], ["--jobs", 3], ["--memory", "16M"],
])  # fmt: skip
def test_how_the_work_is_done_does_not_change_a_byte(pdac, tmp_path, how):
    for name, extra in (("one.json", []), ("two.json", how)):
        assert pdac("select", "--budget", 100, SAMPLE, "-o", tmp_path / name, *extra).code == 0
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_how_the_rows_are_split_into_files_does_not_change_the_answer(pdac, tmp_path):
    with h5py.File(SAMPLE) as file:
        h, y = file["features"][:], file["labels"][:]
    for name, part in (("b", slice(0, 500)), ("a", slice(500, 501)), ("c", slice(501, None))):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file.create_dataset("feats", data=h[part], chunks=(1, 64), compression="gzip")
            file["y"] = y[part].astype("u1")
    parts = [tmp_path / f"{name}.h5" for name in "bac"]
    pdac("select", "--budget", 100, SAMPLE, "-o", tmp_path / "one.json")
    pdac("select", "--budget", 100, *parts, "-o", tmp_path / "many.json")
    one, many = (read_index(tmp_path / name) for name in ("one.json", "many.json"))
    np.testing.assert_array_equal(one.row, many.row)
    np.testing.assert_array_equal(one.log_density, many.log_density)
    assert one.sources[0].fingerprint == many.sources[0].fingerprint


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_units_of_the_features_do_not_matter(pdac, feature_file, tmp_path, scale):
    path, scaled = feature_file(dtype="f8"), tmp_path / "scaled.h5"
    with h5py.File(path) as file, h5py.File(scaled, "w") as out:
        out["features"], out["labels"] = file["features"][:] * scale, file["labels"][:]
    assert pdac("select", "--budget", 90, path).rows == pdac("select", "--budget", 90, scaled).rows


def test_seeds_differ_and_repeat(pdac):
    one, again, other = (pdac("select", "--budget", 50, SAMPLE, "--seed", s).rows for s in (1, 1, 2))
    assert one == again != other


def test_dropped_and_ignored_rows_are_never_chosen_and_ids_stay(pdac, feature_file):
    path = feature_file()
    with h5py.File(path, "r+") as file:
        file["features"][10] = np.nan
        file["features"][11, 3] = np.inf
        ignored = set(np.flatnonzero(file["labels"][:] == 1).tolist())
    refused = pdac("select", "--budget", 600, path)
    assert refused.code == 3
    result = pdac("select", "--budget", 600, path, "--drop-nonfinite", "--ignore-label", 1)
    assert result.code == 0
    assert set(result.rows) == set(range(600)) - ignored - {10, 11}


def test_a_summary_as_json_with_and_without_an_output(pdac, tmp_path):
    printed = pdac("select", "--budget", 20, SAMPLE, "--json").json
    assert len(printed["indices"]) == printed["kept"] == 20
    assert {line["label"] for line in printed["per_class"]} == set(range(10))
    written = pdac("select", "--budget", 20, SAMPLE, "--json", "-o", tmp_path / "c.json").json
    assert written["indices"] is None
    assert written["output"] == str(tmp_path / "c.json")


def test_a_thin_effective_sample_size_is_a_warning_with_flags_to_try(pdac, tmp_path):
    path = tmp_path / "peaked.h5"
    rng = np.random.default_rng(0)
    h = np.concatenate([rng.standard_normal((50, 8)) * 1e-3, rng.standard_normal((450, 8))])
    with h5py.File(path, "w") as file:
        file["features"], file["labels"] = h, np.zeros(500, int)
    result = pdac("select", "--budget", 200, path, "--dim", 4, "--json", *INDEPENDENT)
    size = result.json["per_class"][0]["effective_size"]
    assert size < 100
    assert f"class 0: {size:.1f} for 200 rows" in result.err
    assert "try --ridge 0.1 or --temperature 0.25" in result.err
    pdac("fit", path, "-o", tmp_path / "m.h5", "--dim", 4, "--no-normalize")
    by_model = pdac("select", "--budget", 200, path, "--model", tmp_path / "m.h5", *INDEPENDENT[:4], "--temperature", 2)
    assert "try --temperature 0.25, or a model that pdac fit makes with --ridge 0.1" in by_model.err
    relative = pdac("select", "--budget", 1, SAMPLE, "--steer", 0, "--temperature", 30, "-q").err
    assert "--ridge" not in relative
    assert not pdac("select", "--budget", 200, path, "--method", "uniform", "-q").err


def test_the_papers_rule_is_one_flag_away_and_no_option_changes_the_method(pdac, tmp_path):

    def made(*options):
        out = tmp_path / "c.json"
        assert pdac.plain("select", "--budget", 30, SAMPLE, "-o", out, "--force", *options).code == 0
        index = read_index(out)
        return index.method, index.options["allocation"], index.options["eviction"], index.row.tolist()

    printed = ("--density", "class", "--steer", 0, "--no-normalize")

    default, paper = made(), made("--preset", "paper")
    assert default[:3] == ("pdac", "balanced", "steered")
    assert paper[:3] == ("pdac", "joint", "paper")
    assert paper[3] == made(*printed, "--units", "absolute", "--allocation", "joint")[3]
    assert made("--preset", "paper", "--allocation", "per-class")[:3] == ("pdac", "per-class", "paper")
    assert made("--preset", "paper", "--method", "uniform")[0] == "uniform"
    for option in (("--temperature", 1), ("--steer-by", "error"), ("--steer", 30), ("--density", "relative")):
        assert made(*option) == default
    for option in (("--steer-by", "mean"), ("--steer", 0), ("--density", "class"), ("--task", 1)):
        assert made(*option)[-1] != default[-1]
    assert made("--task", 1) == made("--steer-by", "mean")


def test_normalize_is_the_same_as_rows_of_length_one(pdac, tmp_path):
    """In the fit, with a model that was fitted so, and only for the density."""
    with h5py.File(SAMPLE) as file, h5py.File(tmp_path / "unit.h5", "w") as out:
        out["features"], out["labels"] = unit_rows(file["features"][:]), file["labels"][:]
    density = ("--density", "class", "--steer", 0)
    wanted = pdac("select", "--budget", 50, tmp_path / "unit.h5", "--no-normalize", *density).rows
    assert pdac("select", "--budget", 50, SAMPLE, "--normalize", "--chunk-rows", 99, *density).rows == wanted
    assert pdac("select", "--budget", 50, SAMPLE, "--no-normalize", *density).rows != wanted
    assert pdac("fit", SAMPLE, "-o", tmp_path / "m.h5", "--normalize").code == 0
    assert pdac("select", "--budget", 50, SAMPLE, "--model", tmp_path / "m.h5", *density).rows == wanted


def test_rows_of_length_one():
    rng = np.random.default_rng(0)
    h = rng.standard_normal((5, 3)) * [[1e-200], [1], [1e200], [0], [3]]
    np.testing.assert_allclose(np.linalg.norm(unit_rows(h), axis=1), [1, 1, 1, 0, 1])
    assert unit_rows(np.ones((2, 2), "f2")).dtype == np.float32
    assert len(unit_rows(np.empty((0, 4)))) == 0


@pytest.mark.parametrize("suffix", [".json", ".h5"])
def test_suspect_labels_are_reported_and_recorded(pdac, tmp_path, suffix):
    rng = np.random.default_rng(0)
    with h5py.File(SAMPLE) as file:
        h, y = file["features"][:], file["labels"][:]
    wrong = rng.random(len(y)) < 0.2
    labels = np.where(wrong, (y + rng.integers(1, 10, len(y))) % 10, y)
    path, out = tmp_path / "wrong.h5", tmp_path / f"c{suffix}"
    with h5py.File(path, "w") as file:
        file["features"], file["labels"] = h, labels
    result = pdac("select", "--budget", 100, path, "-o", out)
    line = next(line for line in result.err.splitlines() if line.startswith("suspect labels: "))
    found = read_index(out).suspects
    assert f"suspect labels: {len(found.row):,} rows" in line
    worst = np.bincount(labels[found.row]).argmax()
    likely = np.bincount(found.likely[labels[found.row] == worst]).argmax()
    assert f"most in class {worst}, likely class {likely}" in line
    truly = labels[found.row] != y[found.row]
    assert truly.mean() > 0.9
    assert (found.likely[truly] == y[found.row][truly]).mean() > 0.9
    assert found.share == pytest.approx((labels != y).mean(), abs=0.05)
    kept = np.isin(read_index(out).row, found.row).sum()
    assert f"{kept} of them kept" in line
    assert pdac("select", "--budget", 20, path, "--json").json["suspects"]["rows"] == len(found.row)


def test_clean_labels_are_not_suspected(pdac):
    result = pdac("select", "--budget", 100, SAMPLE, "--json").json
    assert result["suspects"]["rows"] < 20


@pytest.mark.parametrize("method", ["pdac", "least-error"])
def test_many_features_are_compared_in_fewer_directions(pdac, feature_file, tmp_path, method):
    """Said once; the same rows for any chunks and, by a model, from arrays of so many directions."""
    path = feature_file(n=60, dim=2100)
    whole = pdac.plain("select", path, "--budget", 12, "--method", method)
    assert whole.err.count("note: 2,100 features are compared in 1,024 directions") == 1
    chunked = ("--chunk-rows", 7, "--memory", "64M", "--jobs", 1)
    assert pdac("select", path, "--budget", 12, "--method", method, *chunked).rows == whole.rows
    if method == "pdac":
        assert pdac("fit", path, "-o", tmp_path / "m.h5", *chunked).code == 0
        with h5py.File(tmp_path / "m.h5") as file:
            assert file["common_scatter"].shape == (1024, 1024)
        assert pdac("select", path, "--budget", 12, "--model", tmp_path / "m.h5").rows == whole.rows


def test_images_are_pointed_to_extract(pdac, tmp_path):
    with h5py.File(tmp_path / "i.h5", "w") as file:
        file["images"], file["labels"] = np.zeros((4, 8, 8), "u1"), np.arange(4) % 2
    found = pdac("select", tmp_path / "i.h5", "-n", 2)
    assert found.code == 3
    assert "holds 'images' and no features" in found.err
    assert "run pdac extract --data" in found.err

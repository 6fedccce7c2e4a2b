"""Every method of the table from the command line: files, memory, threads, heads and buffers."""

import subprocess
import sys

import h5py
import numpy as np
import pytest

from pdac_cli.files.index.index_file import read_index
from pdac_cli.options.select import Allocation
from pdac_cli.selection.methods import METHODS
from tests.conftest import SAMPLE
from tests.oracles import clustered

N, BUDGET = 300, 24
pytestmark = pytest.mark.usefixtures("few_steps")


@pytest.fixture
def with_logits(tmp_path):
    """A small feature file with the logits of an imperfect head."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(N) % 3)
    path = tmp_path / "feats.h5"
    with h5py.File(path, "w") as file:
        file["features"] = (clustered(N, 12, 3) + y[:, None]).astype("f4")
        file["labels"] = y
        file["logits"] = (rng.standard_normal((N, 3)) + 2 * np.eye(3)[y]).astype("f4")
    return path


@pytest.mark.parametrize("name", METHODS)
def test_how_the_work_is_done_does_not_change_a_byte(pdac, with_logits, tmp_path, name):
    def chosen(file, *how):
        result = pdac("select", "--budget", BUDGET, with_logits, "--method", name, "-o", file, *how)
        assert result.code == 0, result.err
        return file.read_bytes()

    one = chosen(tmp_path / "one.json")
    assert chosen(tmp_path / "two.json", "--chunk-rows", 7, "--jobs", 1) == one
    assert chosen(tmp_path / "three.json", "--jobs", 3) == one


@pytest.mark.parametrize("name", METHODS)
def test_how_the_rows_are_split_into_files_does_not_change_the_answer(pdac, with_logits, tmp_path, name):
    with h5py.File(with_logits) as file:
        columns = {key: file[key][:] for key in ("features", "labels", "logits")}
    for part, where in (("b", slice(0, 120)), ("a", slice(120, 121)), ("c", slice(121, None))):
        with h5py.File(tmp_path / f"{part}.h5", "w") as file:
            for key, column in columns.items():
                file[key] = column[where]
    parts = [tmp_path / f"{part}.h5" for part in "bac"]
    one = pdac("select", "--budget", BUDGET, with_logits, "--method", name)
    many = pdac("select", "--budget", BUDGET, *parts, "--method", name)
    assert one.rows == many.rows


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.needs_logits])
def test_missing_logits_are_an_error_that_names_the_head_which_then_does(pdac, tmp_path, name):
    with h5py.File(SAMPLE) as file, h5py.File(tmp_path / "plain.h5", "w") as out:
        out["features"], out["labels"] = file["features"][:90], file["labels"][:90] % 2
    refused = pdac("select", "--budget", 8, tmp_path / "plain.h5", "--method", name)
    assert refused.code == 3
    assert f"has no logits and --method {name} needs them" in refused.err
    assert "--head" in refused.err
    trained = pdac("select", "--budget", 8, tmp_path / "plain.h5", "--method", name, "--head")
    assert trained.code == 0, trained.err
    assert "--head: trained a linear head on 90 rows by logistic regression" in trained.err
    again = pdac("select", "--budget", 8, tmp_path / "plain.h5", "--method", name, "--head", "--chunk-rows", 13)
    assert len(set(trained.rows)) == 8
    assert trained.rows == again.rows


def test_a_head_needs_two_classes_and_logits_a_column_for_every_label(pdac, tmp_path):
    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / "one.h5", "w") as file:
        file["features"], file["labels"] = rng.standard_normal((20, 3)), np.zeros(20, int)
    refused = pdac("select", "--budget", 5, tmp_path / "one.h5", "--method", "hardest", "--head")
    assert refused.code == 3
    assert "at least two classes" in refused.err
    with h5py.File(tmp_path / "few.h5", "w") as file:
        file["features"], file["labels"] = rng.standard_normal((20, 3)), np.arange(20) % 4
        file["logits"] = rng.standard_normal((20, 3))
    refused = pdac("select", "--budget", 5, tmp_path / "few.h5", "--method", "hardest")
    assert refused.code == 3
    assert "'logits' has 3 columns and there is a label 3" in refused.err


def test_a_file_larger_than_memory_gives_the_same_answer(pdac, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(6000) % 4
    with h5py.File(tmp_path / "wide.h5", "w") as file:  # 12 MB, of which 16M keep 8 in memory
        file["features"] = rng.standard_normal((6000, 512)).astype("f4") + y[:, None]
        file["labels"] = y
    for name in ("kcenter", "kmeans", "herding"):
        roomy, tight = (
            pdac("select", "--budget", 12, tmp_path / "wide.h5", "--method", name, "--memory", size)
            for size in ("1G", "16M")
        )
        assert roomy.rows == tight.rows


@pytest.mark.parametrize("name", METHODS)
def test_earlier_tasks_shrink_as_the_method_says(pdac, with_logits, tmp_path, name):
    """Ordered lists keep their beginning, scores and densities keep the best more often, the rest is random."""
    second = tmp_path / "second.h5"
    with h5py.File(with_logits) as file, h5py.File(second, "w") as out:
        out["features"], out["labels"], out["logits"] = file["features"][:] + 1, file["labels"][:], file["logits"][:]
    method = ["--method", name]
    pdac("select", "--budget", 40, with_logits, *method, "-o", tmp_path / "1.h5")
    result = pdac("select", "--budget", 40, second, *method, "--buffer", tmp_path / "1.h5", "-o", tmp_path / "2.h5")
    assert result.code == 0, result.err
    before, after = (read_index(tmp_path / f"{t}.h5") for t in (1, 2))
    stayed = after.row[after.task == 1].tolist()
    assert len(stayed) == 20
    assert [row for row in before.row.tolist() if row in stayed] == stayed
    how = METHODS[name].evict
    assert (before.score is not None) == (how in ("score", "density"))
    if how == "order" and METHODS[name].allocation is Allocation.JOINT:  # others keep every class's beginning
        assert stayed == before.row[:20].tolist()
    if how == "order":
        for label in np.unique(before.label):
            mine = before.row[before.label == label].tolist()
            kept = [row for row in mine if row in stayed]
            assert mine[: len(kept)] == kept
    if how == "score":
        np.testing.assert_array_equal(after.score[after.task == 1], before.score[np.isin(before.row, stayed)])
        assert before.score[np.isin(before.row, stayed)].mean() >= before.score.mean()


def test_a_score_is_in_both_forms_and_old_indices_have_none(pdac, with_logits, tmp_path):
    for suffix in ("json", "h5"):
        for name in ("hardest", "kcenter"):
            out = tmp_path / f"{name}.{suffix}"
            pdac("select", "--budget", BUDGET, with_logits, "--method", name, "-o", out)
    hard = [read_index(tmp_path / f"hardest.{suffix}") for suffix in ("json", "h5")]
    np.testing.assert_array_equal(hard[0].score, hard[1].score)
    assert (np.diff(hard[0].score) <= 0).all()
    assert b'"score"' not in (tmp_path / "kcenter.json").read_bytes()
    assert read_index(tmp_path / "kcenter.h5").score is None


def test_a_broken_score_is_refused(pdac, with_logits, tmp_path):
    out = tmp_path / "c.json"
    pdac("select", "--budget", 5, with_logits, "--method", "hardest", "-o", out)
    out.write_text(out.read_text().replace('"score": ', '"score": "x", "was": ', 1))
    refused = pdac("select", "--budget", 5, SAMPLE, "--method", "uniform", "--buffer", out)
    assert refused.code == 3
    assert "'score' of kept row 0 is a str; expected a number or null" in refused.err


def test_methods_without_a_head_load_no_scikit_learn(with_logits):
    code = (
        "import sys\nfrom pdac_cli import cli\nsys.argv = ['pdac', *sys.argv[1:]]\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    print('LOADED', *sys.modules)"
    )
    arguments = ["select", "--budget", "5", str(with_logits), "--method", "kcenter"]
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert not {"sklearn", "torch"} & set(result.stdout.split("LOADED")[1].split())


def test_ocs_compares_new_rows_with_the_stored_ones_where_it_can(pdac, with_logits, tmp_path):
    second = tmp_path / "second.h5"
    with h5py.File(with_logits) as file, h5py.File(second, "w") as out:
        out["features"], out["labels"], out["logits"] = -file["features"][:], file["labels"][:], file["logits"][:]
    pdac("select", "--budget", 40, with_logits, "--method", "ocs", "-o", tmp_path / "1.json")
    alone = pdac("select", "--budget", 20, second, "--method", "ocs").rows
    shrink = ["select", "--budget", 40, second, "--method", "ocs", "--buffer", tmp_path / "1.json"]
    both = pdac(*shrink)
    assert "warning" not in both.err
    new = [int(line.split("\t")[1]) for line in both.out.splitlines() if line.startswith("2\t")]
    assert len(new) == 20
    assert new != alone
    with_logits.rename(tmp_path / "gone.h5")
    without = pdac(*shrink)
    assert without.code == 0
    assert "goes on without comparing new rows with the stored ones" in without.err
    assert [int(line.split("\t")[1]) for line in without.out.splitlines() if line.startswith("2\t")] == alone

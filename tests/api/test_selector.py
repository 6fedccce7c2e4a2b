"""Rows of every kind give the same selection; samplers of imbalanced-learn; what is refused, and in which words."""

import subprocess
import sys

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from imblearn.pipeline import make_pipeline
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from pdac_cli import CoresetSelector, FeatureSet, InputError, ParameterError, PdacError, PdacWarning, select_coreset
from tests.oracles import clustered

BUDGET = 20


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(300) % 3)
    return (clustered(300, 8, 3) + y[:, None]).astype(np.float32), y


@pytest.fixture(scope="module")
def told(rows):
    return select_coreset(*rows, BUDGET)


@pytest.fixture
def on_disk(rows, tmp_path):
    X, y = rows
    np.save(tmp_path / "x.npy", X)
    with h5py.File(tmp_path / "feats.h5", "w") as file:
        file.create_dataset("features", data=X, chunks=(32, 8))
        file["labels"] = y
    return tmp_path


KINDS = {
    "lists": lambda X, y: (X.tolist(), y.tolist()),
    "fortran": lambda X, y: (np.asfortranarray(X), y.astype(np.uint8)),
    "big endian": lambda X, y: (X.astype(">f4"), y.astype(">i8")),
    "pandas": lambda X, y: (pd.DataFrame(X, columns=list("abcdefgh")), pd.Series(y)),
    "categories": lambda X, y: (X, pd.Series(y).astype("category")),
    "torch": lambda X, y: (torch.from_numpy(X), torch.from_numpy(y)),
    "torch with a gradient": lambda X, y: (torch.from_numpy(X).requires_grad_(), y),
    "column of labels": lambda X, y: (X, y[:, None]),
    "whole numbers as floats": lambda X, y: (X, y.astype(float)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_in_memory_of_any_kind(rows, told, kind):
    X, y = KINDS[kind](*rows)
    dtype = np.asarray(X.detach() if hasattr(X, "detach") else X).dtype
    expected = told if dtype.itemsize == 4 else select_coreset(rows[0].astype(float), rows[1], BUDGET)
    np.testing.assert_array_equal(select_coreset(X, y, BUDGET), expected)
    np.testing.assert_array_equal(CoresetSelector(budget=BUDGET).fit(X, y).ranking_, expected)


def test_half_precision_tensors_are_taken(rows):
    X, y = torch.from_numpy(rows[0]), rows[1]
    for dtype, array in ((torch.float16, X.half().numpy()), (torch.bfloat16, X.bfloat16().float().numpy())):
        np.testing.assert_array_equal(select_coreset(X.to(dtype), y, BUDGET), select_coreset(array, y, BUDGET))


def test_tensors_are_taken_without_torch_being_imported_by_us():
    script = (
        "import sys\n"
        "class Tensor:\n"
        "    def __init__(self, a): self.a = a\n"
        "    def detach(self): return self\n"
        "    def cpu(self): return self\n"
        "    dtype = 'tensor.float32'\n"
        "    def __array__(self, dtype=None, copy=None): return self.a\n"
        "import numpy as np\n"
        "from pdac_cli import CoresetSelector\n"
        "rng = np.random.default_rng(0)\n"
        "CoresetSelector(budget=4).fit(Tensor(rng.normal(size=(30, 3))), Tensor(np.arange(30) % 2))\n"
        "print('torch' in sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"


@pytest.mark.parametrize("memory", [None, "16M"])
def test_rows_on_disk_are_read_by_slices(rows, told, on_disk, memory, monkeypatch):
    X, y = rows
    mapped = np.load(on_disk / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(CoresetSelector(budget=BUDGET, memory=memory).fit(mapped, y).ranking_, told)
    with h5py.File(on_disk / "feats.h5") as file:
        largest = []
        read = h5py.Dataset.__getitem__

        def watched(self, part, **more):
            found = read(self, part, **more)
            largest.append(np.asarray(found).size)
            return found

        monkeypatch.setattr(h5py.Dataset, "__getitem__", watched)
        selector = CoresetSelector(budget=BUDGET, memory=memory, options={"chunk_rows": 64})
        np.testing.assert_array_equal(selector.fit(file["features"], file["labels"][:]).ranking_, told)
        assert max(largest) <= 64 * 8
        kept, labels = selector.fit_resample(file["features"], y)
    np.testing.assert_array_equal(kept, X[np.sort(told)])
    np.testing.assert_array_equal(labels, y[np.sort(told)])


def test_files_are_rows(rows, told, on_disk):
    X, y = rows
    path = on_disk / "feats.h5"
    for given in (path, str(path)):
        np.testing.assert_array_equal(select_coreset(given, budget=BUDGET), told)
    with FeatureSet(path) as files:
        kept, labels = CoresetSelector(budget=BUDGET).fit_resample(files)
        assert files.n == 300
        np.testing.assert_array_equal(files.read_rows(told).h, X[told])  # it is still open
    np.testing.assert_array_equal(kept, X[np.sort(told)])
    np.testing.assert_array_equal(labels, y[np.sort(told)])
    with FeatureSet(path, ignore_label=2) as files:
        assert set(y[select_coreset(files, budget=BUDGET)]) == {0, 1}
    with pytest.raises(InputError, match="y is given, and X is feature files"):
        select_coreset(path, y, BUDGET)


def test_rows_left_out_of_files_are_warned_of(rows, tmp_path):
    X, y = rows[0].copy(), rows[1]
    X[5] = np.nan
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["features"], file["labels"] = X, y
    with pytest.raises(InputError, match="leave such rows out with drop_nonfinite=True"):
        select_coreset(tmp_path / "f.h5", budget=BUDGET)
    with FeatureSet(tmp_path / "f.h5", drop_nonfinite=True) as files, pytest.warns(PdacWarning, match="1 of 300 rows"):
        assert 5 not in select_coreset(files, budget=299)


@pytest.mark.parametrize("names", [["ant", "bee", "cat"], [-1, 5, 7], [b"x", b"y", b"z"]])
def test_labels_of_any_kind_come_back_as_they_were(rows, told, names):
    X, y = rows
    labels = np.array(names)[y]
    selector = CoresetSelector(budget=BUDGET).fit(X, labels)
    np.testing.assert_array_equal(selector.buffer_.labels, labels[selector.ranking_])
    assert set(selector.suspect_labels_.tolist()) <= set(labels.tolist())
    np.testing.assert_array_equal(selector.fit_resample(X, labels)[1], labels[selector.sample_indices_])


def test_wrong_labels_are_suspects(rows):
    X, y = rows
    wrong = np.arange(0, 300, 10)
    noisy = y.copy()
    noisy[wrong] = (y[wrong] + 1) % 3
    selector = CoresetSelector(budget=BUDGET).fit(X * [[3.0]], noisy)
    found = dict(zip(selector.suspects_.tolist(), selector.suspect_labels_.tolist(), strict=True))
    assert all(found[row] != noisy[row] for row in found)
    assert len(selector.scores_) == BUDGET


def test_without_labels_all_rows_are_of_one_class(rows):
    X, _ = rows
    np.testing.assert_array_equal(select_coreset(X, None, BUDGET), select_coreset(X, np.zeros(300, int), BUDGET))


def test_a_pipeline_of_imbalanced_learn_trains_on_what_is_kept(rows):
    X, y = rows
    pipe = make_pipeline(StandardScaler(), CoresetSelector(budget=30), LogisticRegression()).fit(X, y)
    scaled = StandardScaler().fit(X)
    kept, labels = CoresetSelector(budget=30).fit_resample(scaled.transform(X), y)
    alone = LogisticRegression().fit(kept, labels)
    np.testing.assert_array_equal(pipe.predict(X), alone.predict(scaled.transform(X)))
    assert pipe.score(X, y) > 0.5
    table, series = CoresetSelector(budget=30).fit_resample(pd.DataFrame(X), pd.Series(y))
    assert isinstance(table, pd.DataFrame)
    assert table.index.tolist() == series.index.tolist()
    tensor, _ = CoresetSelector(budget=30).fit_resample(torch.from_numpy(X), torch.from_numpy(y))
    assert isinstance(tensor, torch.Tensor)
    assert tensor.shape == (30, 8)


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.coo_matrix])
def test_sparse_rows_are_refused_by_a_sentence(rows, make):
    for refused in (lambda X: select_coreset(X, rows[1], 5), lambda X: CoresetSelector(budget=5).fit(X, rows[1])):
        with pytest.raises(TypeError, match=r"sparse input is not supported: .*; pass X.toarray\(\) if it fits"):
            refused(make(rows[0]))


@pytest.mark.parametrize(("change", "message"), [
    (lambda X, y: (X[:0], y[:0]), "expected at least one row"),
    (lambda X, y: (X[:, 0], y), r"X has 1 dimensions \(300,\); expected two"),
    (lambda X, y: (X, y[:9]), "y has 9 labels, X has 300 rows; expected as many"),
    (lambda X, y: (np.where(X[7, 3] == X, np.inf, X), y), "X has NaN or infinity in row 7; expected finite numbers"),
    (lambda X, y: (X, y + 0.5), "Unknown label type: y has fractions"),
    (lambda X, y: (X, np.eye(3)[y]), "expected one label per row"),
    (lambda X, y: (X.astype(str), y), "X is of type <U32; expected real numbers"),
    (lambda X, y: (X + 1j, y), "X is of type complex64"),
    (lambda X, y: ("no-such.h5", None), "no-such.h5: not found"),
])  # fmt: skip
def test_rows_that_cannot_be_used_are_refused(rows, change, message):
    with pytest.raises(InputError, match=message):
        select_coreset(*change(*rows), 5)


def test_errors_are_of_both_worlds_and_name_parameters(rows):
    X, y = rows
    with pytest.raises(ParameterError, match=r"^budget is 0; expected at least 1 row to keep$") as problem:
        CoresetSelector(budget=0).fit(X, y)
    assert isinstance(problem.value, ValueError)
    assert isinstance(problem.value, PdacError)
    for given, message in (
        ({"method": "pdca"}, r"method is 'pdca'; expected one of: .*; did you mean pdac\?"),
        ({"allocation": "joint"}, "allocation='joint' draws from all classes at once, and steer works within classes; "
         "expected steer=0 with it, or allocation='balanced'"),
        ({"options": {"bandwith": 1}}, "options has 'bandwith'; expected some of: .*; did you mean bandwidth?"),
        ({"options": {"steer": 1.0}, "steer": 2.0}, "steer is given twice"),
        ({"method": "hardest"}, "needs them; .*; add head=True to train"),
        ({"head": "yes"}, "head is 'yes'; expected True or False"),
        ({"options": {"output": "x.json"}}, "options has 'output'"),
    ):  # fmt: skip
        with pytest.raises(PdacError, match=message):
            CoresetSelector(**{"budget": 5, **given}).fit(X, y)
    with pytest.warns(PdacWarning, match="^budget is 900 and there are 300 usable rows; all are kept$"):
        assert len(select_coreset(X, y, 900)) == 300
    with pytest.raises(InputError, match=r"^budget is 900 .*; strict=True expects at least"):
        select_coreset(X, y, 900, strict=True)


def test_nothing_is_printed(rows, capfd):
    select_coreset(*rows, BUDGET, method="gcr", head=True)
    CoresetSelector(budget=BUDGET).fit(*rows)
    assert capfd.readouterr() == ("", "")


def test_rows_and_labels_are_left_as_they_are(rows):
    X, y = rows[0].copy(), rows[1].copy()
    X.flags.writeable = y.flags.writeable = False
    select_coreset(X, y, BUDGET)
    np.testing.assert_array_equal(X, rows[0])


def test_tasks_after_a_fit_begin_anew_with_a_warning(rows):
    X, y = rows
    selector = clone(CoresetSelector(budget=BUDGET)).fit(X, y)
    with pytest.warns(PdacWarning, match="what fit found is forgotten"):
        selector.partial_fit(X[:150], y[:150])
    selector.partial_fit(X[150:], y[150:])
    assert np.unique(selector.buffer_.task).tolist() == [1, 2]
    with pytest.raises(ParameterError, match="has this feature file already"):
        selector.partial_fit(X[150:], y[150:])

"""`pdac stream` by the methods that need features and logits only."""

import h5py
import numpy as np
import pytest

from pdac_cli.commands.stream import runner as stream_run
from pdac_cli.files.index.index_file import read_index
from pdac_cli.selection.gradients import residuals, total_gradient
from pdac_cli.selection.streams import gss
from tests.oracles import clustered
from tests.processes import Killed

ABLE = ("er", "gss", "aser")


@pytest.fixture
def two_tasks(tmp_path, monkeypatch):
    """Two files in turn: two classes, then a third one, with logits of a network that knows none of them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, y in (("a.h5", rng.integers(0, 2, 300)), ("b.h5", np.full(200, 2))):
        with h5py.File(name, "w") as file:
            file["features"] = (clustered(len(y), 12, 3, seed=1) + 2 * y[:, None] + 3).astype("f4")
            file["labels"], file["logits"] = y, 0.1 * rng.standard_normal((len(y), 3))
    return tmp_path


@pytest.mark.parametrize("method", ABLE)
def test_a_stream_in_one_call_or_in_two_and_stopped_anywhere_keeps_the_same(pdac, two_tasks, monkeypatch, method):
    common = ("--budget", 40, "--method", method, "-q")
    found = pdac("stream", "a.h5", "b.h5", "-o", "whole.json", "--state", "whole.h5", *common)
    assert found.code == 0, found.err
    take, taken = stream_run.Stream.take, []

    def dying(self, *rest):
        taken.append(1)
        if len(taken) % 4 == 0:
            raise Killed
        take(self, *rest)

    monkeypatch.setattr(stream_run.Stream, "take", dying)
    for files in (("a.h5",), ("a.h5", "b.h5")):
        for _ in range(60):
            try:
                assert pdac("stream", *files, "-o", "b.json", "--state", "s.h5", "--state-every", 32, *common).code == 0
                break
            except Killed:
                continue
    assert len(taken) > 20
    assert (two_tasks / "b.json").read_bytes() == (two_tasks / "whole.json").read_bytes()
    assert (two_tasks / "s.h5").read_bytes() == (two_tasks / "whole.h5").read_bytes()
    index = read_index(two_tasks / "b.json")
    assert len(index.row) == 40
    assert set(index.task.tolist()) == {1, 2}
    assert len({(task, row) for task, row in zip(index.task, index.row, strict=True)}) == 40


def test_gss_takes_its_gradients_from_the_files_logits(pdac, two_tasks):
    """The scores of the first batch after the buffer has rows, by hand."""
    assert pdac("stream", "a.h5", "-o", "b.json", "--method", "gss", "--budget", 300, "--batch", 10).code == 0
    index = read_index(two_tasks / "b.json")
    with h5py.File("a.h5") as file:
        h, y, z = (file[name][:20].astype("f8") for name in ("features", "labels", "logits"))
    e = residuals(z.astype("f4"), y.astype(int))
    drawn = total_gradient(h[:10], e[:10])[None]  # ten stored rows are one batch, whatever their order
    np.testing.assert_allclose(index.score[:10], 0.1)
    np.testing.assert_allclose(index.score[10:20], gss.cosines(h[10:], e[10:], drawn)[:, 0], rtol=1e-5)


@pytest.mark.parametrize(("method", "code", "words"), [
    ("er-mir", 2, "needs the losses after a virtual step, and pdac stream has no network that learns; expected one of"),
    ("metasp", 2, "for metasp use pdac train-cl --setting online"),
    ("mir", 2, "mir"),
    ("gss", 3, "has no 'logits' beside its features, and --method gss needs them"),
])  # fmt: skip
def test_a_method_that_cannot_be_is_refused(pdac, tmp_path, feature_file, monkeypatch, method, code, words):
    path = feature_file()
    monkeypatch.chdir(tmp_path)
    found = pdac("stream", "--budget", 30, path.name, "-o", "b.json", "--state", "s.h5", "--method", method)
    assert (found.code, words in found.err) == (code, True), found.err
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_models_are_for_methods_with_densities(pdac, two_tasks):
    found = pdac("stream", "--budget", 30, "a.h5", "-o", "b.json", "--method", "aser", "--model", "m.h5")
    assert found.code == 2
    assert "--model has no effect on this run; it belongs to the method spdac" in found.err


def test_logits_must_be_those_of_the_stream_and_have_a_column_for_every_label(pdac, two_tasks):
    common = ("stream", "--budget", 30, "--method", "gss", "-o", "b.json", "--state", "s.h5")
    with h5py.File("wide.h5", "w") as wide, h5py.File("narrow.h5", "w") as narrow, h5py.File("a.h5") as source:
        for file, columns in ((wide, 5), (narrow, 1)):
            file["features"], file["labels"] = source["features"][:] + 1, source["labels"][:]
            file["logits"] = np.zeros((300, columns))
    found = pdac(*common, "narrow.h5")
    assert (found.code, "'logits' has 1 columns and there is a label 1" in found.err) == (3, True), found.err
    (two_tasks / "s.h5").unlink(missing_ok=True)
    assert pdac(*common, "a.h5").code == 0
    found = pdac(*common, "wide.h5")
    assert (found.code, "has 5 logits, the stream has 3" in found.err) == (3, True), found.err
    assert pdac(*common, "b.h5").code == 0


def test_logits_beside_names_for_labels_are_refused(pdac, two_tasks):
    with h5py.File("a.h5") as source, h5py.File("named.h5", "w") as file:
        file["features"], file["logits"] = source["features"][:], source["logits"][:]
        file["labels"] = np.array([b"zebra", b"ant"])[source["labels"][:]]
    found = pdac("stream", "--budget", 30, "--method", "gss", "named.h5", "-o", "b.json")
    assert (found.code, "expected labels as numbers" in found.err) == (3, True), found.err


def test_a_state_of_another_method_or_setting_is_refused(pdac, two_tasks):
    common = ("stream", "--budget", 30, "a.h5", "-o", "b.json", "--state", "s.h5", "--method")
    assert pdac(*common, "aser").code == 0
    assert "begun with method aser and not er" in pdac(*common, "er").err
    assert "begun with neighbours 3 and not 5" in pdac(*common, "aser", "--neighbours", 5).err


def test_a_file_without_a_usable_row_is_no_traceback(pdac, two_tasks):
    with h5py.File("none.h5", "w") as file:
        file["features"], file["labels"], file["logits"] = np.full((9, 12), np.nan), np.zeros(9, int), np.zeros((9, 3))
    found = pdac("stream", "--budget", 5, "--method", "gss", "none.h5", "-o", "b.json", "--drop-nonfinite")
    assert found.code == 3, found.err
    assert len(found.err.splitlines()) <= 2

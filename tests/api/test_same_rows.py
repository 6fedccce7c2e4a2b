"""The same rows as the commands, for every method of both tables."""

import h5py
import numpy as np
import pytest

from pdac_cli import CoresetSelector, FeatureSet, StreamingSelector, select_coreset
from pdac_cli.files.index.index_file import read_index
from pdac_cli.options.methods import STREAM_CHOICES
from pdac_cli.selection.methods import METHODS
from tests.oracles import clustered

N, BUDGET = 300, 24
pytestmark = pytest.mark.usefixtures("few_steps")


@pytest.fixture
def rows(tmp_path):
    """Features, labels and logits, in arrays and in a file."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(N) % 3)
    h = (clustered(N, 12, 3) + y[:, None]).astype("f4")
    logits = (rng.standard_normal((N, 3)) + 2 * np.eye(3)[y]).astype("f4")
    with h5py.File(tmp_path / "feats.h5", "w") as file:
        file["features"], file["labels"], file["logits"] = h, y, logits
    return h, y, logits


@pytest.mark.parametrize("name", METHODS)
def test_a_selection_is_that_of_the_command(pdac, rows, tmp_path, name):
    h, y, logits = rows
    path = tmp_path / "feats.h5"
    told = pdac("select", "--budget", BUDGET, path, "--method", name, "--seed", 3).rows
    assert select_coreset(h, y, BUDGET, method=name, logits=logits, random_state=3).tolist() == told
    assert select_coreset(path, None, BUDGET, method=name, random_state=3).tolist() == told
    selector = CoresetSelector(name, BUDGET, random_state=3).fit(h, y, logits=logits)
    assert selector.ranking_.tolist() == told
    assert selector.sample_indices_.tolist() == sorted(told)


@pytest.mark.parametrize("name", ["pdac", "least-error", "herding"])
def test_what_is_written_is_what_the_command_writes(pdac, rows, tmp_path, name):
    h, y, _ = rows
    path, theirs, ours = tmp_path / "feats.h5", tmp_path / "theirs.json", tmp_path / "ours.json"
    pdac("select", "--budget", BUDGET, path, "--method", name, "-o", theirs)
    CoresetSelector(name, BUDGET).fit(FeatureSet(path)).to_file(ours)
    assert ours.read_bytes() == theirs.read_bytes()
    CoresetSelector(name, BUDGET).fit(h, y).to_file(ours, force=True)
    one, other = read_index(ours), read_index(theirs)
    assert one.sources[0].fingerprint == other.sources[0].fingerprint
    for column in ("row", "label", "log_density", "score"):
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column))


@pytest.mark.parametrize("name", ["pdac", "herding", "ocs"])
def test_tasks_are_those_of_the_buffer_option(pdac, rows, tmp_path, name):
    h, y, logits = rows
    parts = [slice(0, 150), slice(150, None)]
    selector, buffer = CoresetSelector(name, BUDGET), []
    for k, part in enumerate(parts):
        with h5py.File(tmp_path / f"{k}.h5", "w") as file:
            file["features"], file["labels"], file["logits"] = h[part], y[part] + 3 * k, np.tile(logits[part], 2)
        index = tmp_path / f"{k}.json"
        result = pdac(
            "select", "--budget", BUDGET, tmp_path / f"{k}.h5", "--method", name, "--task", k + 1, *buffer, "-o", index
        )
        assert result.code == 0, result.err
        selector.partial_fit(h[part], y[part] + 3 * k, logits=np.tile(logits[part], 2))
        buffer = ["--buffer", index]
        told = read_index(index)
        assert selector.buffer_.ids.tolist() == told.row.tolist()
        assert selector.buffer_.task.tolist() == told.task.tolist()
        assert selector.buffer_.labels.tolist() == told.label.tolist()


@pytest.mark.parametrize("name", STREAM_CHOICES)
def test_a_stream_keeps_what_the_command_keeps(pdac, rows, tmp_path, name):
    h, y, logits = rows
    out = tmp_path / "buffer.json"
    result = pdac("stream", "--budget", BUDGET, tmp_path / "feats.h5", "--method", name, "-o", out)
    assert result.code == 0, result.err
    told = read_index(out)
    whole = StreamingSelector(BUDGET, name).partial_fit(h, y, logits=logits)
    in_calls = StreamingSelector(BUDGET, name)
    for start in range(0, N, 64):
        part = slice(start, start + 64)
        in_calls.partial_fit(h[part], y[part], logits=logits[part])
    from_file = StreamingSelector(BUDGET, name).partial_fit(tmp_path / "feats.h5")
    for stream in (whole, in_calls, from_file):
        assert stream.buffer_.ids.tolist() == told.row.tolist()
        assert stream.buffer_.labels.tolist() == told.label.tolist()
        np.testing.assert_array_equal(stream.buffer_.log_density, told.log_density)


@pytest.mark.parametrize("name", STREAM_CHOICES)
def test_files_of_a_stream_are_calls(pdac, rows, tmp_path, name):
    h, y, logits = rows
    stream, paths = StreamingSelector(BUDGET, name), []
    for k, part in enumerate((slice(0, 45), slice(45, 250), slice(250, None))):
        paths.append(tmp_path / f"{k}.h5")
        with h5py.File(paths[-1], "w") as file:
            file["features"], file["labels"], file["logits"] = h[part], y[part], logits[part]
        stream.partial_fit(h[part], y[part], ids=np.array([f"{k}:{row}" for row in range(len(y[part]))]),
                           logits=logits[part])  # fmt: skip
    out = tmp_path / "buffer.json"
    pdac("stream", "--budget", BUDGET, *paths, "--method", name, "-o", out)
    told = read_index(out)
    named = [f"{task - 1}:{row}" for task, row in zip(told.task, told.row, strict=True)]
    assert stream.buffer_.ids.tolist() == named

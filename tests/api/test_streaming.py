"""The streaming selector: what it keeps of a stream, its state, its ids."""

import io
import pickle

import numpy as np
import pytest

from pdac_cli import InputError, ParameterError, PdacError, StreamingSelector
from pdac_cli.options.methods import STREAM_CHOICES
from tests.oracles import clustered


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(320) % 4)
    return (clustered(320, 6, 3) + y[:, None]).astype(np.float32), y, rng.normal(size=(320, 4)).astype(np.float32)


def fed(stream, rows, start, stop, step=32, ids=None):
    X, y, logits = rows
    for at in range(start, stop, step):
        part = slice(at, min(at + step, stop))
        stream.partial_fit(X[part], y[part], None if ids is None else ids[part], logits=logits[part])
    return stream


@pytest.mark.parametrize("name", STREAM_CHOICES)
@pytest.mark.parametrize("through", ["pickle", "npz", "dict"])
def test_a_stream_goes_on_from_its_state(rows, name, through):
    stream = fed(StreamingSelector(20, name, random_state=2), rows, 0, 160)
    state = stream.state_dict()
    if through == "npz":
        memory = io.BytesIO()
        np.savez(memory, **state)
        memory.seek(0)
        with np.load(memory) as file:
            state = dict(file)
    again = StreamingSelector(20, name, random_state=2)
    again = pickle.loads(pickle.dumps(stream)) if through == "pickle" else again.load_state_dict(state)
    for one in (stream, again):
        fed(one, rows, 160, 320)
    for column in ("ids", "labels", "log_density", "task"):
        np.testing.assert_array_equal(getattr(stream.buffer_, column), getattr(again.buffer_, column))
    assert again.n_seen_ == 320


def test_a_state_of_another_stream_is_refused(rows):
    state = fed(StreamingSelector(20), rows, 0, 64).state_dict()
    with pytest.raises(ParameterError, match="begun with budget 20 and not 21"):
        StreamingSelector(21).load_state_dict(state)
    for damage in (
        lambda s: s.pop("settings"),
        lambda s: s.update(settings="{"),
        lambda s: s.update(ids=s["ids"][:-1]),
        lambda s: s.update(keys=s["keys"] + 1),
        lambda s: s.pop("stream/seen"),
        lambda s: s.update({"stream/class/count": np.array([-1])}),
    ):
        damaged = dict(state)
        damage(damaged)
        with pytest.raises(PdacError, match="the state cannot be read"):
            StreamingSelector(20).load_state_dict(damaged)


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_rows_are_called_what_the_caller_calls_them(rows, kind):
    ids = np.random.default_rng(1).permutation(10_000)[:320]
    ids = ids if kind == "numbers" else np.array([f"img-{k}" for k in ids])
    named, plain = fed(StreamingSelector(20), rows, 0, 320, ids=ids), fed(StreamingSelector(20), rows, 0, 320)
    np.testing.assert_array_equal(named.buffer_.ids, ids[plain.buffer_.ids])
    np.testing.assert_array_equal(plain.buffer_.labels, rows[1][plain.buffer_.ids])
    with pytest.raises(InputError, match=r"ids has shape \(3,\), X has 32 rows"):
        named.partial_fit(rows[0][:32], rows[1][:32], ids[:3])


def test_labels_may_be_texts_and_must_stay_so(rows):
    X, y, _ = rows
    names = np.array(["d", "a", "c", "b"])[y]
    stream = StreamingSelector(20)
    for at in range(0, 320, 64):
        stream.partial_fit(X[at : at + 64], names[at : at + 64])
    np.testing.assert_array_equal(stream.buffer_.labels, names[stream.buffer_.ids])
    with pytest.raises(InputError, match="labels of another kind"):
        stream.partial_fit(X[:32], y[:32])


@pytest.mark.parametrize("name", STREAM_CHOICES)
def test_it_never_holds_the_stream(name):
    rng = np.random.default_rng(0)
    stream, sizes = StreamingSelector(20, name), []
    for _ in range(3):
        for _ in range(3):
            rows = rng.normal(size=(512, 8)).astype(np.float32)
            stream.partial_fit(rows, rng.integers(0, 2, 512), logits=rows[:, :2])
        sizes.append(len(pickle.dumps(stream)))
    assert sizes[2] < sizes[1] + 2 * 1536  # of 49 kB that came


def test_what_needs_a_network_or_logits_is_refused(rows):
    X, y, _ = rows
    with pytest.raises(ParameterError, match=r"method metasp needs the influence .*; expected one of"):
        StreamingSelector(20, "metasp").partial_fit(X, y)
    with pytest.raises(InputError, match="logits is not given, and method='gss' needs them"):
        StreamingSelector(20, "gss").partial_fit(X, y)
    with pytest.raises(ParameterError, match="dim is 10, the data has 6 features"):
        StreamingSelector(20, density_kind="class").partial_fit(X, y)


def test_fit_begins_anew(rows):
    X, y, _ = rows
    once = StreamingSelector(20).fit(X, y)
    twice = StreamingSelector(20).fit(X[:64], y[:64]).fit(X, y)
    np.testing.assert_array_equal(once.buffer_.ids, twice.buffer_.ids)

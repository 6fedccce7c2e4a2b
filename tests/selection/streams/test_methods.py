"""What holds for every streaming method, whatever its rule: each is fed the same stream without a network."""

from pathlib import Path

import numpy as np
import pytest

from pdac_cli.engine.stream.running import Stream
from pdac_cli.options.declare import build
from pdac_cli.options.methods import MethodOptions, StreamMethod
from pdac_cli.options.select import DensityKind
from pdac_cli.options.stream import StreamDensityOptions, StreamOptions
from pdac_cli.selection.streams.density_reservoir import PRINTED_SPDAC
from pdac_cli.selection.streams.interface import Network
from pdac_cli.selection.streams.methods import STREAMING_METHODS, streaming_method
from tests.oracles import clustered
from tests.selection.streams.steps import FakeNetwork, step_of

N, D, K, BUDGET = 420, 8, 3, 40
PRINTED = "spdac as printed"
METHODS = [*StreamMethod, PRINTED]


def rule_of(method):
    if method == PRINTED:
        return StreamMethod.SPDAC, PRINTED_SPDAC
    return method, STREAMING_METHODS[method]


HALF = 224  # a multiple of the batch


def data():
    """Two tasks, of two classes and of a third one, whose gradients are against those of the others."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(N) < HALF, rng.integers(0, 2, N), 2)
    h = clustered(N, D, 4) + 2 * y[:, None] + 4
    return h.astype("f4"), y, 0.1 * rng.standard_normal((N, K)).astype("f4"), rng.standard_normal(N)


def kept(method, seed=0, batch=16, budget=BUDGET, given=None, passes=1):
    """Feed the stream, each of its two sources `passes` times; from the second time on its features have moved."""
    h, y, z, score = given or data()
    density = StreamDensityOptions(dim=3, components=2, step_rows=30)
    options = StreamOptions(
        budget=budget, output=Path("b.json"), method=rule_of(method)[0], density=density, seed=seed,
        settings=build(MethodOptions, {"candidates": 15}),
    )  # fmt: skip
    stream = Stream.begin(options, rule_of(method)[1], D)
    for source, (first, last) in enumerate([(0, HALF), (HALF, N)]):
        for number in range(passes):
            for start in range(first, last, batch):
                ids = np.arange(start, min(start + batch, last))
                moved = (h[ids] + number * np.float32(0.1)).astype("f4")
                stream.take(source, ids, moved, y[ids], z[ids], score[ids], again=number > 0)
    return stream


def test_the_table_has_every_method_and_each_has_its_name():
    assert set(STREAMING_METHODS) == set(StreamMethod)
    for name, method in STREAMING_METHODS.items():
        assert streaming_method(name, DensityKind.RELATIVE) is method
        assert (streaming_method(name, DensityKind.CLASS) is method) is (name is not StreamMethod.SPDAC)
    assert streaming_method(StreamMethod.SPDAC, DensityKind.CLASS) is PRINTED_SPDAC


@pytest.mark.parametrize("method", METHODS)
def test_rows_that_come_again_are_counted_and_none_is_stored_twice(method):
    stream = kept(method, passes=3)
    columns, memo = stream.buffer.columns, stream.memo
    assert (stream.buffer.seen, len(set(columns["row"].tolist())), stream.buffer.size) == (3 * N, BUDGET, BUDGET)
    assert sum(stream.rows.values()) == 3 * N
    for density in stream.classes.values():
        assert density.seen == stream.rows[density.label]
    if "unit" in memo:  # what the kept rows add up to, after rows of another pass were put in the place of the old ones
        labels = memo["label"].tolist()
        sums = [memo["unit"][columns["label"] == label].sum(axis=0, dtype=np.float64) for label in labels]
        np.testing.assert_allclose(memo["stored"], sums, atol=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_exactly_the_budget_of_distinct_rows_is_kept_each_with_its_own_columns(method):
    stream = kept(method)
    h, y, _, score = data()
    columns = stream.buffer.columns
    rows = columns["row"]
    assert stream.buffer.seen == N
    assert len(set(rows.tolist())) == stream.buffer.size == BUDGET
    assert stream.buffer.replaced > 0
    np.testing.assert_array_equal(columns["label"], y[rows])
    np.testing.assert_array_equal(columns["source"], rows >= HALF)
    if "h" in columns:
        np.testing.assert_array_equal(columns["h"], h[rows])
    if method is StreamMethod.METASP:
        np.testing.assert_array_equal(columns["score"], score[rows])


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_keeps_the_same_and_the_input_stays_as_it_was(method):
    given = data()
    before = [part.copy() for part in given]
    one, two = kept(method, given=given), kept(method, given=given)
    np.testing.assert_array_equal(one.buffer.columns["row"], two.buffer.columns["row"])
    for part, copy in zip(given, before, strict=True):
        np.testing.assert_array_equal(part, copy)
    if method not in (StreamMethod.METASP, StreamMethod.HERDING, StreamMethod.SPDAC):  # which draw nothing here
        assert set(one.buffer.columns["row"]) != set(kept(method, seed=1).buffer.columns["row"])


@pytest.mark.parametrize("method", METHODS)
def test_a_stream_shorter_than_the_budget_is_kept_whole(method):
    stream = kept(method, budget=1000)
    assert stream.buffer.size == len(set(stream.buffer.columns["row"].tolist())) == N


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("budget", [1, 2, 7])
@pytest.mark.parametrize("batch", [1, 200])
def test_tiny_buffers_and_odd_batches_work(method, budget, batch):
    stream = kept(method, budget=budget, batch=batch)
    assert stream.buffer.size == budget
    assert len(set(stream.buffer.columns["row"].tolist())) == budget


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("stored", "count"), [(0, 8), (1, 8), (30, 8), (30, 0), (30, 30)])
def test_what_is_replayed_is_stored_and_each_row_once(method, stored, count):
    rng = np.random.default_rng(0)
    network: Network = FakeNetwork(rng.standard_normal((60, 4)), rng.random((2, 60)))
    rows = np.sort(rng.choice(50, stored, replace=False))
    y = rng.integers(0, 3, 60)
    found = rule_of(method)[1].replay(step_of(rows, np.arange(50, 60), y, count=count, network=network))
    assert len(set(found.tolist())) == len(found) == min(stored, count)
    assert set(found) <= set(rows)

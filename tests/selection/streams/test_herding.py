"""Herding in a stream: against a transcription on plain lists, and by what it is for."""

import pathlib

import numpy as np
import pytest

from pdac_cli.density.common_rows import unit_rows
from pdac_cli.engine.stream.packing import pack, unpack
from pdac_cli.engine.stream.running import Stream
from pdac_cli.options.methods import StreamMethod
from pdac_cli.options.stream import StreamOptions
from pdac_cli.selection.streams.herding import HERDING


def rows(n=300, dim=6, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return (rng.standard_normal((n, dim)) + 2 * np.eye(dim)[y % dim]).astype("f4"), y


def options(budget, seed=0):
    return StreamOptions(budget=budget, output=pathlib.Path("out.json"), method=StreamMethod.HERDING, seed=seed)


def streamed(h, y, budget, batch=32, stream=None, start=0):
    stream = stream or Stream.begin(options(budget), HERDING, h.shape[1])
    for at in range(start, len(y), batch):
        part = slice(at, at + batch)
        stream.take(0, np.arange(len(y))[part], h[part], y[part])
    return stream


def distance(z, y, i, label, kept):
    """Squared distance of the sum of the rows kept from so many times the mean of those seen up to row i."""
    mean = z[np.flatnonzero(y[: i + 1] == label)].mean(axis=0)
    return np.sum((len(kept) * mean - z[kept].sum(axis=0)) ** 2)


def plainly(h, y, budget):
    """The rule on lists, every sum taken afresh."""
    z = h.astype("f8") / np.linalg.norm(h.astype("f8"), axis=1, keepdims=True)
    slots = []
    for i in range(len(y)):
        if len(slots) < budget:
            slots.append(i)
            continue
        mine = [s for s in slots if y[s] == y[i]]
        if len(mine) < budget // len(set(y[: i + 1].tolist())):
            labels, sizes = np.unique(y[slots], return_counts=True)
            largest = labels[np.argmax(sizes)]
            of = [s for s in slots if y[s] == largest]
            after = [distance(z, y, i, largest, [o for o in of if o != s]) for s in of]
            slots[slots.index(of[int(np.argmin(after))])] = i
        elif mine:
            after = [distance(z, y, i, y[i], [o for o in mine if o != s] + [i]) for s in mine]
            if min(after) < (1 - 1e-6) * distance(z, y, i, y[i], mine):
                slots[slots.index(mine[int(np.argmin(after))])] = i
    return slots


@pytest.mark.parametrize(("budget", "sort"), [(12, False), (12, True), (2, False), (31, True)])
def test_it_is_the_rule_whatever_the_batches(budget, sort):
    h, y = rows()
    if sort:
        y = np.sort(y)
    expected = plainly(h, y, budget)
    for batch in (1, 32, 300):
        np.testing.assert_array_equal(streamed(h, y, budget, batch).buffer.columns["row"], expected)


def test_stored_means_are_nearer_than_a_reservoirs():
    h, y = rows(2000)
    kept = streamed(h, y, 30).buffer.columns["row"]
    z = unit_rows(h)
    rng = np.random.default_rng(0)
    for label in range(3):
        mean, mine = z[y == label].mean(axis=0), kept[y[kept] == label]
        assert len(mine) == 10
        drawn = [rng.choice(np.flatnonzero(y == label), 10, replace=False) for _ in range(200)]
        assert np.linalg.norm(z[mine].mean(axis=0) - mean) < min(
            np.linalg.norm(z[d].mean(axis=0) - mean) for d in drawn
        )


def test_a_class_that_comes_late_gets_its_share():
    h, y = rows(900)
    y = np.sort(y)
    assert np.bincount(y[streamed(h, y, 30).buffer.columns["row"]]).tolist() == [10, 10, 10]


def test_it_goes_on_from_a_state_as_if_never_stopped():
    h, y = rows()
    whole = streamed(h, y, 12)
    half = streamed(h[:160], y[:160], 12)
    again = streamed(h, y, 12, stream=unpack(pack(half), options(12), HERDING, h.shape[1]), start=160)
    np.testing.assert_array_equal(whole.buffer.columns["row"], again.buffer.columns["row"])
    np.testing.assert_array_equal(whole.memo["stored"], again.memo["stored"])


def test_rows_of_zeros_and_of_any_size_do():
    h, y = rows()
    h[::7] = 0
    scaled = h * np.float32(1e30)
    np.testing.assert_array_equal(streamed(h, y, 9).buffer.columns["row"], streamed(scaled, y, 9).buffer.columns["row"])

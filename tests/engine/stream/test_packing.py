from pathlib import Path

import numpy as np
import pytest

from pdac_cli.engine.stream.packed_arrays import NotPacked
from pdac_cli.engine.stream.packing import pack, unpack
from pdac_cli.engine.stream.running import Stream
from pdac_cli.options.methods import StreamMethod
from pdac_cli.options.select import DensityKind
from pdac_cli.options.stream import StreamDensityOptions, StreamOptions, StreamSolver
from pdac_cli.selection.streams.methods import streaming_method
from tests.oracles import features


def feed(stream, h, y, first, last):
    logits, score = np.random.default_rng(1).standard_normal((400, 4)), np.random.default_rng(2).standard_normal(400)
    for start in range(first, last, 16):
        ids = np.arange(start, min(start + 16, last))
        stream.take(int(start >= 200), ids, h[ids], y[ids], logits[ids], score[ids])


def begin(**options):
    options.setdefault("density_kind", DensityKind.RELATIVE if "method" in options else DensityKind.CLASS)
    density = StreamDensityOptions(dim=3, components=2, step_rows=30, solver=options.pop("solver", StreamSolver.WARM))
    settings = StreamOptions(budget=20, output=Path("b.json"), density=density, **options)
    return Stream.begin(settings, streaming_method(settings.method, settings.density_kind), 10)


@pytest.mark.parametrize("options", [
    *({"solver": solver} for solver in StreamSolver), *({"method": method} for method in StreamMethod),
])  # fmt: skip
@pytest.mark.parametrize("cut", [0, 16, 112, 304])
def test_a_stream_that_was_packed_goes_on_bit_for_bit(options, cut):
    h, y = features(400, 10, seed=0, dtype="f4"), np.random.default_rng(0).integers(0, 4, 400)
    whole = begin(**options)
    feed(whole, h, y, 0, 400)
    first = begin(**options)
    feed(first, h, y, 0, cut)
    second = unpack(pack(first), first.options, first.method, 10)
    feed(second, h, y, cut, 400)
    found, expected = pack(second), pack(whole)
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_what_is_stored_of_the_rows_depends_on_their_values_and_not_on_their_type():
    y = np.zeros(3, int)  # too few for a density: all are pending
    for values, kind in ((np.full((3, 10), 0.5), np.float16), (np.full((3, 10), 0.1, "f4"), np.float32)):
        arrays = []
        for dtype in ("f4", "f8"):
            stream = begin()
            feed(stream, values.astype(dtype), y, 0, 3)
            arrays.append(pack(stream)["pending"])
            assert len(arrays[-1]) == 3
        assert arrays[0].dtype == arrays[1].dtype == kind
        np.testing.assert_array_equal(arrays[0], arrays[1])


def wrong(arrays, name, change):
    return {**arrays, name: change(arrays[name])}


@pytest.mark.parametrize("solver", [StreamSolver.WARM, StreamSolver.SKETCH])
def test_arrays_that_are_not_a_stream_are_refused_whichever_is_wrong(solver):
    """Every array: missing, one row short, with an axis too many, and of another kind of number."""
    stream = begin(solver=solver)
    feed(stream, features(100, 10), np.arange(100) % 2, 0, 100)
    arrays = pack(stream)
    unpack(arrays, stream.options, stream.method, 10)
    for name, array in arrays.items():
        damaged = [{key: value for key, value in arrays.items() if key != name}]
        damaged += [wrong(arrays, name, change) for change in (lambda a: a[None], lambda a: a.astype("S4"))]
        if len(array):
            damaged.append(wrong(arrays, name, lambda a: a[:-1]))
        for found in damaged:
            with pytest.raises(NotPacked):
                unpack(found, stream.options, stream.method, 10)


@pytest.mark.parametrize(("name", "change", "words"), [
    ("buffer/row", lambda a: np.full_like(a, a[0]), "a row is stored twice"),
    ("class/waiting", lambda a: -a - 1, "negative"),
    ("fitted/dims", lambda a: a + 99, "more dimensions"),
    ("fitted/sigma", lambda a: a * np.nan, "not finite"),
])  # fmt: skip
def test_numbers_that_no_stream_has_are_refused(name, change, words):
    stream = begin()
    feed(stream, features(100, 10), np.zeros(100, int), 0, 100)
    with pytest.raises(NotPacked, match=words):
        unpack(wrong(pack(stream), name, change), stream.options, stream.method, 10)


def test_a_bug_in_restoring_is_not_taken_for_damage(monkeypatch):
    stream = begin()
    feed(stream, features(100, 10), np.zeros(100, int), 0, 100)
    monkeypatch.setattr("pdac_cli.engine.stream.packing.new_class", lambda *_: {}["no such key"])
    with pytest.raises(KeyError, match="no such key"):
        unpack(pack(stream), stream.options, stream.method, 10)

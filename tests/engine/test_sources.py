"""The sources that are not files give what files give: the same rows in any pieces, and logits where asked for."""

from dataclasses import replace

import numpy as np
import pytest

from pdac_cli.arrays import Chunk
from pdac_cli.engine.sources import MappedSource, MemorySource, normalized, with_logits_beside

rng = np.random.default_rng(0)
H, Y, LOGITS = rng.standard_normal((50, 4)).astype("f4"), np.arange(50) % 3, rng.standard_normal((50, 3))


def joined(source, rows, logits=False):
    chunks = list(source.chunks(rows, logits=logits))
    assert max(len(chunk.ids) for chunk in chunks) <= rows
    names = ("ids", "h", "y", *(["logits"] if logits else []))
    return [np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in names]


@pytest.mark.parametrize("rows", [1, 7, 50, 1000])
def test_rows_in_memory_come_in_any_pieces(rows):
    source = MemorySource(H, Y, LOGITS)
    for found, expected in zip(joined(source, rows, logits=True), (np.arange(50), H, Y, LOGITS), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert next(source.chunks(rows)).logits is None
    ids, labels = (np.concatenate(part) for part in zip(*source.label_chunks(rows), strict=True))
    np.testing.assert_array_equal(ids, np.arange(50))
    np.testing.assert_array_equal(labels, Y)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_rows_of_larger_data_keep_their_numbers(dtype):
    ids = np.arange(50) * 3 + 1
    source = MemorySource(H, Y, row_ids=ids, total=200)
    assert (source.n, source.n_features, source.has_logits) == (200, 4, False)
    np.testing.assert_array_equal(joined(source, 8)[0], ids)
    out = np.empty((3, 4), dtype)
    source.take(np.array([148, 1, 7]), out)
    np.testing.assert_array_equal(out, H[[49, 0, 2]].astype(dtype))


def test_rows_of_length_one_are_those_of_the_source_divided_by_it():
    source = normalized(MemorySource(H.astype("f2"), Y, LOGITS))
    ids, h, y, logits = joined(source, 9, logits=True)
    assert h.dtype == source.dtype == np.float32
    exact = H.astype("f2").astype("f8")
    np.testing.assert_allclose(h, exact / np.linalg.norm(exact, axis=1, keepdims=True), rtol=1e-6)
    for found, expected in zip((ids, y, logits), (np.arange(50), Y, LOGITS), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert source.has_logits


def test_logits_beside_the_features_are_stored_as_features():
    plain, wide = (with_logits_beside(MemorySource(H.astype("f2"), Y, LOGITS), n) for n in (0, 3))
    assert (plain.n_features, wide.n_features, wide.dtype, wide.has_logits) == (4, 7, np.float32, False)
    np.testing.assert_array_equal(joined(plain, 9)[1], H.astype("f2").astype("f4"))
    np.testing.assert_array_equal(joined(wide, 9)[1], np.concatenate([H.astype("f2"), LOGITS], axis=1).astype("f4"))


def test_logits_that_are_made_are_made_in_pieces_of_one_size_and_where_asked_for():
    sizes = []

    def change(chunk: Chunk) -> Chunk:
        sizes.append(len(chunk.ids))
        return replace(chunk, logits=chunk.h[:, :2] * 2)

    labels = np.array([0, 2])
    source = MappedSource(MemorySource(H, Y), change, 4, H.dtype, adds_logits=True, logit_rows=16, logit_labels=labels)
    assert source.has_logits
    assert len(list(source.chunks(5))) == 10
    assert sizes == []
    _, h, _, logits = joined(source, 1000, logits=True)
    assert sizes == [16, 16, 16, 2]
    np.testing.assert_array_equal(logits, h[:, :2] * 2)

import threading

import numpy as np
import pytest

from pdac_cli.arrays import PIECE_ROWS, Chunk
from pdac_cli.engine.local import InProcess, in_pieces
from pdac_cli.engine.protocol import Work


def chunks(ids, size):
    for at in range(0, len(ids), size):
        part = ids[at : at + size]
        yield Chunk(part, part[:, None].astype("f4"), part % 7)


@pytest.mark.parametrize("size", [1000, 70_001, 10**6])
def test_pieces_are_cut_by_the_ids_alone(size):
    ids = np.flatnonzero(np.random.default_rng(0).random(3 * PIECE_ROWS + 5) < 0.2)
    ids = ids[(ids < PIECE_ROWS) | (ids >= 2 * PIECE_ROWS)]  # a piece without rows is left out
    found = [[chunk.ids for chunk in piece] for piece in in_pieces(chunks(ids, size))]
    assert [int(piece[0][0]) // PIECE_ROWS for piece in found] == [0, 2, 3][: len(found)]
    assert all(len(set(np.concatenate(piece) // PIECE_ROWS)) == 1 for piece in found)
    np.testing.assert_array_equal(np.concatenate([part for piece in found for part in piece]), ids)


def test_what_is_left_of_a_piece_is_passed_over():
    firsts = [next(piece).ids[0] for piece in in_pieces(chunks(np.arange(3 * PIECE_ROWS), 999))]
    assert firsts == [0, PIECE_ROWS, 2 * PIECE_ROWS]


@pytest.mark.parametrize("jobs", [1, 3])
def test_answers_come_in_the_order_of_the_units_and_few_are_held(jobs):
    begun, lock = [], threading.Lock()

    def work(unit):
        with lock:
            begun.append(unit)
        return unit * unit

    for k, answer in enumerate(InProcess().run(work, range(100), Work(jobs))):
        assert answer == k * k
        assert len(begun) <= k + 3 * jobs + 2

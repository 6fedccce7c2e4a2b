import numpy as np
from scipy import stats

from pdac_cli.rng import Purpose, generator, row_gumbels, row_uniforms

ROWS = np.arange(200_000)


def test_uniforms_are_uniform_and_gumbels_gumbel():
    u = row_uniforms(0, Purpose.DRAW, ROWS)
    assert ((u > 0) & (u < 1)).all()
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert stats.kstest(row_gumbels(3, Purpose.DRAW, ROWS), "gumbel_r").pvalue > 1e-3


def test_neighbouring_rows_and_seeds_are_independent():
    u = row_uniforms(0, Purpose.DRAW, ROWS)
    for other in (np.roll(u, 1), row_uniforms(1, Purpose.DRAW, ROWS), row_uniforms(0, Purpose.EVICT, ROWS)):
        counts = np.histogram2d(u, other, bins=20)[0]
        assert stats.chisquare(counts.ravel()).pvalue > 1e-3


def test_a_rows_number_does_not_depend_on_the_other_rows():
    whole = row_uniforms(7, Purpose.DRAW, ROWS, 2)
    np.testing.assert_array_equal(row_uniforms(7, Purpose.DRAW, ROWS[5000:5010], 2), whole[5000:5010])
    np.testing.assert_array_equal(row_uniforms(7, Purpose.DRAW, ROWS[::-1].astype(np.int32), 2), whole[::-1])


def test_keys_that_begin_alike_give_other_streams():
    streams = {tuple(row_uniforms(1, Purpose.DRAW, ROWS[:4], *key)) for key in [(), (0,), (0, 0), (1,), (1, 0)]}
    assert len(streams) == 5
    draws = {generator(seed, Purpose.DRAW, *key).random() for seed in (0, 1) for key in [(), (0,), (1,)]}
    assert len(draws) == 6


def test_the_numbers_are_part_of_the_promise():
    # Computed once; a change here changes every index file made with the same seed.
    np.testing.assert_array_equal(row_uniforms(42, Purpose.DRAW, np.array([0, 1, 10**12])), PROMISED)


PROMISED = np.array([0.5847353263099884, 0.04536682498932615, 0.6849428547405725])

import numpy as np

from pdac_cli.selection.streams.er import ER
from pdac_cli.selection.streams.er_mir import ER_MIR
from tests.selection.streams.steps import FakeNetwork, step_of


def test_the_rows_whose_loss_rises_most_are_replayed():
    before, after = np.random.default_rng(0).random((2, 100))
    network = FakeNetwork(losses=(before, after))
    new = np.arange(100, 110)
    found = ER_MIR.replay(step_of(np.arange(100), new, count=8, network=network, candidates=40))
    ((drawn, stepped),) = network.asked
    np.testing.assert_array_equal(stepped, new)
    assert len(set(drawn.tolist())) == 40
    expected = sorted(drawn, key=lambda row: before[row] - after[row])[:8]
    assert found.tolist() == expected


def test_where_there_is_nothing_to_choose_from_it_is_er():
    for stored, count in ((5, 8), (0, 8), (30, 0)):
        step = step_of(np.arange(stored), [90], count=count, seed=3)
        again = step_of(np.arange(stored), [90], count=count, seed=3)
        assert ER_MIR.replay(step).tolist() == ER.replay(again).tolist()


def test_what_is_kept_is_what_er_keeps():
    assert ER_MIR.keep is ER.keep

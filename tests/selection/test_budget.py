import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pdac_cli.options.select import Allocation
from pdac_cli.selection.budget import apportion, class_budgets, task_budgets
from tests.oracles import largest_remainder

counts = st.lists(st.integers(1, 1000), min_size=1, max_size=12)


@given(st.integers(0, 500), counts)
def test_without_caps_it_is_the_textbook_largest_remainder(total, shares):
    uncapped = np.full(len(shares), 10**6)
    np.testing.assert_array_equal(apportion(total, np.array(shares), uncapped), largest_remainder(total, shares))


@given(st.integers(0, 5000), counts, st.data())
def test_budgets_always_add_up_and_never_exceed_a_cap(total, shares, data):
    caps = np.array(data.draw(st.lists(st.integers(0, 800), min_size=len(shares), max_size=len(shares))))
    out = apportion(total, np.array(shares), caps)
    assert out.sum() == min(total, caps.sum())
    assert (out <= caps).all()
    assert (out >= 0).all()


@given(st.integers(1, 600), counts)
def test_tasks_share_evenly_and_a_small_task_leaves_its_rest(total, rows):
    stored = np.zeros(0, np.int64)
    seen = 0
    for n in rows:
        budgets = task_budgets(total, np.append(stored, n))
        seen += n
        assert budgets.sum() == min(total, seen)
        assert (budgets[:-1] <= stored).all()
        short = budgets < np.append(stored, n)
        if short.any():  # tasks that could give more differ by at most one
            assert np.ptp(budgets[short]) <= 1
            assert budgets.max() - budgets[short].min() <= 1
        stored = budgets


def test_classes_by_share_or_evenly():
    counts = np.array([900, 90, 10])
    assert class_budgets(100, counts, Allocation.PER_CLASS).tolist() == [90, 9, 1]
    assert class_budgets(100, counts, Allocation.BALANCED).tolist() == [45, 45, 10]
    assert class_budgets(2, counts, Allocation.BALANCED).tolist() == [1, 1, 0]

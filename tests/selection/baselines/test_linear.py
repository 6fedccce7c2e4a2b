"""Projections against a quadratic program solved by scipy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from pdac_cli.selection.baselines.linear import onto_capped_box, onto_simplex

vectors = st.lists(st.floats(-3, 3), min_size=1, max_size=7).map(np.array)


def nearest(v, total, equal):
    """argmin |x − v|² under the constraints, by sequential quadratic programming."""
    constraint = {
        "type": "eq" if equal else "ineq",
        "fun": lambda x: total - x.sum(),
        "jac": lambda x: -np.ones(len(x)),
    }
    found = minimize(
        lambda x: (np.sum((x - v) ** 2), 2 * (x - v)),
        np.full(len(v), min(1, total / len(v))),
        jac=True,
        bounds=[(0, 1)] * len(v),
        constraints=[constraint],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x


@settings(max_examples=60, deadline=None)
@given(vectors)
def test_the_simplex_is_the_quadratic_programs(v):
    w = onto_simplex(v)
    assert w.sum() == pytest.approx(1)
    assert (w >= 0).all()
    np.testing.assert_allclose(w, nearest(v, 1.0, equal=True), atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(vectors, st.floats(0.5, 4))
def test_the_capped_box_is_the_quadratic_programs(v, total):
    s = onto_capped_box(v, total)
    assert s.sum() <= total + 1e-9
    assert ((s >= 0) & (s <= 1)).all()
    np.testing.assert_allclose(s, nearest(v, total, equal=False), atol=1e-5)


def test_what_lies_inside_stays():
    np.testing.assert_allclose(onto_simplex(np.array([0.2, 0.5, 0.3])), [0.2, 0.5, 0.3])
    np.testing.assert_allclose(onto_capped_box(np.array([0.2, 0.9]), 2), [0.2, 0.9])

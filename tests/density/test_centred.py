import numpy as np
import pytest
from scipy.linalg import subspace_angles

from pdac_cli.density import centred as module
from pdac_cli.density.centred import Centred
from pdac_cli.density.device import Workspace
from pdac_cli.density.projection import fit_projection, project, projected
from pdac_cli.options.shared import Solver
from tests.oracles import MemoryRows, features

pytestmark = pytest.mark.usefixtures("way")


@pytest.mark.parametrize("keep", [module._KEEP, 1])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [1, 20, 256, 300, 5000])
def test_rows_offset_and_rest_are_what_they_say(n, dtype, keep, monkeypatch):
    monkeypatch.setattr(module, "_KEEP", keep)
    h = features(n, 40, dtype=dtype)
    centred = Centred(MemoryRows(0, h), np.dtype(dtype), Workspace())
    given, exact = centred.together().astype("f8"), h.astype("f8")
    close = 1e-5 if dtype == "f4" else 1e-13
    np.testing.assert_allclose(centred.mean, exact.mean(axis=0), atol=close)
    np.testing.assert_allclose(given.mean(axis=0), centred.offset, atol=close)
    np.testing.assert_allclose(given - centred.rest, exact - exact.mean(axis=0), atol=close)
    assert centred.squares() == pytest.approx(exact.var(axis=0).sum(), rel=close, abs=close)
    if keep == 1 or n < 40:  # the mean is taken off exactly
        assert not centred.offset.any()
        assert not centred.rest.any()
    elif n > 256:  # only that of the first rows
        assert centred.offset.any()


@pytest.mark.parametrize("apart", [0.0, 0.1, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_first_rows_unlike_the_others_do_not_cost_the_directions(dtype, apart):
    h = features(6000, 60, dtype=dtype)
    h[:256] += np.asarray(apart, dtype)
    p, centred = fit_projection(MemoryRows(0, h), 6, Solver.FAST)
    exact = h.astype("f8") - h.mean(axis=0, dtype="f8")
    best = np.linalg.eigh(exact.T @ exact)[1][:, -6:]
    assert np.rad2deg(subspace_angles(p.W.astype("f8"), best).max()) < 0.1
    xi = np.concatenate([part for _, part in projected(centred, p.W)])
    assert (xi[-1, :, 6000 % 128 :] == 0).all()
    np.testing.assert_allclose(xi, project(h, p.mean, p.W, p.unit), atol=1e-5 * max(apart, 1))


def test_room_used_for_another_class_changes_no_answer():
    workspace = Workspace()
    large, small = (MemoryRows(0, features(n, 30, seed=n, dtype="f4")) for n in (4000, 500))
    for rows in (large, small, large):
        shared, alone = fit_projection(rows, 5, Solver.FAST, workspace=workspace), fit_projection(rows, 5, Solver.FAST)
        np.testing.assert_array_equal(shared[0].W, alone[0].W)
        for (_, ours), (_, theirs) in zip(*(projected(c, p.W) for p, c in (shared, alone)), strict=True):
            np.testing.assert_array_equal(ours, theirs)

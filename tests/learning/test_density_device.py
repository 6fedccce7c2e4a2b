import numpy as np
import pytest
from scipy.linalg import subspace_angles

from pdac_cli.density.model import Scorer, fit_classes
from pdac_cli.errors import ModelError, UsageError
from pdac_cli.learning.devices import density_device
from pdac_cli.options.shared import DensityOptions
from tests.oracles import MemoryRows, features


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_torch_device_agrees_with_numpy(dtype):
    classes = [MemoryRows(c, features(n, 120, seed=c, dtype=dtype)) for c, n in enumerate((1, 60, 700, 2600))]
    ours = fit_classes(classes, DensityOptions(), 0)
    theirs = fit_classes(classes, DensityOptions(), 0, density_device("cpu"))
    np.testing.assert_array_equal(ours.dims, theirs.dims)
    for c, rows in enumerate(classes):
        if ours.dims[c]:
            one, other = (model.W[c][:, : ours.dims[c]].astype("f8") for model in (ours, theirs))
            assert np.rad2deg(subspace_angles(one, other).max()) < 0.1
        scores = [Scorer.of(model).log_conditional(rows.h, c) for model in (ours, theirs)]
        np.testing.assert_allclose(*scores, atol=0.02 if dtype == "f4" else 1e-5)
    np.testing.assert_allclose(ours.log_likelihood, theirs.log_likelihood, atol=2e-3)


def test_devices_that_are_not_there_are_refused():
    with pytest.raises(ModelError, match="cuda"):
        density_device("cuda:99")
    with pytest.raises(UsageError, match="expected auto, cpu, cuda"):
        density_device("tpu")


def test_fit_and_select_on_a_torch_device(pdac, tmp_path):
    from tests.conftest import SAMPLE

    plain = pdac("select", "--budget", 100, "--density", "class", "--ridge", 0.1, SAMPLE)
    torch = pdac("select", "--budget", 100, "--density", "class", "--ridge", 0.1, SAMPLE, "--device", "cpu")
    assert torch.code == 0
    assert len(set(plain.rows) & set(torch.rows)) >= 97

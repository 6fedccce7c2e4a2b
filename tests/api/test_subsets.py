import h5py
import numpy as np
import pytest

from pdac_cli import load_rows
from pdac_cli.errors import DataError
from tests.conftest import SAMPLE


@pytest.mark.parametrize("suffix", [".json", ".h5", ".npy", ".txt"])
def test_the_rows_of_an_index_come_in_its_order(pdac, tmp_path, suffix):
    index = tmp_path / f"c{suffix}"
    assert pdac("select", SAMPLE, "-n", 30, "-o", index, "-q").code == 0
    kept = pdac("select", SAMPLE, "-n", 30, "-q").rows
    h, y = load_rows(SAMPLE, index)
    with h5py.File(SAMPLE) as file:
        np.testing.assert_array_equal(h, file["features"][:][kept])
        np.testing.assert_array_equal(y, file["labels"][:][kept])


def test_labels_that_are_names_come_as_names(pdac, tmp_path):
    rng = np.random.default_rng(0)
    names = np.array(["cat", "dog"])[np.arange(40) % 2]
    np.savez(tmp_path / "f.npz", features=rng.normal(size=(40, 4)), labels=names)
    assert pdac("select", tmp_path / "f.npz", "-n", 6, "-o", tmp_path / "c.json", "-q").code == 0
    kept = pdac("select", tmp_path / "f.npz", "-n", 6, "-q").rows
    assert load_rows(tmp_path / "f.npz", tmp_path / "c.json")[1].tolist() == names[kept].tolist()


def test_an_index_of_another_file_is_refused(pdac, tmp_path):
    np.savez(tmp_path / "f.npz", features=np.ones((40, 4)), labels=np.arange(40) % 2)
    assert pdac("select", SAMPLE, "-n", 30, "-o", tmp_path / "c.json", "-q").code == 0
    with pytest.raises(DataError, match="was chosen from 1,797 rows, the data set has 40"):
        load_rows(tmp_path / "f.npz", tmp_path / "c.json")

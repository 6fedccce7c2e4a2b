import h5py
import numpy as np
import pytest

from pdac_cli.errors import DataError, ModelError, UsageError
from pdac_cli.files.results.state import FilePosition, State, check_options, read_state, write_state


@pytest.fixture
def state():
    arrays = {"seen": np.array([7, 2]), "buffer/row": np.arange(5), "class/unit": np.array([1.0, 0.5])}
    places = (FilePosition("a.h5", 6, "f" * 32, 6), FilePosition("b.h5", 1, "e" * 32, 9))
    return State({"budget": 5, "beta": 0.5, "method": "spdac"}, 16, places, ("cat", "dog"), True, arrays)


def test_a_state_is_read_back_as_it_was_written(tmp_path, state):
    path = tmp_path / "state.h5"
    write_state(state, path)
    found = read_state(path)
    assert (found.options, found.features, found.places, found.label_names) == (
        state.options, state.features, state.places, state.label_names,
    )  # fmt: skip
    assert found.places[0].done
    assert not found.places[1].done
    assert set(found.arrays) == set(state.arrays)
    for name, array in state.arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array)


def test_the_same_state_gives_the_same_bytes_and_replaces_the_former(tmp_path, state):
    path = tmp_path / "state.h5"
    write_state(state, path)
    first = path.read_bytes()
    write_state(state, path)
    assert path.read_bytes() == first
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.h5"]


def test_many_files_fit_into_a_state(tmp_path, state):
    places = tuple(FilePosition(f"day-{k:05d}.h5", 10, "f" * 32, 10) for k in range(3000))
    write_state(State(state.options, 16, places, None, False, {}), tmp_path / "s.h5")
    assert read_state(tmp_path / "s.h5").places == places


@pytest.mark.parametrize(("damage", "words"), [
    (lambda f: f.attrs.__setitem__("version", 9), "state format version 9; expected 3"),
    (lambda f: f.attrs.__setitem__("format", "other"), "not a state of pdac stream"),
    (lambda f: f.__delitem__("places"), "cannot be read as a state"),
    (lambda f: f.attrs.__setitem__("options", "{"), "cannot be read as a state"),
    (lambda f: f.create_dataset("arrays/x", (10**9, 10**3), "f8", chunks=True), "more than the file has"),
    (lambda f: f["arrays/class/unit"].__setitem__(1, 0.6), "contents have changed since they were written"),
    (lambda f: f["arrays/buffer/row"].__setitem__(0, 1), "contents have changed since they were written"),
    (lambda f: f.attrs.__setitem__("features", 17), "contents have changed since they were written"),
    (lambda f: f.attrs.__delitem__("digest"), "cannot be read as a state"),
])  # fmt: skip
def test_a_damaged_state_is_refused(tmp_path, state, damage, words):
    path = tmp_path / "state.h5"
    write_state(state, path)
    with h5py.File(path, "r+") as file:
        damage(file)
    with pytest.raises(ModelError, match=words):
        read_state(path)


def test_what_is_no_state_is_refused(tmp_path):
    (tmp_path / "s.h5").write_bytes(b"not HDF5 at all")
    with pytest.raises(ModelError, match="cannot be read as a state"):
        read_state(tmp_path / "s.h5")


def test_other_options_and_features_are_refused_by_name(tmp_path, state):
    path = tmp_path / "s.h5"
    check_options(state, path, dict(state.options), 16)
    with pytest.raises(UsageError, match=r"begun with beta 0.5 and not 0.9"):
        check_options(state, path, {**state.options, "beta": 0.9}, 16)
    with pytest.raises(DataError, match="has 16 features, these files have 32"):
        check_options(state, path, dict(state.options), 32)

"""A model of other rows and a buffer of other features are warned of, and refused with --strict."""

import pytest


@pytest.fixture
def files(feature_file):
    return (
        feature_file("a.h5", n=120, dim=8),
        feature_file("b.h5", n=120, dim=8, seed=1),
        feature_file("wide.h5", n=120, dim=16, seed=2),
    )


def test_a_model_of_other_rows(pdac, files, tmp_path):
    mine, other, _ = files
    model = tmp_path / "m.h5"
    assert pdac("fit", other, "-o", model, "--dim", 4, "-q").code == 0
    found = pdac("select", mine, "-n", 10, "--model", model, "-q")
    assert found.code == 0, found.err
    assert "m.h5: was fitted on other rows than these; expected a model of this data; --strict refuses it" in found.err
    assert pdac("select", mine, "-n", 10, "--model", model, "-q", "--strict").code == 4
    assert pdac("select", other, "-n", 10, "--model", model, "-q", "--strict").err == ""


def test_a_buffer_of_other_features(pdac, files, tmp_path):
    narrow, same, wide = files
    buffer = tmp_path / "b.json"
    assert pdac("select", narrow, "-n", 20, "-o", buffer, "-q").code == 0
    found = pdac("select", wide, "-n", 20, "--buffer", buffer, "-q")
    assert found.code == 0, found.err
    assert "b.json: its rows of task 1 have 8 features, these have 16; expected rows from one network" in found.err
    assert pdac("select", wide, "-n", 20, "--buffer", buffer, "-q", "--strict").code == 4
    assert pdac("select", same, "-n", 20, "--buffer", buffer, "-q", "--strict").err == ""
    narrow.unlink()
    assert pdac("select", wide, "-n", 20, "--buffer", buffer, "-q").err == ""  # which nobody can tell

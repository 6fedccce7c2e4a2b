"""Logits that mean nothing are told from those that do."""

import h5py
import numpy as np
import pytest

ROWS, CLASSES = 600, 5


@pytest.fixture
def made(tmp_path):
    """Make a feature file with logits of a kind."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(CLASSES), ROWS // CLASSES)
    good = rng.standard_normal((ROWS, CLASSES)) + 2 * np.eye(CLASSES)[y]
    kinds = {
        "good": good,
        "weak": rng.standard_normal((ROWS, CLASSES)) + 0.7 * np.eye(CLASSES)[y],
        "zero": np.zeros((ROWS, CLASSES)),
        "rows": np.repeat(rng.standard_normal((ROWS, 1)), CLASSES, axis=1),
        "others": rng.standard_normal((ROWS, 1000)),  # columns of another set's classes
        "shifted": np.roll(good, 1, axis=1),
        "one answer": rng.standard_normal((ROWS, CLASSES)) + np.array([9, 0, 0, 0, 0]),
    }

    def make(kind):
        path = tmp_path / "f.h5"
        with h5py.File(path, "w") as file:
            file["features"] = (rng.standard_normal((ROWS, 8)) + 3 * np.eye(8)[y]).astype("f4")
            file["labels"], file["logits"] = y, kinds[kind].astype("f4")
        return path

    return make


@pytest.mark.parametrize("kind", ["good", "weak"])
def test_logits_that_tell_the_classes_are_taken_without_a_word(pdac, made, kind):
    assert pdac("select", made(kind), "--budget", 10, "--method", "hardest", "-q").err == ""


@pytest.mark.parametrize("verb", [("select", "--method", "hardest"), ("compare", "--methods", "hardest", "--dim", 3)])
@pytest.mark.parametrize("kind", ["zero", "rows"])
def test_constant_logits_are_refused(pdac, made, verb, kind):
    name, *how = verb
    found = pdac(name, made(kind), "--budget", 10, *how)
    assert (found.code, "'logits' are alike in every row" in found.err) == (3, True), found.err
    assert pdac(name, made(kind), "--budget", 10, *how, "--head").code == 0  # as the message advises


@pytest.mark.parametrize("verb", [("select", "--method", "ocs"), ("compare", "--methods", "gcr", "--dim", 3)])
@pytest.mark.parametrize("kind", ["others", "shifted", "one answer"])
def test_logits_of_other_classes_are_warned_of(pdac, made, verb, kind):
    name, *how = verb
    found = pdac(name, made(kind), "--budget", 10, *how)
    assert found.code == 0, found.err
    assert "no better than chance" in found.err
    assert "no better than chance" not in pdac(name, made(kind), "--budget", 10, *how, "--head").err


def test_methods_that_need_no_logits_do_not_look(pdac, made):
    assert pdac("select", made("zero"), "--budget", 10, "--method", "herding", "-q").err == ""

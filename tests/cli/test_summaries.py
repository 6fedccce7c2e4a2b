"""Summaries: one kind of value per key over all verbs; quiet drops what is said, never a result."""

from collections import defaultdict

import pytest

from pdac_cli.cli.verbs import VERBS
from tests.cli.summaries import SUMMARIES, keys_of, kind_of
from tests.conftest import SAMPLE


def test_a_key_has_one_kind_of_value_over_all_verbs():
    found = defaultdict(set)
    for summary in SUMMARIES:
        for name, kind in keys_of(summary):
            found[name].add(kind)
    assert {name: kinds for name, kinds in found.items() if len(kinds) > 1} == {}
    assert found["classes"] == {"number"}
    assert found["per_class"] == {"list of object"}
    assert found["n_classes"] == {"number"}


@pytest.mark.parametrize(("hint", "kind"), [
    (int, "number"), (float | None, "number"), (list[str], "list of text"), (dict[str, int], "object"),
    (int | str, "number or text"), (bool, "boolean"),
])  # fmt: skip
def test_kinds(hint, kind):
    assert kind_of(hint) == kind


def test_quiet_still_prints_results(pdac, feature_file, tmp_path):
    path = feature_file()
    compared = pdac("compare", path, "-n", 9, "--methods", "uniform", "--seeds", 1, "-q")
    assert (compared.code, compared.err) == (0, "")
    assert "uniform" in compared.out
    trained = pdac(
        "train-cl", path, "-o", tmp_path / "run", "--tasks", 3, "-n", 9, "--seeds", 1, "--epochs", 1, "--method",
        "uniform", "-q",
    )  # fmt: skip
    assert (trained.code, trained.err) == (0, "")
    assert "uniform" in trained.out
    shown = pdac("train-cl", "--compare", tmp_path / "run", "-q")
    assert (shown.code, shown.err) == (0, "")
    assert "uniform" in shown.out
    chosen = pdac("select", path, "-n", 9, "--method", "uniform", "-q")
    assert (chosen.code, len(chosen.rows), chosen.err) == (0, 9, "")


def test_what_is_no_result_is_said_on_standard_error(pdac, tmp_path):
    result = pdac("fit", SAMPLE, "-o", tmp_path / "m.h5")
    assert result.out == ""
    assert result.err
    assert pdac("fit", SAMPLE, "-o", tmp_path / "q.h5", "-q").err == ""


def test_the_verbs_with_random_numbers_have_a_seed():
    seeded = {verb.name for verb in VERBS.values() if "--seed" in {one.label for one in verb.declared()}}
    assert seeded == {"fit", "select", "compare", "stream", "train-cl", "valex"}

"""What is given on the command line is what the verb is handed."""

from operator import attrgetter

import pytest

from pdac_cli.cli.verbs import VERBS, Verb
from tests.options.reach import REACH

CASES = [(verb, base, *case) for verb, (base, cases) in REACH.items() for case in cases]


@pytest.fixture
def handed(monkeypatch, pdac):
    """Run a command line up to where the work would begin; return the options."""

    def run(*arguments):
        found = []
        monkeypatch.setattr(Verb, "run", lambda _self, options: found.append(options))
        result = pdac(*arguments)
        assert (result.code, result.out, result.err) == (0, "", "")
        return found[0]

    return run


@pytest.mark.parametrize(
    ("verb", "base", "arguments", "where", "value"), CASES, ids=[f"{case[0]} {case[2][0]} {case[3]}" for case in CASES]
)
def test_an_option_reaches_the_verb(handed, verb, base, arguments, where, value):
    assert attrgetter(where)(handed(verb, *base)) != value
    assert attrgetter(where)(handed(verb, *base, *arguments)) == value


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_what_is_not_given_is_not_said_to_be(handed, verb):
    base = REACH.get(verb.name, (["f.h5", "-n", "5"], []))[0]
    given = handed(verb.name, *base, "-q").given
    required = {one.name for one in verb.declared() if one.about.required}
    arguments = {one.name for one in verb.declared() if one.about.argument}
    assert required | {"quiet"} <= given <= required | arguments | {"quiet", "checkpoint", "budgets"}


def test_data_is_given_by_its_place_or_by_a_flag(handed, pdac):
    assert handed("train-cl", "--data", "x").data == handed("train-cl", "x").data == ("x",)
    assert "data is given twice" in pdac("train-cl", "x", "--data", "y").err

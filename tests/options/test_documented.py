"""Every option of every verb is described in the documents and exercised by a test that runs the verb."""

import re
from functools import cache

import pytest

from pdac_cli.cli.verbs import VERBS
from tests.documents import HELP, ROOT, runnable
from tests.options.reach import REACH

OPTIONS = [(verb, one) for verb in VERBS.values() for one in verb.declared() if one.flags]
IDS = [f"{verb.name} {one.label}" for verb, one in OPTIONS]
ELSEWHERE = ("cli", "options")  # tests of the command line itself, which name all verbs
NAMED = re.compile(r"(?<![\w-])(--[a-z][\w-]*|-[a-z])(?![\w-])")


@cache
def flags_in_tests(verb):
    """Every flag that is written in a test file which names the verb."""
    texts = [
        path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py") if path.parent.name not in ELSEWHERE
    ]
    mine = [text for text in texts if re.search(rf"[\"' ]{re.escape(verb)}[\"' ]", text)]
    assert mine
    handed = [" ".join(arguments) for arguments, _, _ in REACH.get(verb, ([], []))[1]]
    return set().union(*(NAMED.findall(text) for text in [*mine, *handed]))


@pytest.mark.parametrize(("verb", "one"), OPTIONS, ids=IDS)
def test_every_option_is_exercised(verb, one):
    given = {part for flag in one.flags for part in flag.split("/")}
    assert given & flags_in_tests(verb.name), f"no test of pdac {verb.name} gives {one.label}"


def test_a_flag_that_no_test_gives_is_found():
    assert "--no-such" + "-option" not in flags_in_tests("select")
    assert "--budget" in flags_in_tests("select")


@pytest.mark.parametrize(("verb", "one"), OPTIONS, ids=IDS)
def test_every_option_is_described(verb, one):
    """On the page of all options, whose blocks are what help prints: a test of the documents runs them."""
    shown = next(block.text for block in runnable(HELP) if block.text.startswith(f"$ pdac {verb.name} --help\n"))
    assert re.search(rf"(?<![\w-]){re.escape(one.label)}(?![\w-])", shown)
    assert one.about.help in " ".join(shown.split())
    assert one.about.help.endswith(".")

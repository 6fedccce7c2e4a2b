"""Standard streams that are full, closed or broken cost no output file, and a lost result is never called a success."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.processes import Ended, Server, contents
from tests.faults.works import WORKS, Work, steady

SAID = {"full": "no space left on device", "closed": "bad file descriptor"}
QUICK = ("fit", "select", "compare", "merge", "stream, replacing")


def loud(work: Work) -> list[str]:
    return [argument for argument in work.command() if argument != "-q"]


@pytest.fixture
def run(light: Server, tmp_path: Path):
    def run(name: str, *more: str, folder: str = "here", **streams: str) -> tuple[Ended, dict[str, bytes | str]]:
        where = WORKS[name].prepare(tmp_path / name / folder)
        names = {key: "/dev/full" if value == "full" else value for key, value in streams.items()}
        ended = light.run([*loud(WORKS[name]), *more], where, **names)
        found = steady(contents(where))
        found.pop("out.csv", None)  # times and, for two methods, nothing else worth the trouble
        return ended, found

    return run


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("stream", ["full", "closed", "broken"])
def test_nobody_listens_to_standard_error(name: str, stream: str, run) -> None:
    """All that is said there is said in vain, and all that is written is there."""
    _, expected = run(name)
    ended, found = run(name, folder="deaf/here", stderr=stream)
    assert ended.code == 0
    assert found == expected


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("stream", ["full", "closed", "broken"])
def test_the_result_on_standard_output_cannot_be_written(name: str, stream: str, run) -> None:
    """The output file is complete; what was to be printed is lost, which is an error but for a reader that has gone."""
    _, expected = run(name)
    ended, found = run(name, "--json", folder="deaf/here", stdout=stream)
    assert found == expected
    ended.check_manners()
    assert ended.code == (0 if stream == "broken" else 5)
    if ended.code:
        assert ended.error == f"error: standard output: {SAID[stream]}; expected room for the result"
    else:
        assert "error" not in ended.err


@pytest.mark.parametrize("stream", ["full", "closed", "broken"])
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["select", "--help"], ["select", "f.h5", "-n", "9"]])
def test_nothing_but_standard_output(arguments: list[str], stream: str, light: Server, tmp_path: Path) -> None:
    folder = WORKS["select"].prepare(tmp_path / "here")
    ended = light.run(arguments, folder, stdout="/dev/full" if stream == "full" else stream)
    assert ended.code == (0 if stream == "broken" else 5), ended.err
    assert "Traceback" not in ended.err
    assert ended.code == 0 or "standard output" in ended.error


def test_errors_keep_their_code_when_nobody_listens(light: Server, tmp_path: Path) -> None:
    for stream in ("/dev/full", "closed", "broken"):
        ended = light.run(["fit", "nowhere.h5", "-o", "m.h5"], tmp_path, stderr=stream, stdout=stream)
        assert ended.code == 3
    assert contents(tmp_path) == {}


def test_files_as_standard_output_get_what_is_printed_and_no_more(light: Server, tmp_path: Path) -> None:
    """With all streams closed, a file that is opened must not get the number of one of them."""
    folder = WORKS["select"].prepare(tmp_path / "here")
    ended = light.run(WORKS["select"].command(), folder, stdout="closed", stderr="closed")
    assert ended.code == 0
    whole = WORKS["select"].prepare(tmp_path / "whole" / "here")
    assert light.run(WORKS["select"].command(), whole).code == 0
    assert contents(folder) == contents(whole)

"""What is said is one line, whatever a file or a path is called."""

from __future__ import annotations

import io
import re

import pytest

from pdac_cli.console import Console, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain – größe 中", "plain – größe 中"),
        ("a\nerror: b", r"a\nerror: b"),
        ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
        ("nul\0tab\t", r"nul\x00tab\t"),
        ("turned \u202e round", r"turned \u202e round"),
        ("no UTF-8 \udcff", r"no UTF-8 \udcff"),
        ("next\x85line\u2028", r"next\x85line\u2028"),
    ],
)
def test_one_line_without_commands(text: str, shown: str) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize("say", ["note", "detail", "warn"])
def test_nothing_said_commands_the_terminal(say: str, capsys: pytest.CaptureFixture[str]) -> None:
    getattr(Console(verbose=True), say)("class 'a\nerror: \x1b[2J'")
    assert capsys.readouterr().err.endswith("class 'a\\nerror: \\x1b[2J'\n")


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def work_for(seconds: int, console: Console, clock: Clock, total: int | None) -> None:
    with console.progress("training", total) as tick:
        for _ in range(seconds):
            clock.now += 1
            tick(2)


def test_a_log_has_a_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    work_for(200, Console(clock=clock), clock, 1000)
    assert capsys.readouterr().err.splitlines() == [
        "training: 120 of 1,000, 2/s, 7:20 left",
        "training: 240 of 1,000, 2/s, 6:20 left",
        "training: 360 of 1,000, 2/s, 5:20 left",
    ]


def test_short_work_and_quiet_work_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    work_for(59, Console(clock=clock), clock, 1000)
    work_for(600, Console(quiet=True, clock=clock), clock, 1000)
    assert capsys.readouterr().err == ""


def test_without_a_total_there_is_no_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    work_for(60, Console(clock=clock), clock, None)
    assert capsys.readouterr().err == "training: 120, 2/s\n"


@pytest.mark.parametrize(("done", "seconds", "shown"), [
    (90_000, 3, "90,000 of 100,000, 30,000/s, 0:01 left"),
    (10, 100, "10 of 100,000, 0.1/s, 277:45:00 left"),
    (3, 600, "3 of 100,000, 0.3/min, 5555:23:20 left"),
    (100_001, 10, "100,001 of 100,000, 10,000/s, 0:00 left"),
])  # fmt: skip
def test_rates_and_times_are_readable(done: int, seconds: int, shown: str) -> None:
    clock = Clock()
    with Console(quiet=True, clock=clock).progress("x", 100_000) as work:
        clock.now += seconds
        work(done)
        assert work.text() == shown


@pytest.mark.parametrize("columns", [40, 80, 132])
def test_the_bar_has_one_line_of_the_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Whatever is said beside it, and with names that would command the terminal."""
    screen, clock = Terminal(), Clock()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    with Console(clock=clock).progress("rows", 60_000) as work:
        clock.now += 10
        work(12_345)
        work.more = "turnover 1.2%, 10 of 10 classes, 18 to 22 rows each, mean \x1b[2J log-density -32.17"
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]", screen.getvalue())]
    shown = [line for line in lines if line.strip()]
    assert all(len(line) <= columns for line in shown)
    assert all(line.startswith("rows ") for line in shown)
    assert not screen.getvalue().count("\x1b[2J")
    assert "12,345 of" in shown[-1]
    if columns >= 80:
        assert "12,345 of 60,000, 1,234/s, 0:39 left" in shown[-1]

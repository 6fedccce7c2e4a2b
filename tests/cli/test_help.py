"""Help: made from the options, fits the terminal, panels with rich at a terminal and plain text elsewhere."""

import os
import pty
import re
import struct
import subprocess
import sys
import termios
from fcntl import ioctl

import pytest

from pdac_cli.cli.verbs import VERBS
from pdac_cli.options.declare import Panel
from pdac_cli.options.methods import ABOUT

ANSI = re.compile(r"\x1b\[[0-9;]*m")
BORDERS = "╭╮╰╯│"


def at_terminal(columns, *arguments, **environment):
    """Run pdac with a terminal of so many columns as its standard output, and return what it prints."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    running = subprocess.Popen(
        [sys.executable, "-m", "pdac_cli", *arguments],
        stdout=theirs,
        env={**clean, "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    parts = []
    try:
        while part := os.read(ours, 1 << 16):
            parts.append(part)
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    assert running.wait() == 0
    return b"".join(parts).decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("verb", [None, *VERBS])
def test_plain_help_fits_the_width_and_names_every_option(pdac, monkeypatch, verb, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    result = pdac(*([] if verb is None else [verb]), "--help")
    assert (result.code, result.err) == (0, "")
    assert max(map(len, result.out.splitlines())) <= columns
    assert "\x1b" not in result.out
    if verb is None:
        assert all(f"\n  {name}  " in result.out for name in VERBS)
        assert "--install-completion" in result.out
        return
    words = " ".join(result.out.split())
    for one in VERBS[verb].declared():
        assert one.label in result.out
        assert one.about.help in words
    shown = [line[:-1] for line in result.out.splitlines() if line.endswith(":") and line[:-1] in set(Panel)]
    assert shown == [panel.value for panel in Panel if panel in shown]
    assert {Panel.INPUT, Panel.OUTPUT} - {Panel.INPUT if verb == "valex" else None} <= set(shown)


def test_arguments_are_shown_once(pdac):
    for verb, usage in (("select", "FEATS..."), ("merge", "PART..."), ("train-cl", "[DATA...]")):
        first = pdac(verb, "--help").out.splitlines()[0]
        assert first == f"Usage: pdac {verb} [OPTIONS] {usage}"


@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_of_methods_keeps_names_whole(pdac, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = pdac("select", "--help").out.splitlines()
    names = [line.split()[0] for line in lines if re.match(r"  [a-z-]+  +\S", line)]
    assert names[: len(ABOUT)] == list(ABOUT)
    assert "[a product n x D x D, then m of 20,000 x D]" in " ".join(" ".join(lines).split())


def test_stream_lists_only_methods_that_it_takes(pdac):
    methods = pdac("stream", "--help").out.partition("Methods:")[2].partition("Input:")[0]
    assert re.findall(r"^  ([a-z-]+)  ", methods, re.MULTILINE) == ["spdac", "herding", "er", "gss", "aser"]


@pytest.mark.parametrize(("verb", "columns"), [("stream", 80), ("stream", 120), ("select", 80)])
def test_at_a_terminal_there_are_panels_of_its_width(verb, columns):
    shown = at_terminal(columns, verb, "--help")
    assert ANSI.search(shown)
    plain = ANSI.sub("", shown).splitlines()
    assert max(map(len, plain)) == columns
    titles = [line.strip("╭─╮ ") for line in plain if line.startswith("╭")]
    panels = {one.about.panel for one in VERBS[verb].declared()}
    sections = VERBS[verb].sections
    assert titles == [*(section.title for section in sections), *(panel.value for panel in Panel if panel in panels)]
    text = " ".join(" ".join(plain).replace("│", " ").split())
    for said in [*(section.below for section in sections), *(one.about.help for one in VERBS[verb].declared())]:
        assert said in text


def test_no_colour_means_plain_text_at_a_terminal_too(pdac, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = at_terminal(80, "select", "--help", NO_COLOR="1")
    assert shown.rstrip() == pdac("select", "--help").out.rstrip()
    assert not set(shown) & set(BORDERS)


def test_a_terminal_that_cannot_do_it_gets_plain_text():
    assert "\x1b" not in at_terminal(80, "fit", "--help", TERM="dumb")

"""The text of ``--help``: panels with rich at a terminal, the same as plain text elsewhere and under NO_COLOR.

Both are made from the verb's options and fit the width of the terminal.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from enum import Enum

from pdac_cli.cli.verbs import VERBS, Verb
from pdac_cli.options.declare import Declared, Panel, declared
from pdac_cli.options.shared import RunOptions

_INDENT = 2
_NAMES = 24  # columns of the names, at most; a longer one has a line of its own
_LEAST = 40  # columns, in a narrower terminal too
ROOT_HELP = "Choose which samples to keep: coresets and replay buffers for continual learning, from saved features."
_HELP_FLAGS = ("-h, --help", "Show this and exit.")


@dataclass(frozen=True)
class HelpSection:
    """A titled list of names and what each means."""

    title: str
    lines: Sequence[tuple[str, str]]
    below: str = ""


def verb_help(verb: Verb) -> str:
    """Return the help of a verb."""
    shared = {one.name for one in declared(RunOptions)}
    options = sorted(verb.declared(), key=lambda one: one.name in shared)  # the verb's own first
    told = {name for section in verb.sections for name in section.lines}
    places = [_place(one) for one in options if one.about.argument]
    parts = [HelpSection(section.title, list(section.lines.items()), section.below) for section in verb.sections]
    for panel in Panel:
        lines = [(name, _text(one, told)) for one in options if one.about.panel is panel for name in names_of(one)]
        if panel is Panel.OUTPUT:
            lines.append(_HELP_FLAGS)
        if lines:
            parts.append(HelpSection(panel.value, lines))
    return _rendered(" ".join(["pdac", verb.name, "[OPTIONS]", *places]), verb.help, parts)


def root_help(flags: Sequence[tuple[str, str]]) -> str:
    """Return the help of the command line as a whole."""
    verbs = HelpSection("Commands", [(verb.name, verb.help) for verb in VERBS.values()])
    return _rendered("pdac [OPTIONS] COMMAND ...", ROOT_HELP, [verbs, HelpSection("Options", [*flags, _HELP_FLAGS])])


def _place(one: Declared) -> str:
    name = f"{one.metavar}..." if one.is_several else one.metavar
    return name if one.about.required else f"[{name}]"


def names_of(one: Declared) -> list[str]:
    """Return how an option is given; an argument that has a flag too, twice."""
    short = [flag for flag in one.flags if not flag.startswith("--")]
    long = [flag.replace("/", " / ") for flag in one.flags if flag.startswith("--")]
    flags = [f"{', '.join([*short, *long])} {one.metavar}".rstrip()] if one.flags else []
    return [_place(one).strip("[]"), *flags] if one.about.argument else flags


def facts_of(one: Declared, told: set[str]) -> list[str]:
    """Return an option's choices, unless they are told elsewhere, whether it can be repeated, and its default."""
    facts = []
    if one.offered and one.offered != (one.metavar,) and not told.issuperset(one.offered):
        facts.append("one of " + ", ".join(one.offered))
    if one.about.repeated:
        facts.append("can be repeated")
    if one.about.otherwise:
        facts.append(f"default: {one.about.otherwise}")
    elif one.about.required:
        facts.append("required")
    elif one.default not in (None, MISSING, False, (), {}) or (one.kind in (int, float) and one.default == 0):
        facts.append(f"default: {_value_text(one.default)}")
    return facts


def _text(one: Declared, told: set[str]) -> str:
    facts = facts_of(one, told)
    return one.about.help + (f" [{'; '.join(facts)}]" if facts else "")


def _value_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value.value if isinstance(value, Enum) else value)


def _rendered(usage: str, about: str, parts: Sequence[HelpSection]) -> str:
    width = max(_LEAST, shutil.get_terminal_size().columns)
    wants_rich = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return (_rich if wants_rich else _plain)(usage, about, parts, width)


def _plain(usage: str, about: str, parts: Sequence[HelpSection], width: int) -> str:
    lines = [f"Usage: {usage}", "", *textwrap.wrap(about, width)]
    for part in parts:
        lines += ["", *textwrap.wrap(f"{part.title}:", width)]
        column = min(_NAMES, max(len(name) for name, _ in part.lines)) + 2 * _INDENT
        for name, text in part.lines:
            lines += _entry(" " * _INDENT + name, text, column, width)
        if part.below:
            lines += textwrap.wrap(part.below, width, initial_indent=" " * _INDENT, subsequent_indent=" " * _INDENT)
    return "\n".join(lines)


def _entry(name: str, text: str, column: int, width: int) -> list[str]:
    """Return a name and its text, the text in a column of its own; beside the name where that leaves it room."""
    wrapped = [
        " " * column + line
        for paragraph in text.splitlines()
        for line in textwrap.wrap(paragraph, width - column, break_on_hyphens=False)
    ]
    if len(name) + _INDENT > column:
        return [name, *wrapped]
    return [name + wrapped[0][len(name) :], *wrapped[1:]]


def _rich(usage: str, about: str, parts: Sequence[HelpSection], width: int) -> str:
    from rich.console import Console
    from rich.padding import Padding
    from rich.panel import Panel as Box
    from rich.table import Table
    from rich.text import Text

    console = Console(file=io.StringIO(), force_terminal=True, width=width, highlight=False)
    console.print(Text.assemble(("Usage: ", "yellow"), (usage, "bold")))
    console.print(Padding(Text(about), (1, 0)))
    for part in parts:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(max_width=_NAMES, overflow="fold")
        grid.add_column(ratio=1)
        for name, text in part.lines:
            about_it, bracket, facts = text.rpartition("[")
            grid.add_row(Text(name, "bold cyan"), Text.assemble(about_it, (bracket + facts, "dim" if bracket else "")))
        if part.below:
            grid.add_row("", Text(part.below))
        console.print(Box(grid, title=Text(part.title), title_align="left", border_style="dim"))
    file = console.file
    return file.getvalue().rstrip("\n") if isinstance(file, io.StringIO) else ""

"""What the user sees besides results: notes, warnings and progress, all on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pdac_cli.options.shared import RunOptions


@dataclass
class Console:
    """Talks to the user on standard error; quiet keeps warnings and drops the rest."""

    quiet: bool = False
    verbose: bool = False
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, run: RunOptions) -> Console:
        """Return the console these options ask for; with --json the notes would only be in the way."""
        return cls(quiet=run.quiet or run.json, verbose=run.verbose)

    def note(self, text: str) -> None:
        """Say something worth knowing."""
        if not self.quiet:
            print(text, file=sys.stderr)

    def detail(self, text: str) -> None:
        """Say something only --verbose asks for."""
        if self.verbose:
            print(text, file=sys.stderr)

    def warn(self, text: str) -> None:
        """Say something the user should act on; also kept for the summary."""
        self.warnings.append(text)
        print(f"warning: {text}", file=sys.stderr)

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar with the time left, at a terminal only; yields a function to be told of work done."""
        if self.quiet or not sys.stderr.isatty():
            yield lambda _: None
            return
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=RichConsole(stderr=True), transient=True) as bar:
            task = bar.add_task(title, total=total)
            yield lambda done: bar.advance(task, done)


def table(rows: list[list[str]]) -> str:
    """Return rows of cells as aligned columns, the first to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        lines.append("  " + "  ".join(cells))
    return "\n".join(lines)


def facts(pairs: dict[str, str]) -> str:
    """Return names and values, one a line."""
    width = max(map(len, pairs))
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in pairs.items())


def size_text(count: float) -> str:
    """Return a number of bytes as people write it."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"

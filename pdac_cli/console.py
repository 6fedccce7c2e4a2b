"""What the user sees besides results: notes, warnings and progress, all on standard error."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pdac_cli.options.shared import RunOptions

_LINE_SECONDS = 60  # from line to line, where there is no terminal
_BAR_COLUMNS = 16


def printable(text: str) -> str:
    """Return one line that a terminal shows as it is: control characters, line ends and lone surrogates escaped.

    Names and paths come from files that may be anybody's; a line end in one would forge another message, an escape
    sequence would be obeyed.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


@dataclass
class Console:
    """Talks to the user on standard error, a line at a time; quiet keeps warnings and drops the rest."""

    quiet: bool = False
    verbose: bool = False
    warnings: list[str] = field(default_factory=list)
    clock: Callable[[], float] = time.monotonic  # seconds

    @classmethod
    def of(cls, run: RunOptions) -> Console:
        """Return the console these options ask for; with --json the notes would only be in the way."""
        return cls(quiet=run.quiet or run.json, verbose=run.verbose)

    def note(self, text: str) -> None:
        """Say something worth knowing."""
        if not self.quiet:
            print(printable(text), file=sys.stderr)

    def detail(self, text: str) -> None:
        """Say something only --verbose asks for."""
        if self.verbose:
            print(printable(text), file=sys.stderr)

    def warn(self, text: str) -> None:
        """Say something the user should act on; also kept for the summary."""
        self.warnings.append(text)
        print(printable(f"warning: {text}"), file=sys.stderr)

    @contextmanager
    def progress(self, title: str, total: int | None = None) -> Iterator[Progress]:
        """Show how far work is: a bar at a terminal, else a line a minute; yields what is to be told of work done.

        total: how much there is to do, None where that is not known.
        """
        work = Progress(title, total, self.clock)
        if self.quiet:
            yield work
        elif sys.stderr.isatty():
            with _bar(work):
                yield work
        else:
            work.line = self.note
            yield work


class Progress:
    """Work under way: how much of it is done, how fast, and how long the rest will take."""

    def __init__(self, title: str, total: int | None, clock: Callable[[], float]) -> None:
        self.title, self.total, self.done = title, total, 0
        self.more = ""  # what else is to be said of it
        self.line: Callable[[str], None] | None = None  # said once a minute
        self.moved: Callable[[], None] = lambda: None
        self._clock, self._lock = clock, threading.Lock()  # several threads may work
        self._begun = self._said = clock()

    def __call__(self, done: int) -> None:
        """Be told of work done."""
        with self._lock:
            self.done += done
            self.moved()
            if self.line is not None and self._clock() - self._said >= _LINE_SECONDS:
                self._said = self._clock()
                self.line(f"{self.title}: {self.text()}")

    def __reduce__(self) -> tuple[Callable[[], Callable[[int], None]], tuple[()]]:
        """Be heard in this process only: elsewhere nobody is told."""
        return _silence, ()

    def text(self) -> str:
        """Return how much is done of how much, the rate, the time left, and what else there is to say."""
        of = "" if self.total is None else f" of {self.total:,}"
        seconds = self._clock() - self._begun
        parts = [f"{self.done:,}{of}"]
        if self.done and seconds > 0:
            rate = self.done / seconds
            parts.append(_rate_text(rate))
            if self.total is not None:
                parts.append(f"{_time_text(max(0, self.total - self.done) / rate)} left")
        return ", ".join([*parts, *([self.more] if self.more else [])])


def _silence() -> Callable[[int], None]:
    return _unheard


def _unheard(_done: int) -> None:
    """Take the place of progress where work was sent."""


@contextmanager
def _bar(work: Progress) -> Iterator[None]:
    """Show a bar within the block, on one line of the terminal whatever its width."""
    from rich.console import Console as RichConsole
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
    from rich.progress import Progress as RichProgress
    from rich.table import Column
    from rich.text import Text

    class Pace(ProgressColumn):
        def render(self, task: Task) -> Text:  # noqa: ARG002
            return Text(printable(work.text()), no_wrap=True, overflow="ellipsis")

    # The title and the bar keep their widths, and what is said beside them is cut where the line ends.
    title = TextColumn("{task.description}", markup=False)
    pace = Pace(table_column=Column(no_wrap=False, overflow="ellipsis"))
    with RichProgress(
        title, BarColumn(_BAR_COLUMNS), pace, console=RichConsole(stderr=True), transient=True, refresh_per_second=4
    ) as bar:
        task = bar.add_task(printable(work.title), total=work.total)
        work.moved = lambda: bar.update(task, completed=work.done)
        yield


def _rate_text(rate: float) -> str:
    if rate >= 10:
        return f"{rate:,.0f}/s"
    return f"{rate:.2g}/s" if rate >= 0.1 else f"{60 * rate:.2g}/min"


def _time_text(seconds: float) -> str:
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@dataclass
class Silent(Console):
    """Says nothing and keeps warnings for the end: a run makes the same ones after every task."""

    quiet: bool = True

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.warnings.append(text)


def size_text(count: float) -> str:
    """Return a number of bytes as people write it."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"

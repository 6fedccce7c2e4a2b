"""``pdac inspect``: what any file of ours, or any feature file, is, and the command to try next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pdac_cli.commands.inspect.describe import described
from pdac_cli.commands.inspect.facts import FileFacts
from pdac_cli.console import Console
from pdac_cli.files.features import expand
from pdac_cli.options.inspect import InspectOptions


@dataclass(frozen=True)
class InspectSummary:
    """What the files are."""

    inspected: list[FileFacts]
    warnings: list[str]

    def text(self) -> str:
        """Return the summary for people."""
        return "\n\n".join(found.text() for found in self.inspected)


def run(options: InspectOptions) -> InspectSummary:
    """Look at each path by itself."""
    console = Console.of(options.run)
    paths = [Path(name) for name in expand(options.input.paths)]
    return InspectSummary([described(path, options, console) for path in paths], console.warnings)

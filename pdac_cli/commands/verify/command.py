"""``pdac verify``: is a selection, a model or a state what it says?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pdac_cli.commands.verify.checks import Check, index_checks, model_checks, rows_checks, state_checks
from pdac_cli.console import Console, printable
from pdac_cli.errors import DataError
from pdac_cli.files.recognise import FileKind, kind_of
from pdac_cli.options.verify import VerifyOptions
from pdac_cli.reports.table import Table

_CHECKS: Mapping[FileKind, Callable[[VerifyOptions, Console], Iterator[Check]]] = {
    FileKind.INDEX: index_checks,
    FileKind.ROWS: rows_checks,
    FileKind.MODEL: model_checks,
    FileKind.STATE: state_checks,
}


@dataclass(frozen=True)
class VerifySummary:
    """What was checked, and what came of it."""

    path: str
    kind: str
    checks: list[Check]
    verified: bool  # nothing that was checked is wrong
    warnings: list[str]

    def text(self) -> str:
        """Return the summary for people."""
        rows = [[check.word(), check.name, check.found] for check in self.checks]
        title = printable(f"{self.path}: {self.kind}")
        table = Table.of(["", "check", "found"], rows, left=["", "check", "found"]).text().split("\n", 1)
        return f"{title}\n{table[1]}"

    @property
    def problem(self) -> str:
        """What is wrong, as one line; empty where nothing is."""
        wrong = [f"{check.name}: {check.found}" for check in self.checks if check.passed is False]
        if not wrong:
            return ""
        return f"{self.path}: is not what it says ({'; '.join(wrong)}); expected it to be; make it again"


def run(options: VerifyOptions) -> VerifySummary:
    """Check the file against what it was made from."""
    console = Console.of(options.run)
    kind = kind_of(options.file)
    checks = _CHECKS.get(kind)
    if checks is None:
        raise DataError(
            f"{options.file}: holds {kind.value}; expected an index, a model or a state; for other files see: "
            "pdac inspect"
        )
    found = list(checks(options, console))
    passed = all(check.passed is not False for check in found)
    return VerifySummary(str(options.file), kind.value, found, passed, console.warnings)

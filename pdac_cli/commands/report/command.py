"""``pdac report``: a selection, runs, an experiment or a stream as one page, and as picture files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pdac_cli.commands.report.experiments import experiment_report
from pdac_cli.commands.report.runs import runs_report
from pdac_cli.commands.report.selections import selection_report
from pdac_cli.commands.report.traces import traces_report
from pdac_cli.console import Console, size_text
from pdac_cli.errors import UsageError
from pdac_cli.files.features import expand
from pdac_cli.files.recognise import FileKind, kind_of
from pdac_cli.options.report import ReportOptions
from pdac_cli.reports.charts import Report
from pdac_cli.reports.page import page_of
from pdac_cli.reports.png_charts import write_pictures
from pdac_cli.reports.table import facts
from pdac_cli.storage.atomic import check_output, write_bytes
from pdac_cli.storage.folders import new_folder

_SUFFIXES = (".html", ".htm")
_ALONE: Mapping[FileKind, Callable[[Sequence[Path], Console], Report]] = {
    FileKind.RUN: runs_report,
    FileKind.EXPERIMENT: experiment_report,
    FileKind.TRACE: traces_report,
}
_SELECTION = (FileKind.FEATURES, FileKind.INDEX, FileKind.ROWS)
_OF_SELECTIONS = ("images", "model", "most")


@dataclass(frozen=True)
class ReportSummary:
    """What a report has."""

    output: str
    title: str
    charts: int
    page_bytes: int
    pictures: list[str]
    warnings: list[str]

    def text(self) -> str:
        """Return the summary for people."""
        made = {"page": self.output, "charts, size": f"{self.charts:,}, {size_text(self.page_bytes)}"}
        return facts(made | ({"pictures": f"{len(self.pictures):,}"} if self.pictures else {}))


def run(options: ReportOptions) -> ReportSummary:
    """Draw what is given."""
    console = Console.of(options.run)
    if options.output.suffix not in _SUFFIXES:
        raise UsageError(f"{options.output}: ends in {options.output.suffix or 'nothing'}; expected .html")
    paths = _paths(options.shown)
    kinds = {path: kind_of(path) for path in paths}
    check_output(options.output, [path for path in paths if path.is_file()], options.run.force)
    if options.png is not None:
        new_folder(options.png, options.run.force)
    report = _report(kinds, options, console)
    page = page_of(report)
    write_bytes(options.output, page, options.run.force)
    pictures = [] if options.png is None else write_pictures(report, options.png)
    shown = [str(path) for path in pictures]
    return ReportSummary(str(options.output), report.title, len(report.charts()), len(page), shown, console.warnings)


def _paths(given: Sequence[str]) -> list[Path]:
    folders = [name for name in given if Path(name).is_dir()]
    files = [name for name in given if name not in folders]
    return [*(Path(name) for name in folders), *(expand(tuple(files)) if files else [])]


def _report(kinds: Mapping[Path, FileKind], options: ReportOptions, console: Console) -> Report:
    found = set(kinds.values())
    if found <= set(_SELECTION):
        return selection_report(kinds, options, console)
    if len(found) > 1 or not found <= set(_ALONE):
        named = ", ".join(f"{path} ({kind.value})" for path, kind in list(kinds.items())[:4])
        raise UsageError(
            f"these are not drawn together: {named}; expected feature files and indices, or runs, or an experiment, "
            "or traces"
        )
    idle = [name for name in _OF_SELECTIONS if name in options.given]
    if idle:
        flag = {"most": "rows"}.get(idle[0], idle[0])
        raise UsageError(f"--{flag} is given, and there are no features to look at; expected it with a feature file")
    return _ALONE[found.pop()](list(kinds), console)

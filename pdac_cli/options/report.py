"""`pdac report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pdac_cli.options.declare import Panel, group, option
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions, VerbOptions


@dataclass(frozen=True, kw_only=True)
class ReportOptions(VerbOptions):
    """``pdac report``."""

    shown: tuple[str, ...] = option(
        help="Feature files and indices of them; or runs of train-cl; or an experiment; or traces of streams.",
        panel=Panel.INPUT, argument=True, metavar="PATH",
    )  # fmt: skip
    output: Path = option(help="Page to write: .html.", panel=Panel.OUTPUT, flags=("--output", "-o"))
    png: Path | None = option(
        None, help="Also write the charts as picture files into this folder.", panel=Panel.OUTPUT, metavar="DIR"
    )
    images: Path | None = option(
        None, help="Images of the rows: a file of as many, or a folder in which their ids are paths.",
        panel=Panel.INPUT, otherwise="those beside the features, if any",
    )  # fmt: skip
    model: Path | None = option(None, help="Model from `pdac fit`.", panel=Panel.DENSITY, otherwise="fit first")
    most: int = option(
        100_000, help="Most rows to look at; of more, evenly spaced ones and those kept.", panel=Panel.INPUT,
        flags=("--rows",), minimum=1,
    )  # fmt: skip
    input: InputOptions = group(InputOptions, leave_out=("paths", "chunk_rows"))
    density: DensityOptions = group(DensityOptions, leave_out=("tol", "solver"))
    run: RunOptions = group(RunOptions, leave_out=("device",))

"""`pdac convert`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pdac_cli.options.checks import require
from pdac_cli.options.declare import Panel, group, option
from pdac_cli.options.shared import InputOptions, RunOptions, VerbOptions

WRITTEN = (".h5", ".npy", ".parquet")


class NumberType(StrEnum):
    """What features are stored as."""

    FLOAT16 = "float16"
    FLOAT32 = "float32"
    FLOAT64 = "float64"


@dataclass(frozen=True, kw_only=True)
class ConvertOptions(VerbOptions):
    """``pdac convert``."""

    input: InputOptions = group(InputOptions)
    output: Path = option(
        help="Feature file to write: .h5, .npy or .parquet.", panel=Panel.OUTPUT, flags=("--output", "-o")
    )
    dtype: NumberType | None = option(
        None, help="Number type on disk.", panel=Panel.OUTPUT, otherwise="as the rows are read"
    )
    shard_rows: int | None = option(
        None, help="Write OUT-00000, OUT-00001, … of so many rows each; a rerun goes on after the last finished one.",
        panel=Panel.OUTPUT, minimum=1, otherwise="one file",
    )  # fmt: skip
    run: RunOptions = group(RunOptions, leave_out=("jobs", "device"))

    def __post_init__(self) -> None:
        """Refuse a form that cannot be written."""
        super().__post_init__()
        require(
            self.output.suffix in WRITTEN,
            f"--output is {self.output}; expected a name ending in {', '.join(WRITTEN[:-1])} or {WRITTEN[-1]}",
        )

"""`pdac inspect`."""

from __future__ import annotations

from dataclasses import dataclass

from pdac_cli.options.declare import group
from pdac_cli.options.shared import InputOptions, RunOptions, VerbOptions


@dataclass(frozen=True, kw_only=True)
class InspectOptions(VerbOptions):
    """``pdac inspect``."""

    input: InputOptions = group(
        InputOptions,
        leave_out=("drop_nonfinite", "ignore_label"),
        help={"paths": "Files or run folders, or a quoted glob; each is looked at by itself."},
    )
    run: RunOptions = group(RunOptions, leave_out=("jobs", "device", "force"))

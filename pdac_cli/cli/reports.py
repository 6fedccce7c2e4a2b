"""What a command prints of its summary, and where."""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from pdac_cli.options.shared import RunOptions


def print_summary(summary: Any, run: RunOptions, is_table: bool) -> None:
    """Print a summary: as JSON on standard output, as a table that is the result, or for people on standard error.

    Quiet means no summary on standard error; a result is printed in any case.
    """
    if run.json:
        print(json.dumps(dataclasses.asdict(summary), indent=2))
    elif is_table:
        print(summary.text())
    elif not run.quiet:
        print(summary.text(), file=sys.stderr)

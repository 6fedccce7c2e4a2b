"""`pdac verify`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pdac_cli.options.checks import require
from pdac_cli.options.declare import Panel, group, option
from pdac_cli.options.shared import InputOptions, RunOptions, VerbOptions


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(VerbOptions):
    """``pdac verify``."""

    file: Path = option(
        help="An index, a model or a state.", panel=Panel.INPUT, argument=True, metavar="FILE",
    )  # fmt: skip
    feats: tuple[str, ...] = option(
        (), help="The feature files it was made from.", panel=Panel.INPUT, argument=True, metavar="FEATS",
        otherwise="those that it names",
    )  # fmt: skip
    again: bool = option(
        False, help="Also derive it anew from the options it records, and compare row by row.", panel=Panel.INPUT
    )  # fmt: skip
    model: Path | None = option(
        None, help="With --again: the model that the rows were chosen by.", panel=Panel.INPUT,
        otherwise="the one that it names",
    )  # fmt: skip
    input: InputOptions = group(InputOptions, leave_out=("paths",))
    run: RunOptions = group(RunOptions, leave_out=("device", "force"))

    def __post_init__(self) -> None:
        """Refuse what has no effect."""
        super().__post_init__()
        require(self.again or self.model is None, "--model is given without --again; expected both, or neither")

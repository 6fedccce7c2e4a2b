"""`pdac experiment`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pdac_cli.options.checks import require
from pdac_cli.options.declare import Panel, group, option
from pdac_cli.options.effect import Reduced
from pdac_cli.options.extract import device_option
from pdac_cli.options.shared import RunOptions, VerbOptions
from pdac_cli.options.text import parse_names, parse_pairs


class Scale(StrEnum):
    """How large an experiment is run."""

    FULL = "full"  # as defined
    SMALL = "small"  # as its [small] part says: for two cores


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions(VerbOptions):
    """``pdac experiment``."""

    definition: Path | None = option(
        None, help="What to run: a TOML file; see README.", panel=Panel.INPUT, argument=True, metavar="DEFINITION"
    )
    preset: str | None = option(
        None, help="Instead: table1 to table6, figure3 to figure5 of the paper; see --list.", panel=Panel.INPUT,
        metavar="NAME",
    )  # fmt: skip
    listing: bool = option(False, help="List the presets and exit.", panel=Panel.INPUT, flags=("--list",))
    data: Mapping[str, str] = option(
        {}, help="Where a data set is.", panel=Panel.INPUT, metavar="NAME=PATH", parse=parse_pairs, repeated=True
    )
    test: Mapping[str, str] = option(
        {}, help="Where its test part is, if it is a file of its own.", panel=Panel.INPUT, metavar="NAME=PATH",
        parse=parse_pairs, repeated=True,
    )  # fmt: skip
    output: Path | None = option(
        None, help="Folder; a rerun goes on in it.", panel=Panel.OUTPUT, flags=("--output", "-o"),
        otherwise="experiments/NAME",
    )  # fmt: skip
    scale: Scale = option(
        Scale.FULL, help="small: the definition's own reduced size, for two cores.", panel=Panel.TASKS
    )  # fmt: skip
    changes: Mapping[str, str] = option(
        {}, help="Change an option or the values of an axis.", panel=Panel.TASKS, flags=("--set",),
        metavar="NAME=VALUE", parse=parse_pairs, repeated=True,
    )  # fmt: skip
    methods: tuple[str, ...] = option(
        (), help="Only these of the definition's methods, such as pdac,uniform.", panel=Panel.TASKS,
        metavar="NAME,NAME", parse=parse_names, otherwise="all",
    )  # fmt: skip
    reference: str | None = option(
        None, help="The method that the others are compared with.", panel=Panel.TASKS, metavar="NAME",
        otherwise="as defined",
    )  # fmt: skip
    seeds: int | None = option(None, help="How many seeds.", panel=Panel.TASKS, minimum=1, otherwise="as defined")
    side_by_side: int = option(
        1, help="Runs side by side, each a process.", panel=Panel.RESOURCES, flags=("--jobs",), minimum=1
    )
    device: str = device_option()
    plan: bool = option(False, help="Only print the runs and about how long they take.", panel=Panel.OUTPUT)
    tabulate: bool = option(
        False, help="Run nothing; only write the tables of what is complete, also beside a call that runs.",
        panel=Panel.OUTPUT,
    )  # fmt: skip
    run: RunOptions = group(
        RunOptions, leave_out=("memory", "jobs", "device"),
        help={"force": "Replace runs in the folder that another definition has made."},
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Refuse combinations that cannot be meant."""
        super().__post_init__()
        one = self.listing or (self.definition is None) != (self.preset is None)
        require(one, "expected either a definition file or --preset NAME, and not both; see --list")

    def reduced(self) -> Reduced | None:
        """Return what is left of the options for the list of presets."""
        kept = ("listing", "json", "quiet", "verbose")
        if self.listing:
            return Reduced("an experiment, and --list only lists them", lambda one: one.name not in kept)
        return None

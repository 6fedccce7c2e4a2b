"""`pdac compare`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pdac_cli.options.checks import require
from pdac_cli.options.declare import Panel, group, option
from pdac_cli.options.methods import ABOUT, DRAWN, OwnOptions
from pdac_cli.options.select import Allocation, DrawOptions, temperature_option
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions, VerbOptions, seed_option
from pdac_cli.options.text import parse_names, parse_rows


@dataclass(frozen=True, kw_only=True)
class CompareOptions(VerbOptions):
    """``pdac compare``."""

    input: InputOptions = group(InputOptions)
    budgets: tuple[int, ...] = option(
        help="How many rows to keep: one number or several, 200,500.", panel=Panel.KEEP, flags=("--budget", "-n"),
        metavar="N,N", parse=parse_rows, minimum=1, expected="at least 1 row to keep",
    )  # fmt: skip
    methods: tuple[str, ...] = option(
        (), help="Which methods, with commas; see pdac select --help for what they do.", panel=Panel.KEEP,
        metavar="NAME,NAME", parse=parse_names, choices=tuple(ABOUT), otherwise="all",
    )  # fmt: skip
    seeds: int = option(5, help="Runs of every method that draws at random.", panel=Panel.KEEP, minimum=1)
    seed: int = seed_option()  # the first one
    test: str | None = option(
        None, help="Feature file to test on, with a linear head trained on each selection.", panel=Panel.INPUT,
        metavar="FEATS",
    )  # fmt: skip
    output: Path | None = option(
        None, help="Also write the table to a .csv file.", panel=Panel.OUTPUT, flags=("--output", "-o")
    )
    allocation: Allocation | None = option(
        None, help="How the budget is shared among classes.", panel=Panel.KEEP, otherwise="each method's own"
    )
    temperature: float = temperature_option(
        "pdac draws in proportion to density^T: 1 is the paper's rule, 0 is uniform."
    )
    draw: DrawOptions = group(DrawOptions)
    own: OwnOptions = group(OwnOptions)
    head: bool = option(
        False, help="Train a linear head for the logits that the files do not have.", panel=Panel.KEEP
    )  # fmt: skip
    limit: float = option(
        600.0, help="Leave out what would take more seconds a run, unless it is named in --methods.",
        panel=Panel.RESOURCES, metavar="SECONDS", above=0, finite=False, expected="seconds above 0",
    )  # fmt: skip
    density: DensityOptions = group(DensityOptions, leave_out=("tol", "solver"))
    run: RunOptions = group(RunOptions, leave_out=("device",))

    def __post_init__(self) -> None:
        """Refuse lists that cannot be meant."""
        require(len(self.budgets) > 0, "--budget is empty; expected row numbers such as 200,500")
        super().__post_init__()
        if not self.methods or DRAWN in self.methods:
            self.draw.check(self.allocation)
        require(
            self.test is None or not self.input.no_labels,
            "--test is given with --no-labels, and without labels there is no accuracy; leave one of them out",
        )
        require(len(set(self.budgets)) == len(self.budgets), "--budget names a number twice; expected each once")
        require(len(set(self.methods)) == len(self.methods), "--methods names a method twice; expected each once")

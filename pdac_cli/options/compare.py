"""`pdac compare`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pdac_cli.options.checks import require
from pdac_cli.options.declare import Panel, group, option
from pdac_cli.options.effect import used_by
from pdac_cli.options.heads import Classifier, check_per_class, per_class_option
from pdac_cli.options.methods import ABOUT, DRAWN, OwnOptions
from pdac_cli.options.select import DRAW_APPLIES, DRAWS, NEEDS_LOGITS, Allocation, DrawOptions, temperature_option
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions, VerbOptions, seed_option
from pdac_cli.options.text import parse_names, parse_rows


@dataclass(frozen=True, kw_only=True)
class CompareOptions(VerbOptions):
    """``pdac compare``."""

    input: InputOptions = group(InputOptions)
    budgets: tuple[int, ...] = option(
        (), help="How many rows to keep: one number or several, 200,500.", panel=Panel.KEEP, flags=("--budget", "-n"),
        metavar="N,N", parse=parse_rows, minimum=1, expected="at least 1 row to keep",
    )  # fmt: skip
    methods: tuple[str, ...] = option(
        (), help="Which methods, with commas; see pdac select --help for what they do.", panel=Panel.KEEP,
        metavar="NAME,NAME", parse=parse_names, choices=tuple(ABOUT), otherwise="all",
    )  # fmt: skip
    curve: bool = option(
        False, help="Accuracy over the number of rows kept, on the beginnings of one selection; needs --test.",
        panel=Panel.KEEP,
    )  # fmt: skip
    per_class: tuple[int, ...] = per_class_option()  # type: ignore[assignment]
    classifier: Classifier = option(
        Classifier.LOGISTIC, help="--curve: the head that is trained on the kept rows.", panel=Panel.KEEP,
    )  # fmt: skip
    reach: float = option(
        0.95, help="--curve: find the smallest budget that comes to this share of the head on all rows.",
        panel=Panel.KEEP, above=0, maximum=1, expected="a share above 0 and at most 1",
    )  # fmt: skip
    plot: Path | None = option(None, help="--curve: also draw it, to a .png or .svg file.", panel=Panel.OUTPUT)
    seeds: int = option(
        5, help="Runs of every method that draws at random.", panel=Panel.KEEP, minimum=1,
        applies=(used_by(*(name for name, about in ABOUT.items() if about.random)),),
    )  # fmt: skip
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
        "pdac draws in proportion to density^T: 1 is the paper's rule, 0 is uniform.", (DRAWS,)
    )
    draw: DrawOptions = group(DrawOptions, applies=DRAW_APPLIES)
    own: OwnOptions = group(OwnOptions)
    head: bool = option(
        False, help="Where methods need logits, take those of a linear head trained on the features.", panel=Panel.KEEP,
        applies=(NEEDS_LOGITS,),
    )  # fmt: skip
    limit: float = option(
        600.0, help="Leave out what would take more seconds a run, unless it is named in --methods.",
        panel=Panel.RESOURCES, metavar="SECONDS", above=0, finite=False, expected="seconds above 0",
    )  # fmt: skip
    density: DensityOptions = group(DensityOptions, leave_out=("tol", "solver"))
    run: RunOptions = group(RunOptions, leave_out=("device",))

    def __post_init__(self) -> None:
        """Refuse lists that cannot be meant."""
        super().__post_init__()
        if self.curve:
            self._check_curve()
        else:
            require(len(self.budgets) > 0, "--budget is missing; expected row numbers such as 200,500, or --curve")
            own = ("per_class", "classifier", "reach", "plot")
            stray = next((f"--{name.replace('_', '-')}" for name in own if name in self.given), "")
            require(not stray, f"{stray} is for curves; expected --curve with it")
        if not self.methods or DRAWN in self.methods:
            self.draw.check(self.allocation)
        require(
            self.test is None or not self.input.no_labels,
            "--test is given with --no-labels, and without labels there is no accuracy; leave one of them out",
        )
        require(len(set(self.budgets)) == len(self.budgets), "--budget names a number twice; expected each once")
        require(len(set(self.methods)) == len(self.methods), "--methods names a method twice; expected each once")

    @property
    def run_methods(self) -> tuple[str, ...]:
        """The methods to compare."""
        return self.methods or tuple(ABOUT)

    @property
    def is_joint(self) -> bool:
        """Whether all classes are drawn from at once."""
        return self.allocation is Allocation.JOINT

    def _check_curve(self) -> None:
        require(not self.budgets, "--budget and --curve are both given; expected one of them; see --per-class")
        require(self.test is not None, "--curve measures accuracy, and there is nothing to test on; add --test FEATS")
        check_per_class(self.per_class)
        suffix = "" if self.plot is None else self.plot.suffix.lower()
        fits = self.plot is None or suffix in (".png", ".svg")
        require(fits, f"--plot is {self.plot}; expected a name ending in .png or .svg")

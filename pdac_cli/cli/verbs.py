"""The verbs, in a table: options, the module that does the work, and what help says."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pdac_cli.cli.process import check_address_space
from pdac_cli.options.compare import CompareOptions
from pdac_cli.options.convert import ConvertOptions
from pdac_cli.options.declare import Declared, declared
from pdac_cli.options.experiment import ExperimentOptions
from pdac_cli.options.extract import ExtractOptions, MergeOptions
from pdac_cli.options.fit import FitOptions
from pdac_cli.options.inspect import InspectOptions
from pdac_cli.options.methods import ABOUT, ABOUT_STREAMING, STREAM_CHOICES, StreamMethod
from pdac_cli.options.report import ReportOptions
from pdac_cli.options.select import SelectOptions
from pdac_cli.options.shared import VerbOptions
from pdac_cli.options.stream import StreamOptions
from pdac_cli.options.train_cl import TrainOptions
from pdac_cli.options.valex import ValexOptions
from pdac_cli.options.verify import VerifyOptions


@dataclass(frozen=True)
class Section:
    """A part of a verb's help beside its options: names and what each means."""

    title: str
    lines: Mapping[str, str]
    below: str = ""


@dataclass(frozen=True)
class Verb:
    """One verb of the command line."""

    name: str
    options: type[VerbOptions]
    module: str  # whose `run` takes the options and returns a summary, or None
    help: str
    is_table: bool = False  # the summary is the result: on standard output, also when quiet
    sections: tuple[Section, ...] = field(default=())

    def declared(self) -> tuple[Declared, ...]:
        """Return its options, groups flattened."""
        return declared(self.options)

    def run(self, options: VerbOptions) -> Any:
        """Load what does the work, and do it."""
        check_address_space()
        return importlib.import_module(f"pdac_cli.commands.{self.module}").run(options)


_METHODS = Section(
    "Methods, with their costs",
    {name: about.text() for name, about in ABOUT.items()},
    "n rows of D features, K logits, C classes, m the budget. Those that need logits read them from the files, or "
    "with --head from a linear head.",
)
_STREAMING = Section("Methods", {name: ABOUT_STREAMING[StreamMethod(name)].summary for name in STREAM_CHOICES})

VERBS: Mapping[str, Verb] = {
    verb.name: verb
    for verb in (
        Verb(
            "extract",
            ExtractOptions,
            "extract.command",
            "Run a network over images and write features, labels, logits and ids; a rerun goes on where one stopped.",
        ),
        Verb("fit", FitOptions, "fit", "Fit the density of every class: a projection and a Gaussian mixture."),
        Verb(
            "select",
            SelectOptions,
            "select",
            "Choose which rows to keep; print one row index a line, or write an index file.",
            sections=(_METHODS,),
        ),
        Verb(
            "compare",
            CompareOptions,
            "compare.command",
            "Select by many methods from one feature file and measure what each keeps: a table on standard output.",
            is_table=True,
        ),
        Verb(
            "stream",
            StreamOptions,
            "stream.command",
            "Read the files once, batch by batch, and keep a replay buffer; stop and go on at any time.",
            sections=(_STREAMING,),
        ),
        Verb(
            "merge",
            MergeOptions,
            "merge",
            "Join the shards of an extraction, checking that every one is there once.",
        ),
        Verb(
            "convert",
            ConvertOptions,
            "convert",
            "Write feature files of any form as HDF5, npy or Parquet, whole or in shards, which a rerun completes.",
        ),
        Verb(
            "report",
            ReportOptions,
            "report.command",
            "Draw a selection, runs, an experiment or a stream as one page that needs nothing else, and as pictures.",
        ),
        Verb(
            "inspect",
            InspectOptions,
            "inspect.command",
            "Say what files are: shapes, classes, provenance, what is wrong with them, and the command to try next.",
            is_table=True,
        ),
        Verb(
            "verify",
            VerifyOptions,
            "verify.command",
            "Check that an index, a model or a state is what it says; with --again, derive it anew and compare.",
            is_table=True,
        ),
        Verb(
            "experiment",
            ExperimentOptions,
            "experiment",
            "Run a declared sweep over data, settings, methods and seeds; stopped and run again, it goes on.",
            is_table=True,
        ),
        Verb(
            "valex",
            ValexOptions,
            "valex.command",
            "Repeat the paper's validation experiment, where the densities are known, and say which claims hold at "
            "which N.",
            is_table=True,
        ),
        Verb(
            "train-cl",
            TrainOptions,
            "train_cl",
            "Run a continual-learning experiment with replay: tasks by classes, methods side by side, over several "
            "seeds.",
            is_table=True,
        ),
    )
}

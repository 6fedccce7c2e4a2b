"""The summaries that verbs print with --json, and the kinds of their values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pdac_cli.commands.compare.command import CompareSummary
from pdac_cli.commands.compare.curve import CurveSummary
from pdac_cli.commands.convert import ConvertSummary
from pdac_cli.commands.experiment import PresetList
from pdac_cli.commands.experiment.estimate import PlanSummary
from pdac_cli.commands.experiment.report import ExperimentSummary
from pdac_cli.commands.extract.command import ExtractSummary
from pdac_cli.commands.fit import FitSummary
from pdac_cli.commands.inspect.command import InspectSummary
from pdac_cli.commands.merge import MergeSummary
from pdac_cli.commands.report.command import ReportSummary
from pdac_cli.commands.select import SelectSummary
from pdac_cli.commands.stream.command import StreamSummary
from pdac_cli.commands.train_cl.compare import Comparison
from pdac_cli.commands.train_cl.report import TrainSummary
from pdac_cli.commands.valex.report import ValexSummary
from pdac_cli.commands.verify.command import VerifySummary

SUMMARIES = (
    CompareSummary, Comparison, ConvertSummary, CurveSummary, ExperimentSummary, ExtractSummary, FitSummary,
    InspectSummary, MergeSummary, PlanSummary, PresetList, ReportSummary, SelectSummary, StreamSummary, TrainSummary,
    ValexSummary,
    VerifySummary,
)  # fmt: skip
_KINDS = {bool: "boolean", int: "number", float: "number", str: "text", Any: "any"}


def keys_of(kind: type) -> Iterator[tuple[str, str]]:
    """Yield every key of a summary with the kind of its value."""
    hints = get_type_hints(kind)
    for field in dataclasses.fields(kind):
        yield field.name, kind_of(hints[field.name])


def kind_of(hint: Any) -> str:
    """Return the kind of a JSON value: null is no kind of its own."""
    if get_origin(hint) in (Union, UnionType):
        kinds = {kind_of(one) for one in get_args(hint) if one is not NoneType}
        return " or ".join(sorted(kinds))
    origin = get_origin(hint) or hint
    if origin in _KINDS:
        return _KINDS[origin]
    if isinstance(origin, type) and issubclass(origin, str):
        return "text"
    if origin in (list, tuple):
        return f"list of {kind_of(get_args(hint)[0])}"
    if dataclasses.is_dataclass(origin) or issubclass(origin, dict | Mapping):
        return "object"
    raise TypeError(f"{hint} is not a value of JSON")

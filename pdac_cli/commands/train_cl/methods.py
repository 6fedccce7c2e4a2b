"""The methods of a continual run, and what they are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pdac_cli.options.heads import HeadLearner
from pdac_cli.options.methods import StreamMethod
from pdac_cli.options.train_cl import REFERENCE_METHODS, Setting, TrainOptions
from pdac_cli.selection.interface import Method
from pdac_cli.selection.methods import METHODS
from pdac_cli.selection.streams.interface import StreamingMethod
from pdac_cli.selection.streams.methods import streaming_method

Methods = Mapping[str, Method | StreamingMethod]  # by name, in the order they are run


def methods_of(options: TrainOptions) -> Methods:
    """Return the methods to run with replay, by name."""
    if HeadLearner.LINEAR not in options.learners:
        return {}
    if options.setting is Setting.OFFLINE:
        return {name: METHODS[name] for name in options.compared_methods}
    kind = options.draw.density_kind
    return {name: streaming_method(StreamMethod(name), kind) for name in options.compared_methods}


def reference_of(options: TrainOptions) -> str | None:
    """Return the method that the others are compared with: the one named, else the one that draws uniformly."""
    return options.reference or reference_among(options.compared)


def reference_among(methods: Sequence[str]) -> str | None:
    """Return the method that draws uniformly, the last where there is none, None of none."""
    return next((method for method in REFERENCE_METHODS if method in methods), methods[-1] if methods else None)

"""The same answer derived anew from the options that a file records, and what differs from it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from pdac_cli.arrays import Source
from pdac_cli.commands.stream.command import run as run_stream
from pdac_cli.console import Console, Silent
from pdac_cli.density.model import Model
from pdac_cli.engine.plan import Classes, make_plan
from pdac_cli.errors import DataError, PdacError
from pdac_cli.files.features import FeatureSet, open_features
from pdac_cli.files.index.index_file import Index, read_index
from pdac_cli.files.results.model import StoredModel
from pdac_cli.files.results.state import State, read_state
from pdac_cli.options.checks import value_of
from pdac_cli.options.declare import build, declared
from pdac_cli.options.fit import FitOptions
from pdac_cli.options.methods import ABOUT
from pdac_cli.options.select import SelectOptions
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions, VerbOptions
from pdac_cli.options.stream import StreamOptions
from pdac_cli.options.verify import VerifyOptions
from pdac_cli.pipeline.clustering import clustered
from pdac_cli.pipeline.fitting import DensitySetup, fit_source
from pdac_cli.pipeline.selecting import choose
from pdac_cli.selection.methods import method_named

INPUT_OPTIONS = (  # recorded where they were given
    "features_key", "labels_key", "labels", "no_labels", "ids_key", "drop_nonfinite", "ignore_label",
)  # fmt: skip
_RENAMED = {"density": "density_kind", **{f"density.{one.name}": one.name for one in fields(DensityOptions)}}
_TOLERANCE = 1e-6  # relative, of densities; another machine rounds otherwise


def index_problem(
    index: Index, sources: Sequence[InputOptions], options: VerifyOptions, console: Console
) -> str | None:
    """Return how the index differs from the one derived anew; None if it does not."""
    try:
        if index.method in ABOUT:
            found = _selected(index, sources, options, console)
        else:
            found = _streamed(index.options, [given.paths[0] for given in sources], options)[0]
    except PdacError as problem:
        return f"it cannot be: {problem}"
    return _difference(index, found)


def _selected(index: Index, sources: Sequence[InputOptions], options: VerifyOptions, console: Console) -> Index:
    """Choose again, task after task, each with the options of the last, which are those that are recorded."""
    recorded: dict[str, Any] = {name: value for name, value in index.options.items() if value is not None}
    if options.model is not None:
        recorded["model"] = str(options.model)
    elif "model" in recorded and not Path(recorded["model"]).exists():
        raise DataError(f"{recorded['model']}: not found; expected the model it was chosen by; name it with --model")
    method = method_named(index.method)
    if recorded.get("allocation") == method.allocation.value:
        del recorded["allocation"]
    given = _values(SelectOptions, {**recorded, "method": index.method, "budget": index.budget, "seed": index.seed})
    made: Index | None = None
    quiet = Silent() if console.quiet else console
    for said, where in zip(index.sources, sources, strict=True):
        own = {**given, "input": where, "run": _run_options(options)}
        if len(index.sources) > 1 or said.task != 1:
            own["task"] = said.task
        again = build(SelectOptions, own, refuse_idle=False)
        with open_features(where, memory=options.run.memory) as source:
            rows: Source = source
            if again.clusters:
                rows = clustered(source, again.clusters, again.density.normalize, again.seed, quiet)
            made = choose(rows, made, again, method, make_plan(where, options.run), quiet).index
    assert made is not None  # an index has a source
    return made


def _streamed(recorded: Mapping[str, Any], paths: Sequence[str], options: VerifyOptions) -> tuple[Index, State]:
    """Stream again into files of its own."""
    values = _values(StreamOptions, {name.replace("-", "_"): value for name, value in recorded.items()})
    with tempfile.TemporaryDirectory() as folder:
        output, state = Path(folder, "buffer.h5"), Path(folder, "state.h5")
        inner = {name: values.pop(name) for name in INPUT_OPTIONS if name in values}
        where = replace(options.input, paths=tuple(paths), **inner)
        quiet = RunOptions(quiet=True)
        run_stream(
            build(
                StreamOptions,
                {**values, "input": where, "run": quiet, "output": output, "state": state},
                refuse_idle=False,
            )
        )
        return read_index(output), read_state(state)


def _difference(index: Index, found: Index) -> str | None:
    """Return where two indices differ first."""
    pairs = [list(zip(one.task.tolist(), one.row.tolist(), strict=True)) for one in (index, found)]
    if pairs[0] != pairs[1]:
        same = len(set(pairs[0]) & set(pairs[1]))
        first = next((k for k, (a, b) in enumerate(zip(*pairs, strict=False)) if a != b), min(map(len, pairs)))
        shown = [str(pair[first][1]) if first < len(pair) else "none" for pair in pairs]
        return (
            f"{same:,} of {len(pairs[0]):,} rows are the same; at place {first + 1:,} is row {shown[0]}, "
            f"derived anew it is {shown[1]}"
        )
    for name in ("log_density", "score"):
        one, other = getattr(index, name), getattr(found, name)
        if (one is None) != (other is None) or (one is not None and not _alike(one, other)):
            return f"the rows are the same, {name.replace('_', '-')} is not"
    return None


def model_problem(
    stored: StoredModel, source: FeatureSet, classes: Classes, options: VerifyOptions, console: Console
) -> str | None:
    """Return how the model differs from the one fitted anew; None if it does not."""
    if "batch" in stored.options:
        return "it cannot be: pdac stream wrote it; verify the stream's state"
    given = build(
        FitOptions, {**_values(FitOptions, stored.options), "output": Path("-"), "seed": stored.seed}, refuse_idle=False
    )
    setup = DensitySetup(given.density, stored.seed)
    found = fit_source(source, classes, setup, make_plan(options.input, options.run), console)
    for field in fields(Model):
        if not _alike(getattr(stored.model, field.name), getattr(found, field.name)):
            return f"'{field.name}' is not what the fit comes to"
    return None


def state_problem(state: State, paths: Sequence[str], options: VerifyOptions) -> str | None:
    """Return how the state differs from that of the stream read anew; None if it does not."""
    half = next((place for place in state.places if not place.done), None)
    if half is not None:
        return f"it cannot be: the stream stands at row {half.rows:,} of {half.path}"
    named = [place.path for place in state.places]
    found = _streamed(state.options, [*paths, *named[len(paths) :]], options)[1]
    if set(found.arrays) != set(state.arrays):
        return "it has other arrays"
    return next(
        (f"'{name}' differs" for name in state.arrays if not _alike(state.arrays[name], found.arrays[name])), None
    )


def _values(kind: type[VerbOptions], recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return recorded options as the verb takes them; those that have their defaults are left out."""
    own = {one.name: one for one in declared(kind)}
    found = {}
    for name, value in recorded.items():
        one = own.get(_RENAMED.get(name, name))
        if one is not None and value is not None and value != one.default:
            found[one.name] = value_of(one, value) if isinstance(value, str) else value
    return found


def _run_options(options: VerifyOptions) -> RunOptions:
    return replace(options.run, json=False)


def _alike(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    if one.shape != other.shape:
        return False
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    scale = np.abs(one[np.isfinite(one)]).max(initial=0.0)
    return np.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE * scale, equal_nan=True)

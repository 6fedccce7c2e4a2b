"""What a file of each kind says of itself: facts by name, its classes, what is wrong with it, what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.commands.inspect.facts import ArrayFacts, ClassSize, Description, Facts, FileFacts
from pdac_cli.console import Console
from pdac_cli.engine.plan import make_plan
from pdac_cli.errors import DataError
from pdac_cli.files.features import open_features
from pdac_cli.files.formats.attributes import read_attributes
from pdac_cli.files.formats.containers import open_container
from pdac_cli.files.formats.hdf5 import open_hdf5
from pdac_cli.files.formats.images import open_images
from pdac_cli.files.index.index_file import read_index, read_rows
from pdac_cli.files.recognise import FileKind, kind_of
from pdac_cli.files.results.model import read_model
from pdac_cli.files.results.runs import read_json
from pdac_cli.files.results.state import read_state
from pdac_cli.files.results.trace import read_trace
from pdac_cli.options.inspect import InspectOptions
from pdac_cli.pipeline.health import Finding, examine
from pdac_cli.storage.reading import shape_text


def described(path: Path, options: InspectOptions, console: Console) -> FileFacts:
    """Return what the file or folder is."""
    kind = kind_of(path)
    describe = _DESCRIBE.get(kind)
    found = _features(path, options, console) if describe is None else describe(path)
    return FileFacts(path=str(path), kind=kind.value, bytes=_size(path), **vars(found))


def _features(path: Path, options: InspectOptions, console: Console) -> Description:
    arrays, made_by = _arrays(path), _provenance(path)
    given = replace(options.input, paths=(str(path),), drop_nonfinite=True)
    plan = make_plan(given, options.run)
    try:
        source = open_features(given, memory=options.run.memory)
    except DataError as problem:
        if not arrays:
            raise
        found = Finding("as features", str(problem).removeprefix(f"{path}: "), "")
        return Description({"made by": made_by}, "pdac select --help", arrays, (), (found,))
    with source:
        with console.progress("looking", source.n) as tick:
            health = examine(source, plan, tick)
        source.check_unchanged()
        facts: Facts = {
            "rows": source.n,
            "features": source.n_features,
            "type": source.dtype.name,
            "shortest, mean, longest row": list(health.lengths or ()),
            "logits that agree with the label": health.logit_hits,
            "notes": "; ".join(note.removeprefix(f"{path}: ") for note in source.notes) or None,
            "made by": made_by,
            "fingerprint": source.fingerprint,
        }
        classes = _class_sizes(health.labels, health.counts, source.label_names)
    budget = max(1, min(10 * len(classes), source.n))
    command = f"pdac select --budget {budget} {shlex.quote(str(path))} -o coreset.json"
    return Description(facts, command, arrays, classes, health.findings)


def _images(path: Path) -> Description:
    with open_images(path, None) as images:
        labels, counts = np.unique(images.labels, return_counts=True)
        facts = {"images": shape_text(images.shape), "type": str(images.dtype), "made by": _provenance(path)}
        classes = _class_sizes(labels, counts, images.label_names)
    command = f"pdac extract --checkpoint NETWORK.pt --data {shlex.quote(str(path))} -o feats.h5"
    return Description(facts, command, _arrays(path), classes)


def _index(path: Path) -> Description:
    index = read_index(path)
    sources = [
        f"{', '.join(source.files) or 'no file'} (task {source.task}: {source.rows:,} rows, {source.fingerprint})"
        for source in index.sources
    ]
    suspects = index.suspects
    facts = {
        "rows kept": len(index.row),
        "method": index.method,
        "budget": index.budget,
        "seed": index.seed,
        "of": sources,
        "options": dict(index.options),
        "suspect labels": None if suspects is None else len(suspects.row),
    }
    classes = _class_sizes(*_counts(index.label), index.label_names)
    return Description(facts, f"pdac verify {shlex.quote(str(path))}", (), classes)


def _rows(path: Path) -> Description:
    rows = read_rows(path, None)
    facts = {"rows kept": len(rows), "from, to": [int(rows.min()), int(rows.max())] if len(rows) else None}
    return Description(facts, f"pdac verify {shlex.quote(str(path))} FEATS")


def _model(path: Path) -> Description:
    stored = read_model(path)
    model = stored.model
    steps = model.step_log_likelihood()
    facts = {
        "rows fitted on": int(model.counts.sum()),
        "features, dimensions, components": [model.mean.shape[1], model.W.shape[2], model.alpha.shape[1]],
        "mean log-likelihood, before and after": [float(steps[0]), float(steps[-1])],
        "EM steps": len(steps) - 1,
        "bytes of the density": model.size,
        "density shared by the classes": stored.space is not None,
        "seed": stored.seed,
        "options": dict(stored.options),
        "fingerprint": stored.fingerprint,
    }
    classes = _class_sizes(model.labels, model.counts, stored.label_names)
    return Description(facts, f"pdac select --budget N FEATS --model {shlex.quote(str(path))}", (), classes)


def _state(path: Path) -> Description:
    state = read_state(path)
    facts = {
        "features": state.features,
        "read": [f"{place.path}: {place.rows:,} of {place.total:,} rows" for place in state.places],
        "options": dict(state.options),
    }
    arrays = tuple(ArrayFacts(name, array.shape, str(array.dtype)) for name, array in sorted(state.arrays.items()))
    command = f"pdac stream FEATS --budget {state.options.get('budget')} -o buffer.json --state {_quoted(path)}"
    return Description(facts, command, arrays)


def _trace(path: Path) -> Description:
    found = read_trace(path)
    rows = found["rows"]
    facts = {"lines": len(rows), "rows of the stream": int(rows[-1]) if len(rows) else 0}
    return Description(facts, f"pdac report {_quoted(path)} -o report.html")


def _run(path: Path) -> Description:
    config = read_json(path / "config.json")
    facts: Facts = {"made by": {name: value for name, value in config.items() if isinstance(value, str | int | float)}}
    command = f"pdac report {_quoted(path)} -o report.html"
    if (path / "results.json").exists():
        found = read_json(path / "results.json").get("summary")
        for one in found if isinstance(found, list) else ():
            with suppress(TypeError, KeyError, AttributeError, ValueError):
                facts[str(one["method"])] = {"ACC": float(np.mean(one["acc"])), "seeds": len(one["seeds"])}
    else:
        facts["complete"], command = False, f"pdac train-cl --resume -o {_quoted(path)}"
    return Description(facts, command)


def _experiment(path: Path) -> Description:
    facts: Facts = {"files": len(list(path.glob("*.json")))}
    if (path / "results.json").exists():
        found = read_json(path / "results.json")
        cells = found.get("cells")
        facts |= {"title": str(found.get("title")), "cells": len(cells) if isinstance(cells, list) else 0}
    return Description(facts, f"pdac report {_quoted(path)} -o report.html")


def _parts(path: Path) -> Description:
    facts = {"parts": len(list(path.glob("rows-*.npz"))), "made by": read_json(path / "manifest.json")}
    return Description(facts, "the command that began it, again: it goes on")


def _checkpoint(path: Path) -> Description:
    return Description({}, f"pdac extract --checkpoint {_quoted(path)} --data IMAGES -o feats.h5")


_DESCRIBE: Mapping[FileKind, Callable[[Path], Description]] = {
    FileKind.IMAGES: _images,
    FileKind.MODEL: _model,
    FileKind.STATE: _state,
    FileKind.INDEX: _index,
    FileKind.ROWS: _rows,
    FileKind.TRACE: _trace,
    FileKind.RUN: _run,
    FileKind.EXPERIMENT: _experiment,
    FileKind.PARTS: _parts,
    FileKind.CHECKPOINT: _checkpoint,
}


def _arrays(path: Path) -> tuple[ArrayFacts, ...]:
    """Return the arrays of a file of features or images; those that cannot be read are left out."""
    found = []
    container = open_container(path, allow_external=False)
    try:
        for name in container.names():
            with suppress(DataError):
                array = container.get(name)
                found.append(ArrayFacts(name, array.shape, str(array.dtype)))
    finally:
        container.close()
    return tuple(found)


def _provenance(path: Path) -> Facts:
    """Return the settings that an HDF5 file carries."""
    with suppress(DataError), open_hdf5(path) as file:
        return dict(read_attributes(file))
    return {}


def _counts(labels: Array) -> tuple[Array, Array]:
    found: tuple[Array, Array] = np.unique(labels, return_counts=True)
    return found


def _class_sizes(labels: Array, counts: Array, names: tuple[str, ...] | None) -> tuple[ClassSize, ...]:
    pairs = zip(labels.tolist(), counts.tolist(), strict=True)
    return tuple(ClassSize(label, names[label] if names else None, count) for label, count in pairs)


def _size(path: Path) -> int:
    found = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
    return sum(each.stat().st_size for each in found)


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))

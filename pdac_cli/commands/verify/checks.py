"""What is checked of each kind of file, one line each."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.commands.verify import again
from pdac_cli.console import Console
from pdac_cli.engine.plan import count_classes, make_plan
from pdac_cli.errors import DataError
from pdac_cli.files.features import FeatureSet, open_features
from pdac_cli.files.formats.growing import open_first_rows
from pdac_cli.files.formats.labels import Seen
from pdac_cli.files.index.index_file import Index, IndexSource, read_index, read_rows
from pdac_cli.files.results.model import read_model
from pdac_cli.files.results.state import read_state
from pdac_cli.options.checks import require
from pdac_cli.options.shared import InputOptions
from pdac_cli.options.verify import VerifyOptions

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Check:
    """One thing that was checked."""

    name: str
    passed: bool | None  # None: it could not be checked
    found: str

    def word(self) -> str:
        """Return what came of it in a word."""
        return {True: "ok", False: "WRONG", None: "not checked"}[self.passed]


def index_checks(options: VerifyOptions, console: Console) -> Iterator[Check]:
    """Check an index against its feature files."""
    index = read_index(options.file)
    yield Check("contents", True, f"{len(index.row):,} rows, each once and within its source")
    over = len(index.row) > index.budget
    if over:
        yield Check("budget", False, f"{len(index.row):,} rows are kept and the budget is {index.budget:,}")
    sources = [input_of(options, index, k) for k in range(len(index.sources))]
    right = True
    for k, given in enumerate(sources):
        task = f" of task {index.sources[k].task}" if len(sources) > 1 else ""
        with open_features(given, memory=options.run.memory) as source:
            for check in _source_checks(index, k, source, given, task):
                right = right and check.passed is not False
                yield check
    if options.again and right and not over:
        yield _of_again(again.index_problem(index, sources, options, console), f"all {len(index.row):,} rows, in order")


def _source_checks(index: Index, k: int, source: FeatureSet, given: InputOptions, task: str) -> Iterator[Check]:
    """Check the rows that are kept of one feature set."""
    said = index.sources[k]
    name = ", ".join(source.files)
    if _fingerprint(source, said.rows, given) != said.fingerprint:
        found = f"{name}, of {source.n:,} rows, is not the set of {said.rows:,} rows that they were chosen from"
        yield Check(f"fingerprint{task}", False, found)
        return
    yield Check(f"fingerprint{task}", True, f"{name} is what they were chosen from")
    members = np.flatnonzero(index.source == k)
    try:
        wrong = _wrong_label(index, members, source)
    except DataError as problem:
        yield Check(f"labels{task}", False, str(problem).split(";")[0])
        return
    if wrong is None:
        yield Check(f"labels{task}", True, f"those of the file, in all {len(members):,} rows")
    else:
        yield Check(f"labels{task}", False, wrong)
    if index.ids is not None and source.has_ids:
        theirs = source.id_texts(index.row[members])
        same = sum(index.ids[k] == name for k, name in zip(members.tolist(), theirs, strict=True))
        found = f"{'those of the file, in all ' if same == len(members) else f'{same:,} of '}{len(members):,} rows"
        yield Check(f"ids{task}", same == len(members), found + ("" if same == len(members) else " have the file's"))


def _fingerprint(source: FeatureSet, rows: int, given: InputOptions) -> str:
    """Return that of the source's first rows: a stream's file may have grown since."""
    if source.n == rows:
        return source.fingerprint
    if source.n < rows or len(given.paths) > 1:
        return ""
    with open_first_rows(given, given.paths[0], rows) as first:
        return first.fingerprint


def _wrong_label(index: Index, members: Array, source: FeatureSet) -> str | None:
    """Return what is wrong with the first row (of positions (m,) in the index) whose label is not the file's."""
    members = members[np.argsort(index.row[members])]
    names, theirs = index.label_names, source.label_names
    for start in range(0, len(members), _ROWS_AT_ONCE):
        part = members[start : start + _ROWS_AT_ONCE]
        for k, label in zip(part.tolist(), source.read_rows(index.row[part]).y.tolist(), strict=True):
            said = int(index.label[k])
            shown = (names[said] if names else str(said), theirs[label] if theirs else str(label))
            if (names is None) != (theirs is None) or shown[0] != shown[1]:
                return f"row {index.row[k]:,} is of class {shown[1]}, the index says {shown[0]}"
    return None


def rows_checks(options: VerifyOptions, console: Console) -> Iterator[Check]:  # noqa: ARG001
    """Check row numbers, which say nothing of where they are from."""
    require(not options.again, f"--again needs recorded options, and {options.file} holds row numbers only; expected "
            "an index in .json or .h5")  # fmt: skip
    if not options.feats:
        raise DataError(
            f"{options.file}: holds row numbers only; expected the feature files they are rows of, after it; "
            "an index in .json or .h5 names its own"
        )
    with open_features(replace(options.input, paths=options.feats), memory=options.run.memory) as source:
        rows = read_rows(options.file, source.n)
        yield Check("contents", True, f"{len(rows):,} rows, each once, of the {source.n:,} there are")
    yield Check("fingerprint", None, "row numbers do not say what they are from")


def model_checks(options: VerifyOptions, console: Console) -> Iterator[Check]:
    """Check a model against the rows it was fitted on."""
    stored = read_model(options.file)
    require(
        bool(options.feats) or not options.again,
        f"--again fits anew, and a model does not name its files; expected them after {options.file}",
    )
    labels, counts = stored.model.labels, stored.model.counts
    yield Check("contents", True, f"densities of {len(labels):,} classes in {stored.model.mean.shape[1]:,} features")
    if not options.feats:
        yield Check("fingerprint", None, "a model does not name its files; give them after it")
        return
    given = replace(options.input, paths=options.feats)
    with open_features(given, memory=options.run.memory) as source:
        if source.fingerprint != stored.fingerprint:
            yield Check("fingerprint", False, f"{', '.join(source.files)} is another set than it was fitted on")
            return
        yield Check("fingerprint", True, f"{', '.join(source.files)} is what it was fitted on")
        classes = count_classes(source, make_plan(given, options.run), given)
        same = np.array_equal(classes.labels, labels) and np.array_equal(classes.counts, counts)
        found = f"fitted on {int(counts.sum()):,} rows of {len(labels):,} classes, the file has "
        found += "the same" if same else f"{classes.total:,} of {len(classes.labels):,} that can be used"
        yield Check("classes", same, found)
        if options.again and same:
            yield _of_again(again.model_problem(stored, source, classes, options, console), "the same densities")


def state_checks(options: VerifyOptions, console: Console) -> Iterator[Check]:  # noqa: ARG001
    """Check a stream's state against the rows it has read."""
    state = read_state(options.file)
    yield Check("contents", True, "as it was written")
    given = dict(zip((place.path for place in state.places), options.feats, strict=False))
    for place in state.places:
        path = given.get(place.path, place.path)
        known = _found(path, place.path, options)
        opened = replace(options.input, paths=(str(known),))
        with open_features(opened) as source:
            n = source.n
        same = n >= place.rows
        if same:
            with open_first_rows(opened, str(known), place.rows, seen=Seen(place.rows)) as source:
                same = source.fingerprint == place.fingerprint
        found = f"{known}: its first {place.rows:,} rows are {'' if same else 'not '}those that were read"
        yield Check("fingerprint", same, found)
    if options.again:
        yield _of_again(again.state_problem(state, list(given.values()), options), "every array the same")


def input_of(options: VerifyOptions, index: Index, k: int) -> InputOptions:
    """Return how the feature set of one of the index's sources is opened: the files given, or those it names."""
    given, said = options.feats, index.sources[k]
    recorded = {name: index.options[name] for name in again.INPUT_OPTIONS if index.options.get(name) is not None}
    chosen = {name: value for name, value in recorded.items() if name not in options.given}
    if len(index.sources) == 1 and given:
        return replace(options.input, paths=given, **chosen)  # type: ignore[arg-type]
    if given and len(given) != len(index.sources):
        raise DataError(
            f"{options.file}: is of {len(index.sources)} feature sets and {len(given)} files are given; "
            "expected one for each, in the order of its tasks, or none"
        )
    paths = (given[k],) if given else tuple(str(_found(name, name, options)) for name in _named(said, options))
    return replace(options.input, paths=paths, **chosen)  # type: ignore[arg-type]


def _named(said: IndexSource, options: VerifyOptions) -> tuple[str, ...]:
    if not said.files:
        raise DataError(f"{options.file}: names no feature file; expected one; give it after the index")
    return said.files


def _found(name: str, said: str, options: VerifyOptions) -> Path:
    """Return the path of a file that is named: as named, or from the folder of the file that names it."""
    beside = options.file.parent / name
    path = beside if not Path(name).exists() and os.path.lexists(beside) else Path(name)
    if not path.exists():
        raise DataError(f"{options.file}: was made from {said}, which is not there; expected it; give its path after")
    return path


def _of_again(problem: str | None, same: str) -> Check:
    return Check("derived anew", problem is None, problem or same)

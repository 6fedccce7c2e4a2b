"""Whether a model or a buffer comes from data like the one at hand: what is hardly meant is warned of."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pdac_cli.arrays import Source
from pdac_cli.console import Console
from pdac_cli.errors import ModelError, PdacError
from pdac_cli.files.features import open_features
from pdac_cli.files.index.index_file import Index
from pdac_cli.files.results.model import StoredModel
from pdac_cli.options.select import SelectOptions

_STREAMED = "batch"  # an option of models that `pdac stream` wrote, whose fingerprint is that of all its files


def check_model_origin(given: StoredModel, source: Source, options: SelectOptions, console: Console) -> None:
    """Warn of a model that was fitted on other rows; refuse it with --strict."""
    if given.fingerprint != source.fingerprint and _STREAMED not in given.options:
        _doubt(f"{options.model}: was fitted on other rows than these", "a model of this data", options, console)


def check_buffer_origin(before: Index, source: Source, options: SelectOptions, console: Console) -> None:
    """Warn where stored rows, if their files are still there, have other features; refuse them with --strict."""
    for earlier in before.sources:
        width = None
        if all(Path(name).is_file() for name in earlier.files):
            with suppress(PdacError), open_features(replace(options.input, paths=earlier.files)) as stored:
                width = stored.n_features
        if width not in (None, source.n_features):
            found = f"{options.buffer}: its rows of task {earlier.task} have {width:,} features"
            _doubt(f"{found}, these have {source.n_features:,}", "rows from one network", options, console)


def _doubt(found: str, expected: str, options: SelectOptions, console: Console) -> None:
    if options.strict:
        raise ModelError(f"{found}; --strict expects {expected}; leave --strict out to go on")
    console.warn(f"{found}; expected {expected}; --strict refuses it")

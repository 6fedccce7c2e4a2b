"""Opening feature files for a command."""

from __future__ import annotations

from pdac_cli.console import Console
from pdac_cli.files.features import FeatureSet, open_features
from pdac_cli.options.shared import InputOptions


def open_input(options: InputOptions, console: Console) -> FeatureSet:
    """Open the files as one set and tell the user what was found under which names."""
    source = open_features(options)
    for note in source.notes:
        console.note(f"note: {note}")
    return source


def tell_left_out(source: FeatureSet, options: InputOptions, console: Console) -> None:
    """After a pass over the rows, tell the user how many were not used."""
    if source.dropped:
        console.warn(f"{source.dropped:,} of {source.n:,} rows with NaN or infinity left out")
    if source.ignored:
        console.note(f"note: {source.ignored:,} of {source.n:,} rows with label {options.ignore_label} left out")

"""Kept rows as a table for other programs: comma-separated values, and Parquet, which Embedding Atlas opens."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from pdac_cli.errors import UsageError
from pdac_cli.files.index.index_file import index_suffix, write_index
from pdac_cli.files.index.index_schema import Index
from pdac_cli.reports.table import Table
from pdac_cli.storage.atomic import write_bytes

_FORMS = (".csv", ".parquet")


def check_form(path: Path) -> str:
    """Return which form a path asks for, before long work; refuse one that could not be written."""
    if path.suffix not in _FORMS:
        return index_suffix(path, _FORMS)
    if path.suffix == ".parquet":
        check_parquet()
    return path.suffix


def write_selection(index: Index, path: Path, force: bool, by_id: bool = False) -> None:
    """Write an index, or the table of what it keeps, by the suffix."""
    if path.suffix not in _FORMS:
        write_index(index, path, force, by_id)
    else:
        write_bytes(path, index_to_csv(index) if path.suffix == ".csv" else index_to_parquet(index), force)


def columns_of(index: Index) -> dict[str, Any]:
    """Return the columns, a value for each kept row in order of ranking; those that nobody knows are left out."""
    suspects = {}
    if index.suspects is not None:
        suspects = dict(zip(index.suspects.row.tolist(), index.suspects.likely.tolist(), strict=True))
    names, last = index.label_names, len(index.sources) - 1
    found: dict[str, Any] = {"row": index.row.tolist()}
    if index.ids is not None:
        found["id"] = [
            text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for text in index.ids
        ]
    files = [source.files[0] if len(source.files) == 1 else "" for source in index.sources]
    if any(files):
        found["file"] = [files[k] for k in index.source.tolist()]
    found["task"] = index.task.tolist()
    found["label"] = index.label.tolist()
    if names is not None:
        found["class"] = [names[label] for label in index.label.tolist()]
    found["rank"] = list(range(1, len(index.row) + 1))
    for name, values in (("log_density", index.log_density), ("score", index.score)):
        if values is not None and not np.isnan(values).all():
            found[name] = [None if np.isnan(value) else value for value in values.tolist()]
    if index.suspects is not None:
        found["suspect"] = [
            source == last and row in suspects
            for source, row in zip(index.source.tolist(), index.row.tolist(), strict=True)
        ]
    return found


def index_to_csv(index: Index) -> bytes:
    """Return a line for each kept row under the columns' names; no text is one that a spreadsheet computes."""
    found = columns_of(index)
    shown = [[str(value).lower() if isinstance(value, bool) else value for value in row]
             for row in zip(*found.values(), strict=True)]  # fmt: skip
    return Table.of(found, shown).csv().encode("utf-8", "backslashreplace")


def index_to_parquet(index: Index) -> bytes:
    """Return the same as Parquet."""
    check_parquet()
    import pyarrow as pa
    import pyarrow.parquet as pq

    memory = io.BytesIO()
    pq.write_table(pa.table(columns_of(index)), memory)
    return memory.getvalue()


def check_parquet() -> None:
    """Refuse, before long work, what cannot be written at its end."""
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError:
        raise UsageError(
            "-o ends in .parquet and pyarrow is not installed; expected it; install it with pip install pyarrow, or "
            "write .csv"
        ) from None


def _text(name: str) -> str:
    """Return an id as text that every program takes: bytes that are no UTF-8 are escaped."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")

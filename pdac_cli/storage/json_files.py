"""JSON that somebody else may have written: no size, depth or number in it does harm."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pdac_cli.errors import DataError
from pdac_cli.storage.reading import plain, reading

_MAX_BYTES = 1 << 28  # two million kept rows
_FREE_BYTES = 1 << 16  # so much may be of any form
# Python takes some fifty bytes for any value, however short its text: what is denser than anything we write would grow
# many times over.  Our densest are kept rows, of 6.5 bytes a value and its name, and lists of names.
_BYTES_PER_VALUE, _BYTES_PER_QUOTE = 5, 4


def parse_json(path: Path, expected: str) -> Any:
    """What the file says, or a :class:`DataError`."""
    size = path.stat().st_size
    if size > _MAX_BYTES:
        raise DataError(f"{path}: has {size:,} bytes; expected {expected} of at most {_MAX_BYTES:,}; write it as .h5")
    with reading(path, "the file"):
        data = path.read_bytes()
    values = sum(data.count(sign) for sign in b"{[,:")
    if max(values * _BYTES_PER_VALUE, data.count(b'"') * _BYTES_PER_QUOTE) > len(data) + _FREE_BYTES:
        raise DataError(f"{path}: has {values:,} values in {size:,} bytes; expected {expected}; write it again")
    try:
        return json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError, MemoryError) as problem:
        reason = "nested too deeply" if isinstance(problem, RecursionError) else plain(problem)
        raise DataError(f"{path}: is not valid JSON ({reason}); expected {expected}; write it again") from problem


def parsed_object(text: object) -> dict[str, Any] | None:
    """The JSON object that a short text is; None if it is not one."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")

"""The rows a buffer already holds, read again from their feature files for methods that compare new rows with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pdac_cli.commands.head import HeadSource
from pdac_cli.commands.offering import NamedSource
from pdac_cli.console import Console
from pdac_cli.density.blocks import Array
from pdac_cli.errors import DataError
from pdac_cli.files.features import Chunk, open_features
from pdac_cli.files.index import Index, Source
from pdac_cli.options.select import SelectOptions
from pdac_cli.options.shared import InputOptions
from pdac_cli.selection.gradients import residuals
from pdac_cli.selection.rows import Reference


def stored_rows(
    source: NamedSource, logits: int, before: Index, options: SelectOptions, console: Console
) -> Reference | None:
    """Return the stored rows with what their logits leave unexplained; None, with a warning, where they have none."""
    left_out = f"--method {options.method} goes on without comparing new rows with the stored ones"
    if isinstance(source, HeadSource):
        console.warn(f"a head trained on this file knows nothing of the stored rows' classes; {left_out}")
        return None
    found: list[tuple[Array, Array]] = []
    for k, earlier in enumerate(before.sources):
        try:
            chunk = _read(earlier, before.row[before.source == k], options.input)
        except DataError as problem:
            console.warn(f"the stored rows cannot be read ({problem}); {left_out}")
            return None
        if chunk.logits is None or chunk.h.shape[1] != source.dim or chunk.logits.shape[1] != logits:
            console.warn(f"{', '.join(earlier.files)}: its features or logits are of another width; {left_out}")
            return None
        found.append((chunk.h.astype(np.float64), residuals(chunk.logits, chunk.y)))
    h, e = (np.concatenate(part) for part in zip(*found, strict=True))
    return Reference(h, e)


def _read(source: Source, rows: Array, options: InputOptions) -> Chunk:
    with open_features(replace(options, paths=source.files)) as files:
        if files.fingerprint != source.fingerprint:
            raise DataError(f"{', '.join(source.files)}: is not the file it was, by its fingerprint")
        return files.read_rows(rows, logits=True)

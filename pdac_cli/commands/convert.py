"""``pdac convert``: feature files of any form to one of another, whole or in shards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdac_cli.arrays import Chunk
from pdac_cli.console import Console
from pdac_cli.engine.plan import make_plan
from pdac_cli.errors import DataError, PdacError, Stopped, UsageError
from pdac_cli.files.featureset import FeatureSet
from pdac_cli.files.row_writers import RowsToWrite, row_writer
from pdac_cli.options.convert import ConvertOptions
from pdac_cli.pipeline.row_access import open_input, report_unused_rows
from pdac_cli.reports.table import facts
from pdac_cli.storage.atomic import check_output, write_bytes
from pdac_cli.storage.json_files import parse_json
from pdac_cli.storage.signals import SIGNALS, stop_requests


@dataclass(frozen=True)
class ConvertSummary:
    """What a conversion reports."""

    output: str
    rows: int
    n_features: int
    dtype: str
    shards: int
    resumed: int  # shards that an earlier run had written
    warnings: list[str]

    def text(self) -> str:
        """Return the summary for people."""
        lines = {
            "features": self.output,
            "rows, features, type": f"{self.rows:,}, {self.n_features:,}, {self.dtype}",
            "shards": f"{self.shards:,}" if self.shards > 1 else "",
            "done by an earlier run": f"{self.resumed:,}" if self.resumed else "",
        }
        return facts({name: value for name, value in lines.items() if value})


@dataclass(frozen=True)
class _Shard:
    """Rows start to stop of the set, in a file of their own."""

    path: Path
    start: int
    stop: int


def run(options: ConvertOptions) -> ConvertSummary:
    """Write the rows, shard by shard; those that an earlier run finished stay."""
    console = Console.of(options.run)
    with (
        open_input(options.input, console, options.run.memory) as source,
        stop_requests(SIGNALS if options.shard_rows else ()) as stopping,
    ):
        at_once = make_plan(options.input, options.run).rows_at_once(source)
        about = _about(source, options, at_once)
        shards = _shards(options, source.n)
        done = _settle(options, source, about, shards)
        written = 0
        with console.progress("converting", source.n) as tick:
            for shard in shards:
                if shard.path in done:
                    tick(shard.stop - shard.start)
                    continue
                written += _write(source, shard, about, options, at_once, stopping, tick)
        report_unused_rows(source, options.input, console)
        source.check_unchanged()
    if done:
        console.note(f"note: {len(done):,} of {len(shards):,} shards were written by an earlier run")
    rows = written + sum(shard.stop - shard.start for shard in shards if shard.path in done)
    return ConvertSummary(
        str(options.output), rows, about.n_features, about.dtype.name, len(shards), len(done), console.warnings
    )


def _about(source: FeatureSet, options: ConvertOptions, at_once: int) -> RowsToWrite:
    dtype = source.dtype if options.dtype is None else np.dtype(options.dtype.value)
    n_logits = None
    if source.has_logits:
        first = next(source.chunks(1, logits=True)).logits
        n_logits = None if first is None else int(first.shape[1])
    labelled = not options.input.no_labels
    return RowsToWrite(
        source.n_features, dtype, n_logits, source.label_names if labelled else None, labelled,
        _id_type(source, at_once),
    )  # fmt: skip


def _id_type(source: FeatureSet, at_once: int) -> np.dtype[Any] | None:
    """What ids are stored as: whole numbers, or bytes as long as the longest."""
    if not source.has_ids:
        return None
    if source.read_ids(np.arange(1)).dtype.kind in "iu":
        return np.dtype(np.int64)
    longest = 1
    for start in range(0, source.n, at_once):
        texts = source.id_texts(np.arange(start, min(source.n, start + at_once)))
        longest = max(longest, *(len(text.encode("utf-8", "surrogateescape")) for text in texts))
    return np.dtype(f"S{longest}")


def _shards(options: ConvertOptions, rows: int) -> list[_Shard]:
    path, size = options.output, options.shard_rows
    if size is None:
        return [_Shard(path, 0, rows)]
    return [
        _Shard(path.with_name(f"{path.stem}-{k:05d}{path.suffix}"), start, min(rows, start + size))
        for k, start in enumerate(range(0, rows, size))
    ]


def _settle(options: ConvertOptions, source: FeatureSet, about: RowsToWrite, shards: list[_Shard]) -> set[Path]:
    """Return the shards that are there already, held to what they were made of by a list beside them."""
    inputs = list(source.paths)
    if options.shard_rows is None:
        check_output(options.output, inputs, options.run.force)
        return set()
    listed = options.output.with_name(f"{options.output.stem}.shards.json")
    said = {
        "format": "pdac-shards 1", "fingerprint": source.fingerprint, "rows": source.n,
        "shard_rows": options.shard_rows,
        "dtype": about.dtype.name, "labels": about.labelled, "files": [shard.path.name for shard in shards],
        "drop_nonfinite": options.input.drop_nonfinite, "ignore_label": options.input.ignore_label,
    }  # fmt: skip
    known: object = None
    if listed.exists() and not options.run.force:
        known = parse_json(listed, "the list of a conversion's shards")
        if known != said:
            raise UsageError(
                f"{listed}: is of another conversion; expected the same rows and options; run the first command again "
                "to finish it, give another --output, or add --force to begin anew"
            )
    there = {shard.path for shard in shards if shard.path.exists()} if known is not None else set[Path]()
    check_output(listed, inputs, force=True)
    for shard in shards:  # those that are there, too: a killed run may have left a temporary beside them
        check_output(shard.path, inputs, options.run.force or shard.path in there)
    if known is None:
        write_bytes(listed, json.dumps(said, indent=1).encode(), force=True)
    return there


def _write(
    source: FeatureSet, shard: _Shard, about: RowsToWrite, options: ConvertOptions, at_once: int,
    stopping: Callable[[], bool], tick: Callable[[int], None],
) -> int:  # fmt: skip
    """Write one file; return how many rows it has."""
    rows = shard.stop - shard.start
    if options.input.drop_nonfinite or options.input.ignore_label is not None:
        rows = sum(len(chunk.ids) for chunk in _pieces(source, shard, at_once, logits=False))
        if rows == 0:
            raise DataError(f"{shard.path}: no usable row is left for it; expected at least one; take larger shards")
    with row_writer(shard.path, about, rows, options.run.force) as append:
        for chunk in _pieces(source, shard, at_once, logits=about.n_logits is not None):
            columns = {"features": chunk.h, "labels": chunk.y}
            if chunk.logits is not None:
                columns["logits"] = chunk.logits
            if about.ids is not None:
                columns["ids"] = _ids(source, chunk, about.ids)
            append(columns)
            tick(len(chunk.ids))
            if stopping():
                raise _stopped(shard)
    return rows


def _stopped(shard: _Shard) -> PdacError:
    return Stopped(
        f"stopped before {shard.path.name} was complete; the shards before it are kept; "
        "run the same command again to go on"
    )


def _ids(source: FeatureSet, chunk: Chunk, dtype: np.dtype[Any]) -> Any:
    if dtype.kind != "S":
        return source.read_ids(chunk.ids).astype(dtype)
    return np.array([text.encode("utf-8", "surrogateescape") for text in source.id_texts(chunk.ids)], dtype)


def _pieces(source: FeatureSet, shard: _Shard, at_once: int, *, logits: bool) -> Iterator[Chunk]:
    """Yield the usable rows of a shard."""
    for chunk in source.chunks(at_once, logits=logits, start=shard.start):
        own = chunk.ids < shard.stop
        if own.any():
            beside = None if chunk.logits is None else chunk.logits[own]
            yield Chunk(chunk.ids[own], chunk.h[own], chunk.y[own], beside)
        if not own.all():
            return

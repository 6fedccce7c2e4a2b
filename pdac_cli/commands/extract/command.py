"""``pdac extract``: a checkpoint and images to a feature file, resumable and by shards."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass

import numpy as np

from pdac_cli.commands.extract.plan import Job, open_job
from pdac_cli.console import Console, size_text
from pdac_cli.errors import DataError, Stopped, StorageError
from pdac_cli.files.results.parts import Columns, Parts, open_parts
from pdac_cli.files.results.shards import write_blocks
from pdac_cli.learning.data.images import Bad
from pdac_cli.learning.extraction import ExtractedBatch
from pdac_cli.options.extract import ExtractOptions
from pdac_cli.reports.table import facts
from pdac_cli.storage.atomic import free_space
from pdac_cli.storage.signals import stop_requests

_PART_SECONDS = 20.0  # the most work that a kill can undo
_PART_BYTES = 1 << 26
_COLUMNS = ("rows", "features", "logits", "bad")  # of a part


@dataclass(frozen=True)
class ExtractSummary:
    """What an extraction reports."""

    output: str
    rows: int
    n_features: int
    n_logits: int
    n_classes: int
    shard: str | None
    resumed: int  # images that an earlier run had done
    images_per_second: float | None
    device: str
    attributes: dict[str, str | int | float]
    skipped: int
    skipped_images: list[dict[str, str]]  # path and reason
    warnings: list[str]

    def text(self) -> str:
        """Return the summary for people."""
        speed = f"{self.images_per_second:,.1f} on {self.device}" if self.images_per_second else "none were left to do"
        lines = {
            "features": self.output,
            "rows, features, logits": f"{self.rows:,}, {self.n_features:,}, {self.n_logits:,}",
            "network": f"{self.attributes['arch']}, {self.attributes['layer']}",
            "images per second": speed,
            "shard": self.shard or "",
            "done by an earlier run": f"{self.resumed:,}" if self.resumed else "",
            "skipped": f"{self.skipped:,}" if self.skipped else "",
        }
        return facts({name: value for name, value in lines.items() if value})


def run(options: ExtractOptions) -> ExtractSummary:
    """Run the network over the images and write features, labels, logits and ids."""
    console = Console.of(options.run)
    with ExitStack() as stack, stop_requests() as stopping:
        job = open_job(options, stack, console)
        _check_space(options, job)
        start, stop = job.place.start, job.place.stop
        with open_parts(options.output, job.manifest, start, stop, options.run.force) as parts:
            resumed = parts.done - start
            if resumed:
                console.note(f"note: {resumed:,} of {stop - start:,} images were done by an earlier run")
            seconds = _extract(job, parts, options, console, stopping)
            skipped = _skipped(parts, options, console)
            attributes = {**job.attributes, "skipped": len(skipped)}
            _assemble(job, parts, options, attributes, stopping)
            parts.remove()
    extractor, done = job.extractor, stop - start - resumed
    return ExtractSummary(
        str(options.output),
        stop - start - len(skipped),
        extractor.network.n_features,
        extractor.network.num_classes if options.logits else 0,
        len(np.unique(job.images.labels[start:stop])),
        None if options.shard is None else f"{job.place.index} of {job.place.count} (rows {start:,} to {stop:,})",
        resumed,
        round(done / seconds, 1) if done else None,
        str(extractor.device),
        dict(sorted(attributes.items())),
        len(skipped),
        [{"path": bad.name, "reason": bad.reason} for bad in skipped],
        console.warnings,
    )


def _extract(job: Job, parts: Parts, options: ExtractOptions, console: Console, stopping: Callable[[], bool]) -> float:
    """Run over what is not done yet, storing parts; return the seconds it took."""
    begun = written = time.monotonic()
    held: list[ExtractedBatch] = []
    batches = job.extractor.batches(job.images, parts.done, parts.stop)
    with closing(batches), console.progress("extracting", parts.stop - parts.start) as tick:
        tick(parts.done - parts.start)
        for batch in batches:
            if batch.bad and not options.skip_bad:
                raise _unreadable(batch.bad[0])
            held.append(batch)
            tick(batch.stop - batch.start)
            size = sum(batch.h.nbytes + batch.logits.nbytes for batch in held)
            late = time.monotonic() - written > _PART_SECONDS
            if late or size > _PART_BYTES or stopping() or batch.stop == parts.stop:
                parts.append(batch.stop, _columns(held))
                written, held = time.monotonic(), []
            _check_stop(stopping, parts)
    return time.monotonic() - begun


def _check_stop(stopping: Callable[[], bool], parts: Parts) -> None:
    if stopping():
        raise Stopped(
            f"stopped after {parts.done - parts.start:,} of {parts.stop - parts.start:,} images; "
            "they are kept; run the same command again to go on"
        )


def _columns(held: list[ExtractedBatch]) -> Columns:
    bad = [(bad.row, bad.name, bad.reason) for batch in held for bad in batch.bad]
    return {
        "rows": np.concatenate([batch.rows for batch in held]),
        "features": np.concatenate([batch.h for batch in held]),
        "logits": np.concatenate([batch.logits for batch in held]),
        "bad": np.frombuffer(json.dumps(bad).encode(), np.uint8),
    }


def _skipped(parts: Parts, options: ExtractOptions, console: Console) -> list[Bad]:
    """List the images that could not be read, those of earlier runs among them."""
    skipped = [Bad(*bad) for part in parts.read(_COLUMNS) for bad in json.loads(part["bad"].tobytes())]
    if skipped and not options.skip_bad:
        raise _unreadable(skipped[0])
    for bad in skipped:
        console.warn(f"{bad.name}: skipped ({bad.reason})")
    if len(skipped) == parts.stop - parts.start:
        raise DataError(f"{skipped[0].name} and all other images cannot be read; expected at least one that can")
    return skipped


def _unreadable(bad: Bad) -> DataError:
    return DataError(
        f"{bad.name}: cannot be read as an image ({bad.reason}); expected an undamaged one; "
        "repair or remove it, or add --skip-bad"
    )


def _assemble(
    job: Job, parts: Parts, options: ExtractOptions, attributes: dict[str, str | int | float],
    stopping: Callable[[], bool],
) -> None:  # fmt: skip
    """Write the output from the finished parts."""
    network, kind = job.extractor.network, options.dtype.value
    like = {"features": np.empty((0, network.n_features), kind)}
    if options.logits:
        like["logits"] = np.empty((0, network.num_classes), kind)

    def pieces() -> Iterator[Columns]:
        for part in parts.read(_COLUMNS):
            _check_stop(stopping, parts)
            rows = part["rows"]
            yield {
                "features": part["features"],
                "labels": job.images.labels[rows],
                **({"logits": part["logits"]} if options.logits else {}),
                "ids": job.images.ids[rows],
            }

    write_blocks(options.output, pieces(), like, job.images.label_names, attributes, options.run.force)


def _check_space(options: ExtractOptions, job: Job) -> None:
    """Refuse, before long work, a disk without room for the parts and the output."""
    network = job.extractor.network
    row = (
        (network.n_features + network.num_classes) * np.dtype(options.dtype.value).itemsize
        + job.images.ids.itemsize
        + 8
    )
    needed = 2 * row * (job.place.stop - job.place.start)
    free = free_space(options.output)
    if free < needed:
        raise StorageError(
            f"{options.output}: {size_text(free)} are free; expected {size_text(needed)} for parts and output; "
            "write elsewhere, use --dtype float16 or --shard i/n"
        )

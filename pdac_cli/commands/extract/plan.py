"""All that an extraction needs and all that decides its result, settled and checked before the work begins."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdac_cli.console import Console
from pdac_cli.engine.resources import default_jobs
from pdac_cli.errors import UsageError
from pdac_cli.files.formats.images import open_images
from pdac_cli.files.results.parts import drop_superfluous, extraction_of
from pdac_cli.files.results.shards import Attributes, ShardPlace
from pdac_cli.learning.data.datasets import open_dataset, open_folder, scheme_of
from pdac_cli.learning.data.images import ArrayImages, Images, encoded
from pdac_cli.learning.data.preprocessing import CONVENTIONS, Convention, Preprocessing, contradiction, own_size, settle
from pdac_cli.learning.devices import choose_device, torch_version
from pdac_cli.learning.extraction import Extractor
from pdac_cli.learning.networks.checkpoints import Checkpoint, load_checkpoint
from pdac_cli.learning.networks.networks import Built, build_network
from pdac_cli.learning.networks.weights import published
from pdac_cli.options.extract import ExtractOptions
from pdac_cli.options.text import ARRAY_TASK, SLURM
from pdac_cli.storage.atomic import check_output
from pdac_cli.storage.reading import check_readable

FORMAT = "pdac-extract 1"
ARRAYS = "arrays"  # image arrays follow no convention of preprocessing


@dataclass(frozen=True)
class Job:
    """Rows ``place.start`` to ``place.stop`` of the images, and the network to run on them."""

    images: Images
    extractor: Extractor
    place: ShardPlace
    manifest: dict[str, Any]  # what a rerun must have in common to go on
    attributes: Attributes  # of the output


def open_job(options: ExtractOptions, stack: ExitStack, console: Console) -> Job:
    """Open the images and the network; refuse now what would fail later."""
    device = choose_device(options.device)
    if options.shard is None and ARRAY_TASK in os.environ:
        console.note(
            f"note: {ARRAY_TASK} is set and all images are extracted; for this task's part add --shard {SLURM}"
        )
    scheme, data = scheme_of(options.data)
    _check_output(options, [data] if scheme is None else [])
    checkpoint, usual = _open_checkpoint(options)
    for note in checkpoint.notes:
        console.note(f"note: {note}")
    built = build_network(checkpoint, options.arch)
    images = _open_images(options, scheme, data, stack)
    how = settle(options.preprocessing, checkpoint.meta, usual or _usual(images.kind, built), built.channels)
    console.note(f"note: {_described(how)}")
    problem = contradiction(how, built.small_images, checkpoint.meta, usual)
    if problem:
        console.warn(
            f"{problem}; features of images prepared otherwise are worse; give the network's with --mean --std"
        )
    if options.logits and built.has_flat_head:
        console.warn(
            f"the head {built.layer!r} gives all classes equal logits, as if it was never trained; "
            "what is chosen by logits would be arbitrary; leave them out with --no-logits"
        )
    extractor = Extractor(
        built.network, how, images.size(how), device, options.batch_size, options.amp, options.dtype,
        options.run.jobs or default_jobs(), options.logits,
    )  # fmt: skip
    extractor.check()
    facts = _facts(options, checkpoint, built, images, extractor)
    place = _place(options, len(images.labels))
    manifest = {**facts, "shard": f"{place.index}/{place.count}"}
    attributes: Attributes = {
        **facts,
        "checkpoint": checkpoint.path.name,
        "source": data.resolve().name if scheme is None else f"{scheme}:{data.resolve().name}",
        "extraction": extraction_of(facts),
        **(place.attributes() if options.shard else {}),
    }
    return Job(images, extractor, place, manifest, attributes)


def _check_output(options: ExtractOptions, inputs: list[Path]) -> None:
    path = options.output
    special = path.exists() and not stat.S_ISREG(path.stat().st_mode) and not path.is_dir()
    if special or path.is_relative_to("/dev") or path.is_relative_to("/proc"):
        raise UsageError(f"--output is {path}, no regular file; expected one, for parts are kept beside it")
    drop_superfluous(path)
    check_output(path, [*inputs, *([options.checkpoint] if options.checkpoint else [])], options.run.force)


def _open_checkpoint(options: ExtractOptions) -> tuple[Checkpoint, Convention | None]:
    """The checkpoint and, for published weights, the preprocessing that belongs to them."""
    if options.checkpoint is not None:
        check_readable(options.checkpoint, "a checkpoint")
        return load_checkpoint(options.checkpoint), None
    path, usual = published(str(options.arch), str(options.weights))
    return load_checkpoint(path), usual


def _open_images(options: ExtractOptions, scheme: str | None, data: Path, stack: ExitStack) -> Images:
    if scheme is not None:
        return open_dataset(scheme, data, options.split, options.download, options.classes)
    if not data.is_file():
        return open_folder(data, options.split, options.classes)
    if options.classes:
        raise UsageError(
            f"--classes is given and {data} is an array file; expected a folder of images or tinyimagenet:PATH; "
            "leave it out"
        )
    stored = stack.enter_context(open_images(data, options.split))
    return ArrayImages(
        ARRAYS, data, stored.take, stored.shape, stored.dtype, stored.rows, encoded(stored.ids), stored.labels,
        stored.label_names,
    )  # fmt: skip


def _usual(kind: str, built: Built) -> Convention:
    usual = CONVENTIONS.get(kind, Convention())
    return own_size(usual) if built.small_images else usual


def _described(how: Preprocessing) -> str:
    return "preprocessing: " + ", ".join(f"{name} {value}" for name, value in how.attributes().items())


def _facts(
    options: ExtractOptions, checkpoint: Checkpoint, built: Built, images: Images, extractor: Extractor
) -> dict[str, str | int]:
    """Everything that decides the features, whatever the shard."""
    return {
        "extract_format": FORMAT,
        "checkpoint_sha256": checkpoint.sha256,
        "images": images.digest,
        "image_count": len(images.labels),
        "data": images.kind,
        "split": options.split.value if options.split else "default",
        "arch": built.arch,
        "layer": f"input of {built.layer}",
        **extractor.how.attributes(),
        "image_size": "x".join(map(str, extractor.size)),
        "device": extractor.device.type,
        "amp": options.amp.value,
        "dtype": options.dtype.value,
        "batch_size": options.batch_size,
        "torch": torch_version(),
        **({} if options.logits else {"logits": "none"}),
    }


def _place(options: ExtractOptions, rows: int) -> ShardPlace:
    """Cut the rows evenly; a batch that two shards share is run by both, for which rows share one must not change."""
    index, count = options.shard or (0, 1)
    if count > rows:
        raise UsageError(
            f"--shard is {index}/{count} and there are {rows:,} images; expected at least one for each shard; "
            "use fewer shards"
        )
    return ShardPlace(index, count, rows * index // count, rows * (index + 1) // count)

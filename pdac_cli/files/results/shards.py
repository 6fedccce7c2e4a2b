"""Feature files that are shards of one extraction, and the whole made of them: a copy, or a virtual file.

A shard says in its attributes which extraction it is of, which rows of it it holds and how many shards there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from pdac_cli.errors import DataError
from pdac_cli.files.feature_writer import FORMAT, FeatureWriter
from pdac_cli.files.formats.attributes import Attribute, read_attributes
from pdac_cli.files.formats.hdf5 import has_link, open_hdf5
from pdac_cli.files.formats.hdf5_datasets import get_dataset
from pdac_cli.files.formats.labels import read_names
from pdac_cli.files.formats.row_arrays import Hdf5Array
from pdac_cli.files.results.parts import Columns, reblocked
from pdac_cli.storage.reading import shape_text

COLUMNS = ("features", "labels", "logits", "ids")
_SHARD_NUMBERS = ("shard_index", "shard_count", "shard_start", "shard_stop", "skipped")
_OWN = ("format", "version", "fingerprint", *_SHARD_NUMBERS)  # what the merged file has of its own
_BLOCK_BYTES, _BLOCK_ROWS = 1 << 25, 4096
Attributes = dict[str, Attribute]


@dataclass(frozen=True)
class ShardPlace:
    """Which part of an extraction a file holds: shard ``index`` of ``count``, rows ``start`` to ``stop``."""

    index: int
    count: int
    start: int
    stop: int

    def attributes(self) -> Attributes:
        """As attributes of the shard's file."""
        return {f"shard_{name}": value for name, value in vars(self).items()}


@dataclass(frozen=True)
class Shard:
    """An open shard, checked by itself."""

    path: Path
    place: ShardPlace
    skipped: int
    attributes: Attributes  # those all shards have in common
    columns: dict[str, Hdf5Array]
    label_names: tuple[str, ...] | None

    @property
    def rows(self) -> int:
        """How many rows the file has; images that could not be read have none."""
        return self.columns["features"].shape[0]


def open_shards(paths: Sequence[Path], stack: ExitStack) -> list[Shard]:
    """Open all shards of one extraction, in order; refuse a shard that is missing, there twice or of another one."""
    shards = sorted((_open(path, stack) for path in paths), key=lambda shard: shard.place.index)
    first = shards[0]
    for shard in shards[1:]:
        _check_alike(first, shard)
    for before, shard in itertools.pairwise(shards):
        if before.place.index == shard.place.index:
            raise DataError(
                f"{shard.path}: is shard {shard.place.index}, as {before.path} is; expected every shard once; "
                "leave one out"
            )
    missing = sorted(set(range(first.place.count)) - {shard.place.index for shard in shards})
    if missing:
        shown = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
        raise DataError(
            f"{len(missing):,} of {first.place.count:,} shards missing: {shown}; expected every shard once; "
            f"extract with --shard {missing[0]}/{first.place.count}"
        )
    return shards


def write_merged(path: Path, shards: Sequence[Shard], force: bool) -> None:
    """Write one file with all rows in order, the same bytes as an extraction without shards gives."""
    write_blocks(path, _pieces(shards), shards[0].columns, shards[0].label_names, merged_attributes(shards), force)


def write_blocks(
    path: Path, pieces: Iterator[Columns], like: Mapping[str, Any], names: Sequence[str] | None, attributes: Attributes,
    force: bool,
) -> None:  # fmt: skip
    """Write a feature file in blocks whose size depends on a row's alone, so that equal rows make equal bytes.

    ``like`` has the columns' shapes (…, D), (…, K) and types.
    """
    h, logits = like["features"], like.get("logits")
    row_bytes = h.dtype.itemsize * (h.shape[1] + (logits.shape[1] if logits is not None else 0))
    rows = max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // row_bytes))
    classes = None if logits is None else logits.shape[1]
    ordered = dict(sorted(attributes.items()))
    with FeatureWriter(
        path, h.shape[1], dtype=h.dtype, n_logits=classes, label_names=names, attrs=ordered, force=force
    ) as writer:
        for block in reblocked(pieces, rows):
            writer.append(block["features"], block["labels"], block.get("logits"), block.get("ids"))


def merged_attributes(shards: Sequence[Shard]) -> Attributes:
    """What the shards have in common, with the images left out counted over all."""
    return {**shards[0].attributes, "skipped": sum(shard.skipped for shard in shards)}


def _pieces(shards: Sequence[Shard]) -> Iterator[Columns]:
    for shard in shards:
        for start in range(0, shard.rows, _BLOCK_ROWS):
            stop = min(shard.rows, start + _BLOCK_ROWS)
            yield {name: array.read(start, stop) for name, array in shard.columns.items()}


def _open(path: Path, stack: ExitStack) -> Shard:
    file = open_hdf5(path)
    stack.callback(file.close)
    return _read(file, path)


def _read(file: h5py.File, path: Path) -> Shard:
    """Return what an open file says it is, checked."""
    found = read_attributes(file)
    missing = [name for name in ("extraction", *_SHARD_NUMBERS) if name not in found]
    if found.get("format") != FORMAT or missing:
        what = f"no attribute '{missing[0]}'" if missing else "another format"
        raise DataError(f"{path}: is no shard ({what}); expected files of pdac extract --shard i/n")
    numbers = {name: value for name in _SHARD_NUMBERS if isinstance(value := found[name], int)}
    if len(numbers) < len(_SHARD_NUMBERS):
        raise DataError(f"{path}: its attributes are damaged; expected whole numbers; extract it again")
    place = ShardPlace(*(numbers[name] for name in _SHARD_NUMBERS[:4]))
    arrays = {name: Hdf5Array(get_dataset(file, name, False), path, name) for name in COLUMNS if has_link(file, name)}
    names = None
    if has_link(file, "label_names"):
        names = read_names(Hdf5Array(get_dataset(file, "label_names", False), path, "label_names"), path, "label_names")
    attributes = {name: value for name, value in found.items() if name not in _OWN}
    shard = Shard(path, place, numbers["skipped"], attributes, arrays, names)
    _check_rows(shard)
    return shard


def _check_rows(shard: Shard) -> None:
    """Refuse a shard whose columns are not as long as its attributes say."""
    expected = shard.place.stop - shard.place.start - shard.skipped
    for name in ("features", "labels"):
        if name not in shard.columns:
            raise DataError(f"{shard.path}: has no '{name}'; expected a file of pdac extract --shard i/n")
    for name, array in shard.columns.items():
        if array.shape[:1] != (expected,):
            raise DataError(
                f"{shard.path}: '{name}' has shape {shape_text(array.shape)}; expected {expected:,} rows, as its "
                "attributes say; extract it again"
            )


def _check_alike(first: Shard, other: Shard) -> None:
    """Refuse a shard of another extraction, naming what differs."""
    facts = [_facts(first), _facts(other)]
    for name in facts[0] | facts[1]:
        then, now = facts[0].get(name), facts[1].get(name)
        if then != now:
            raise DataError(
                f"{other.path}: {name} is {str(now)[:60]}, that of {first.path} is {str(then)[:60]}; "
                "expected shards of one extraction; extract them with the same options"
            )


def _facts(shard: Shard) -> dict[str, object]:
    shapes = {f"the shape of '{name}'": array.shape[1:] for name, array in shard.columns.items()}
    types = {f"the type of '{name}'": array.dtype for name, array in shard.columns.items()}
    # The hashes of checkpoint and images count, not the names they had on one machine or another.
    settings = {name: value for name, value in shard.attributes.items() if name not in ("checkpoint", "source")}
    return {**shapes, **types, "shard_count": shard.place.count, **settings, "label_names": shard.label_names}

"""Finished parts of a long run, kept beside its output until that is complete, so that a rerun goes on from them.

The folder ``NAME.parts`` holds a manifest of everything that decides the result, and one archive per part, each
written atomically.  Parts may be cut anywhere: the output is written from them in blocks of its own.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError, ModelError, PdacError, UsageError
from pdac_cli.files.formats.attributes import read_attributes
from pdac_cli.files.formats.hdf5 import open_hdf5
from pdac_cli.storage.atomic import storage_errors, write_bytes
from pdac_cli.storage.json_files import parse_json
from pdac_cli.storage.locks import exclusive
from pdac_cli.storage.reading import plain, reading

Columns = dict[str, NDArray[Any]]

_MANIFEST, _LOCK = "manifest.json", "lock"
_PART = re.compile(r"rows-(\d{12})-(\d{12})\.npz")
_KINDS: dict[str, type[PdacError]] = {"checkpoint_sha256": ModelError, "images": DataError}


class Parts:
    """The parts of rows ``start`` to ``stop``, finished without a gap up to row ``done``."""

    def __init__(self, folder: Path, start: int, stop: int) -> None:
        self.folder, self.start, self.stop = folder, start, stop
        self.done = start
        self._paths: list[Path] = []
        for path in sorted(folder.iterdir()):
            found = _PART.fullmatch(path.name)
            if found and int(found[1]) == self.done and self.done < int(found[2]) <= stop:
                self._paths.append(path)
                self.done = int(found[2])

    def append(self, stop: int, columns: Mapping[str, NDArray[Any]]) -> None:
        """Store what rows ``done`` to ``stop`` came to; it is safe on disk when this returns."""
        memory = io.BytesIO()
        np.savez(memory, **columns)  # type: ignore[arg-type]
        path = self.folder / f"rows-{self.done:012d}-{stop:012d}.npz"
        write_bytes(path, memory.getvalue(), force=True)
        self._paths.append(path)
        self.done = stop

    def read(self, names: Collection[str] = ()) -> Iterator[Columns]:
        """What each part holds, in order, these columns among it; the archives' checksums are verified."""
        for path in self._paths:
            yield _read_part(path, names)

    def remove(self) -> None:
        """Remove the parts and their manifest, and nothing that is not ours."""
        _clear(self.folder)


@contextmanager
def open_parts(output: Path, manifest: Mapping[str, Any], start: int, stop: int, restart: bool) -> Iterator[Parts]:
    """Open the parts of an output, old or new, for this process alone; drop the folder if it ends without any.

    Parts of another checkpoint, list or setting are refused, or with ``restart`` removed.
    """
    folder = parts_of(output)
    with storage_errors(folder):
        folder.mkdir(exist_ok=True)
    try:
        with exclusive(folder / _LOCK, folder), storage_errors(folder):
            for stale in folder.glob(".*.tmp"):
                stale.unlink(missing_ok=True)
            _settle(folder, dict(manifest), restart)
            parts = Parts(folder, start, stop)
            try:
                yield parts
            finally:
                if parts.done == start:
                    parts.remove()
    finally:
        with suppress(OSError):  # there are parts in it, or others' files
            folder.rmdir()


def parts_of(output: Path) -> Path:
    """Return the folder of an output's parts."""
    return output.with_name(f"{output.name}.parts")


def extraction_of(facts: Mapping[str, Any]) -> str:
    """Return what identifies an extraction, whatever the shard: a hash of all that decides its features."""
    return hashlib.sha256(json.dumps(dict(facts), sort_keys=True).encode()).hexdigest()


def drop_superfluous(output: Path) -> None:
    """Remove the parts of an output that is complete: those of a run killed between writing it and removing them."""
    folder = parts_of(output)
    if not (folder.is_dir() and output.is_file()):
        return
    with suppress(PdacError, OSError), exclusive(folder / _LOCK, folder):
        manifest = parse_json(folder / _MANIFEST, "the manifest of an extraction")
        shard = str(manifest.pop("shard", "")).split("/")[0] if isinstance(manifest, dict) else ""
        with open_hdf5(output) as file:
            found = read_attributes(file)
        if found.get("extraction") == extraction_of(manifest) and str(found.get("shard_index", 0)) == shard:
            _clear(folder)
    with suppress(OSError):  # others' files stay, and so does the folder then
        folder.rmdir()


def reblocked(pieces: Iterable[Columns], rows: int) -> Iterator[Columns]:
    """The same rows in pieces of ``rows`` each, the last one shorter."""
    held: list[Columns] = []
    count = 0
    for piece in pieces:
        held.append(piece)
        count += len(next(iter(piece.values())))
        if count >= rows:
            joined = _joined(held)
            for first in range(0, count - rows + 1, rows):
                yield {name: values[first : first + rows] for name, values in joined.items()}
            held = [{name: values[count - count % rows :] for name, values in joined.items()}]
            count %= rows
    if count:
        yield _joined(held)


def _read_part(path: Path, names: Collection[str]) -> Columns:
    """All columns of an archive."""
    try:
        _check_plain(path)
        with reading(path, "the part"), path.open("rb") as file, np.load(file, allow_pickle=False) as found:
            return {name: found[name] for name in (*names, *found.files)}
    except DataError as problem:
        reason = plain(problem.__cause__ or problem)
        raise DataError(f"{path}: damaged ({reason}); expected a finished part; remove it and run again") from problem


def _check_plain(path: Path) -> None:
    """Refuse a part that would unpack to more than is stored: we write arrays as they are."""
    with reading(path, "the part"), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    packed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
    if packed or sum(member.file_size for member in members) > path.stat().st_size:
        raise DataError("it is compressed, or declares more bytes than it has")


def _joined(held: list[Columns]) -> Columns:
    return {name: np.concatenate([piece[name] for piece in held]) for name in held[0]}


def _settle(folder: Path, manifest: dict[str, Any], restart: bool) -> None:
    """Hold the folder to its manifest, writing it if there is none."""
    path = folder / _MANIFEST
    manifest = json.loads(json.dumps(manifest))
    try:
        found: Any = parse_json(path, "the manifest of an extraction")
    except FileNotFoundError:
        found = None
    except DataError:
        found = {}
    if found == manifest:
        return
    if found is not None and not restart:
        raise _mismatch(folder, found if isinstance(found, dict) else {}, manifest)
    _clear(folder)
    write_bytes(path, json.dumps(manifest, indent=1).encode(), force=True)


def _mismatch(folder: Path, found: dict[str, Any], manifest: dict[str, Any]) -> PdacError:
    """Name the first thing that differs."""
    name = next((name for name in [*manifest, *found] if found.get(name) != manifest.get(name)), "format")
    then, now = _short(found.get(name)), _short(manifest.get(name))
    return _KINDS.get(name, UsageError)(
        f"{folder}: holds parts of another run, with {name} {then} and not {now}; "
        "expected the same as then; rerun the first command to finish it, or add --force to start again"
    )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:12]}…"


def _clear(folder: Path) -> None:
    # The manifest goes last, so that a part never lies beside the manifest of another run.
    for path in sorted(folder.iterdir()):
        if _PART.fullmatch(path.name):
            path.unlink(missing_ok=True)
    (folder / _MANIFEST).unlink(missing_ok=True)

"""Opening HDF5 files that somebody else wrote: every way they can be wrong ends in a message.

HDF5 files can name other files: external links, external storage and the sources of virtual datasets.  Such a
file could make us read anything the user may read, so all three are refused unless asked for.
"""

from __future__ import annotations

import errno
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py

from pdac_cli.errors import DataError, StorageError
from pdac_cli.storage.reading import LIBRARY_ERRORS, check_readable, plain, quote, reading, shape_text

_LOCK_HELD = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES)
_MAX_LISTED = 12  # datasets named in a message
_MAX_LINKS = 32
_locks_off: list[bool] = []  # in a process that reads what others have found finished: a thousand readers lock nothing


def turn_locks_off() -> None:
    """Open files without a lock from now on, in this process."""
    _locks_off.append(True)


def open_hdf5(path: Path) -> h5py.File:
    """Open for reading, under a shared lock where the file system has locks and none are to be left alone."""
    check_readable(path, "an HDF5 file")
    try:
        try:
            return h5py.File(path, "r", locking=False) if _locks_off else h5py.File(path, "r")
        except OSError as problem:
            if "unable to lock file" not in str(problem) or problem.errno in _LOCK_HELD:
                raise
            return h5py.File(path, "r", locking=False)  # a network file system without locks
    except (OSError, RuntimeError, ValueError) as problem:
        raise _opening_error(path, problem) from problem


def _opening_error(path: Path, problem: Exception) -> DataError | StorageError:
    text = str(problem)
    if "unable to lock file" in text:
        return StorageError(f"{path}: another process is writing it; expected a finished file; try again later")
    if isinstance(problem, PermissionError):
        return StorageError(f"{path}: permission denied; expected a file you may read")
    sizes = re.search(r"eof = (\d+), sblock->base_addr = (\d+), stored_eof = (\d+)", text)
    if sizes:
        has, base, stored = (int(size) for size in sizes.groups())
        return DataError(
            f"{path}: truncated: expected {base + stored:,} bytes, has {has:,}; copy it again, "
            "or run the command that wrote it again"
        )
    if "signature not found" in text:
        return DataError(f"{path}: is not an HDF5 file; expected one; check the path")
    if "already open for write" in text or "object header" in text:
        return DataError(
            f"{path}: incomplete; expected a file its writer had closed; run the command that wrote it again"
        )
    return DataError(f"{path}: damaged ({plain(problem)}); expected a complete HDF5 file; write it again")


def list_datasets(file: h5py.File, limit: int = 10_000) -> list[str]:
    """Paths of the datasets, and of the links at the root, which are listed but not followed."""
    names: list[str] = []

    def visit(name: str, item: object) -> bool | None:
        if isinstance(item, h5py.Dataset) and isinstance(name, str):  # h5py gives bytes that are no UTF-8 as they are
            names.append(name)
        return True if len(names) >= limit else None

    with suppress(*LIBRARY_ERRORS):  # damaged: list what was found
        file.visititems(visit)
        names += [name for name in file if isinstance(name, str) and not isinstance(_link(file, name), h5py.HardLink)]
    return names


def describe_datasets(file: h5py.File) -> str:
    """What the file holds, for messages: ``'features' (5,000, 512), 'labels' (5,000)``."""
    names = list_datasets(file)
    parts = []
    for name in names[:_MAX_LISTED]:
        shape = None
        with suppress(*LIBRARY_ERRORS):
            if "/" in name or isinstance(_link(file, name), h5py.HardLink):
                dataset = file[name]
                shape = None if is_virtual(dataset) else dataset.shape
        parts.append(f"{quote(name)} {shape_text(shape)}" if shape else quote(name))
    if len(names) > _MAX_LISTED:
        parts.append(f"and {len(names) - _MAX_LISTED:,} more")
    return ", ".join(parts) if parts else "no datasets"


def is_virtual(dataset: h5py.Dataset) -> bool:
    """Whether the values lie in other datasets.

    Until these are checked, asking such a dataset for its shape may open the files they are in: HDF5 looks up how far
    sources without a limit have grown.
    """
    return bool(dataset.id.get_create_plist().get_layout() == h5py.h5d.VIRTUAL)


def has_link(file: h5py.File, name: str) -> bool:
    """Whether the root has a link of that name; ``name in file`` would open the file that an external link names."""
    with reading(Path(file.filename), quote(name)):
        return bool(file.id.links.exists(name.encode()))


def resolve(file: h5py.File, key: str, allow_external: bool) -> Any:
    """The object at ``key``, reached link by link: HDF5 would open an external link's file unasked."""
    path = Path(file.filename)
    item: Any = file
    left = _parts(key)
    hops = 0
    while left:
        name, left = left[0], left[1:]
        with reading(path, quote(key)):
            link = _link(item, name) if isinstance(item, h5py.Group) else None
        if link is None:
            found = f"{quote(key)} is a link to nothing" if hops else f"has no dataset {quote(key)}"
            raise DataError(f"{path}: {found}; expected one of those it holds: {describe_datasets(file)}")
        if isinstance(link, h5py.SoftLink):
            hops += 1
            if hops > _MAX_LINKS:
                raise DataError(f"{path}: {quote(key)} is a link in a circle; expected a dataset")
            item = item.file if link.path.startswith("/") else item
            left = _parts(link.path) + left
        elif isinstance(link, h5py.ExternalLink):
            if not allow_external:
                raise DataError(
                    f"{path}: {quote(key)} is a link to another file, {quote(link.filename)}; "
                    "expected data in this file; add --allow-external if you trust it"
                )
            item = _follow(item, name, path, key)
        else:
            with reading(path, quote(key)):
                item = item[name]
    return item


def _follow(group: h5py.Group, name: str, path: Path, key: str) -> Any:
    try:
        return group[name]
    except (KeyError, OSError, RuntimeError) as problem:
        raise DataError(f"{path}: {quote(key)} is a link to nothing; expected a dataset") from problem


def _link(group: h5py.Group, name: str) -> Any:
    """The link itself, not what it leads to; None if there is none of that name."""
    links, raw = group.id.links, name.encode()
    if not links.exists(raw):
        return None
    kind = links.get_info(raw).type
    if kind == h5py.h5l.TYPE_HARD:
        return h5py.HardLink()
    if kind == h5py.h5l.TYPE_SOFT:
        return h5py.SoftLink(links.get_val(raw).decode())
    if kind == h5py.h5l.TYPE_EXTERNAL:
        return h5py.ExternalLink(*(part.decode(errors="surrogateescape") for part in links.get_val(raw)))
    return None


def _parts(key: str) -> list[str]:
    return [part for part in key.split("/") if part not in ("", ".")]

"""Outputs that are either complete or not there: temporary file, fsync, one step to the final name.

A temporary lies beside its output as ``.NAME.HOST.PID.RANDOM.tmp``, so that a later run can tell whose it was
and clean up after one that died.
"""

from __future__ import annotations

import atexit
import errno
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pdac_cli.errors import StorageError, UsageError
from pdac_cli.storage.signals import deferred_signals

# What link(2) answers where a file system has no hard links.
_NO_LINKS = {
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EMLINK,
    errno.EXDEV,
    errno.EACCES,
}
_REASONS = {
    errno.ENOSPC: "no space left on the device; expected room for the output; free some or write elsewhere",
    errno.EDQUOT: "the disk quota is used up; expected room for the output; free some or write elsewhere",
    errno.EFBIG: "larger than the file size limit; expected room for the output; raise it with ulimit -f",
    errno.EACCES: "permission denied; expected a path you may write to",
    errno.EPERM: "permission denied; expected a path you may write to",
    errno.EROFS: "read-only file system; expected a path you may write to",
    errno.ENOENT: "no such folder; expected one that exists; make it first",
    errno.ENOTDIR: "its parent is not a folder; expected one that exists; make it first",
    errno.ENAMETOOLONG: "the name is too long for the file system; expected a shorter one",
}
_to_remove: dict[Path, int] = {}  # by the process that is to do it


def check_output(path: Path, inputs: Sequence[Path], force: bool) -> None:
    """Refuse, before long work, an output that could not be written at its end; clean up after dead runs."""
    with storage_errors(path):
        for other in inputs:
            with suppress(FileNotFoundError, NotADirectoryError):
                if path.samefile(other):
                    raise UsageError(f"{path}: output and input {other} are the same file; expected another path")
        if is_special(path):
            return
        target = _target(path)
        if target.is_dir():
            raise StorageError(f"{path}: is a folder; expected the path of a file to write")
        if not target.parent.is_dir():
            raise StorageError(f"{path}: folder {target.parent} is not there; expected one that exists; make it first")
        _remove_stale(target)
        if target.exists() and not force:
            raise _exists(path)
        # Only trying tells: permission bits say nothing to root, on read-only mounts or over a network.
        with _temporary(target):
            pass


@contextmanager
def atomic_path(path: Path, force: bool) -> Iterator[Path]:
    """Yield a temporary path to write to; it takes the final name only if the block ends well.

    Without ``force`` the last step fails if the output has appeared meanwhile, so of two writers only one
    wins.  A device, a pipe or ``/dev/stdout`` receives the finished bytes instead: a rename would replace it.
    """
    special = is_special(path)
    target = _target(path)
    with storage_errors(path):
        if not special and not force and target.exists():
            raise _exists(path)
        with _temporary(Path(tempfile.gettempdir()) / "pdac" if special else target) as temporary:
            yield temporary
            if special:
                with temporary.open("rb") as source:
                    _copy_to_special(source.read, path)
            else:
                _sync(temporary)
                _publish(temporary, target, path, force)


def write_bytes(path: Path, data: bytes, force: bool) -> None:
    """Write all of ``data`` or nothing; devices and pipes are written directly."""
    if is_special(path):
        view = memoryview(data)
        position = 0

        def read(size: int) -> memoryview:
            nonlocal position
            position += size
            return view[position - size : position]

        with storage_errors(path):
            _copy_to_special(read, path)
        return
    with atomic_path(path, force) as temporary:
        temporary.write_bytes(data)


def free_space(path: Path) -> int:
    """Bytes free for an output at ``path``, which need not exist yet."""
    with storage_errors(path):
        return shutil.disk_usage(_target(path).parent).free


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals into a :class:`StorageError` that names the output.

    A broken pipe passes: whoever reads our output has had enough, which is no error.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as problem:
        raise StorageError(f"{path}: {reason(problem)}") from problem


def reason(problem: OSError) -> str:
    """The plain reason, without the paths and buffers that libraries put around it."""
    number = problem.errno
    if number is None:  # HDF5 puts the number into its text only
        found = re.search(r"errno = (\d+)", str(problem))
        number = int(found[1]) if found else 0
    if number in _REASONS:
        return _REASONS[number]
    text = os.strerror(number).lower() if number else " ".join(str(problem).split())[:200]
    return f"could not be written ({text}); expected a working disk; check it or write elsewhere"


def _exists(path: Path) -> StorageError:
    return StorageError(f"{path}: exists; expected a new path; add --force to replace it")


def _target(path: Path) -> Path:
    """The file itself: a symbolic link as output means the file it points to, as for a shell redirection."""
    return Path(os.path.realpath(path))


def is_special(path: Path) -> bool:
    """Whether the path is a device, pipe or socket, or an open descriptor such as ``/dev/stdout``.

    Redirected to a file, ``/dev/stdout`` looks like a regular file; a rename would destroy the device node.
    """
    parent = os.path.realpath(path.parent)
    if parent == "/dev" or parent.startswith("/proc/"):
        return path.exists()
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", platform.node())[:40]


def _stem(target: Path) -> str:
    # Names may have 255 bytes; the longest one must leave room for what is added.
    name = os.fsdecode(os.fsencode(target.name)[:150])
    return f".{name}.{_host()}."


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """Make an empty file beside the target and remove it at the end of the block, if it is still there."""
    temporary = target.parent / f"{_stem(target)}{os.getpid()}.{secrets.token_hex(4)}.tmp"
    with removed_at_end(temporary):
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        yield temporary


@contextmanager
def removed_at_end(path: Path) -> Iterator[None]:
    """Remove a file at the end of the block, or at the process's, if a signal comes in just that moment."""
    _to_remove[path] = os.getpid()
    try:
        yield
    finally:
        _remove(path)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
    _to_remove.pop(path, None)


@atexit.register
def remove_left() -> None:
    """Remove what `removed_at_end` has not yet removed."""
    for path, process in list(_to_remove.items()):
        if process == os.getpid():  # and not that of a parent, of whose files a fork knows
            _remove(path)


def _remove_stale(target: Path) -> None:
    """Remove temporaries of this output whose process, on this host, has gone."""
    stem = _stem(target)
    for entry in target.parent.iterdir():
        if entry.name.startswith(stem):
            found = re.fullmatch(r"(\d{1,9})\.[0-9a-f]{8}\.tmp", entry.name[len(stem) :])
            if found and not _alive(int(found[1])):
                with suppress(OSError):
                    entry.unlink()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _publish(temporary: Path, target: Path, path: Path, force: bool) -> None:
    """Give the finished temporary its name in one step."""
    if force:
        with suppress(OSError):  # a replaced file keeps its permissions
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    else:
        try:
            try:
                os.link(temporary, target)
            except OSError as problem:
                if problem.errno not in _NO_LINKS:
                    raise
                with deferred_signals():
                    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))  # the name is ours now
                    temporary.replace(target)
        except FileExistsError:
            raise _exists(path) from None
    with suppress(OSError):  # some file systems cannot sync a folder; the file itself is safe
        _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_to_special(read: Callable[[int], bytes | memoryview], path: Path) -> None:
    """Append all that ``read`` gives to a device, pipe or open descriptor, never truncating what it holds."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        while block := read(1 << 20):
            block = memoryview(block)
            while block:
                block = block[os.write(descriptor, block) :]
    finally:
        os.close(descriptor)

"""One process at a time: a lock file that vanishes with its holder's work and never outlives its process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from pdac_cli.errors import StorageError
from pdac_cli.storage.atomic import removed_at_end, storage_errors
from pdac_cli.storage.signals import deferred_signals


@contextmanager
def exclusive(lock: Path, what: Path) -> Iterator[None]:
    """Hold the lock file of `what` in the block; refuse at once if another process does.

    The kernel lets go of the lock when the process ends, however it ends, so a file left by a kill blocks nobody.
    """
    with ExitStack() as stack:
        with storage_errors(what), deferred_signals():
            stack.callback(os.close, _take(lock, what))
            stack.enter_context(removed_at_end(lock))
        yield


def _take(lock: Path, what: Path) -> int:
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise StorageError(
                f"{what}: another run is writing it; expected one at a time; wait for it, or choose another path"
            ) from None
        except OSError:  # a network file system without locks
            return descriptor
        # Its holder may have removed it between our two steps: then others would lock a file of that name anew.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
        os.close(descriptor)

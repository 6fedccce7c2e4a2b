"""The folder that client and workers share: what is to be done, what has been, and the rows between the two.

Everything goes through files that appear whole or not at all, so that a worker may end at any time, the same unit may
be done twice, and a rerun finds what is finished.  The folder is the user's alone; what is pickled in it was written by
this job, never by whoever made a feature file.
"""

from __future__ import annotations

import os
import pickle
import secrets
import shutil
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle

from pdac_cli.errors import StorageError
from pdac_cli.storage.atomic import reason

_ALIVE = "alive"  # while it is there, work goes on
_TRIES = 20


@dataclass(frozen=True)
class JobFolder:
    """One job's folder."""

    path: Path

    @classmethod
    def make(cls, place: Path, key: str) -> tuple[JobFolder, bool]:
        """Make the folder of a job, or find what an earlier run of it left; say which."""
        path = (place / f"pdac-{key}").absolute()
        try:
            path.mkdir(mode=0o700)
            found = False
        except FileExistsError:
            found = True
            info = path.lstat()
            if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
                raise StorageError(
                    f"{path}: is in the way; expected no such folder, or yours alone; "
                    "remove it, or choose another --scratch"
                ) from None
        except OSError as problem:
            raise _refused(path, problem) from problem
        folder = cls(path)
        folder.write(_ALIVE, b"")
        return folder, found

    @property
    def alive(self) -> bool:
        """Whether the job goes on, and the folder can be seen from here."""
        return (self.path / _ALIVE).exists()

    def has(self, name: str) -> bool:
        """Whether a file is there, which then is complete."""
        return (self.path / name).exists()

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write a file that appears whole."""
        self.write_parts(name, [data])

    def write_parts(self, name: str, parts: list[Any]) -> None:
        """Write a file of several parts that appears whole."""
        temporary = self.path / f".{name}.{secrets.token_hex(4)}"
        try:
            with temporary.open("xb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path / name)
        except OSError as problem:
            with suppress(OSError):
                temporary.unlink()
            raise _refused(self.path, problem) from problem

    def save(self, name: str, value: Any) -> None:
        """Write a value."""
        self.write(name, cloudpickle.dumps(value, protocol=5))

    def load(self, name: str) -> Any:
        """Read a value back."""
        try:
            return pickle.loads((self.path / name).read_bytes())
        except OSError as problem:
            raise _refused(self.path, problem) from problem

    def remove(self) -> None:
        """Remove it with all that is in it; workers that are still at it find that out, and stop."""
        with suppress(OSError):
            (self.path / _ALIVE).unlink()
        for _ in range(_TRIES):  # a worker may just be writing a file
            shutil.rmtree(self.path, ignore_errors=True)
            if not self.path.exists():
                return
            time.sleep(0.05)


def _refused(path: Path, problem: OSError) -> StorageError:
    return StorageError(
        f"the scratch folder {path}: {reason(problem)}; expected room in a folder that all workers share; "
        "choose one with --scratch"
    )

"""Commands in processes of their own: started by a server that has everything loaded, or from nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int  # negative: the signal it died of
    out: str
    err: str
    seconds: float
    peak: int  # bytes of memory, at most

    @property
    def error(self) -> str:
        """The last line of standard error, which is the only one of its kind."""
        lines = self.err.splitlines()
        assert lines, f"exit {self.code} and nothing said"
        assert [line for line in lines if line.startswith("error: ")] == lines[-1:], self.err
        return lines[-1]

    def check_manners(self) -> None:
        """An end that is no bug of ours and says what it is."""
        assert self.code in (0, 2, 3, 4, 5, 6, 130, 143), (self.code, self.err)
        for word in ("Traceback", "Exception ignored", "Warning:"):
            assert word not in self.err, self.err
        if self.code:
            assert self.error


class Server:
    """Starts commands in processes that need not load anything; see ``tests.faults.server``."""

    def __init__(self, *loaded: str) -> None:
        command = [sys.executable, "-m", "tests.faults.server", *loaded]
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(
            command, stdin=-1, stdout=-1, text=True, cwd=root, env={**os.environ, **ENVIRONMENT}
        )

    def run(
        self, arguments: Sequence[object], folder: Path, *, after: float | None = None, signal: int = 9,
        limits: Sequence[tuple[int, int]] = (), patches: Mapping[str, Any] | None = None,
        stdout: str | None = None, stderr: str | None = None, environment: Mapping[str, str] | None = None,
        die_at: int | None = None,
    ) -> Ended:  # fmt: skip
        """Run a command in the folder; send it a signal after so many seconds, if it still runs then.

        ``die_at`` kills it before its so-manieth change to the folder.
        """
        request = {
            "arguments": [str(argument) for argument in arguments], "folder": str(folder), "after": after,
            "signal": int(signal), "limits": list(limits), "patches": dict(patches or {}), "stdout": stdout,
            "stderr": stderr, "environment": dict(environment or {}), "die_at": die_at,
        }  # fmt: skip
        return self._asked(request)

    def run_many(
        self, batch: Sequence[tuple[Path, Sequence[str]]], patches: Mapping[str, Any] | None = None
    ) -> tuple[list[Ended], list[int]]:
        """Run commands, each in its folder, one after the other in one process.

        Returns how each ended and how many files were open after each.  A crash ends the process and is the last one.
        """
        commands = [(str(folder), list(arguments)) for folder, arguments in batch]
        whole = self._asked({"batch": commands, "folder": str(batch[0][0]), "patches": dict(patches or {})})
        lines = [json.loads(line) for line in whole.out.splitlines()]
        ends = [Ended(code, out, err, 0.0, whole.peak) for code, out, err, _ in lines]
        if whole.code or len(lines) < len(batch):
            ends.append(Ended(whole.code or 1, "", whole.err, 0.0, whole.peak))
        return ends, [opened for *_, opened in lines]

    def _asked(self, request: Mapping[str, Any]) -> Ended:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Ended(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the server."""
        self._process.communicate()


def contents(folder: Path) -> dict[str, bytes | str]:
    """Everything in the folder: files by their bytes, others by their kind."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        else:
            found[name] = path.read_bytes() if path.is_file() else "folder" if path.is_dir() else "special"
    return found

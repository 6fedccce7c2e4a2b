"""Running a command in a process of its own and measuring it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

# A process starts with the peak of the one that started it, so a small one stands between.
_BETWEEN = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


class Killed(BaseException):
    """Stands for a kill in a test that runs the command in its own process: nothing catches it."""


def wait_until_open(process: subprocess.Popen[Any], path: Path, seconds: float = 60) -> None:
    """Wait until a process has opened the file, so that it is at work and no longer loading what it needs."""
    begun = time.monotonic()
    while process.poll() is None and time.monotonic() - begun < seconds:
        for entry in Path(f"/proc/{process.pid}/fd").glob("*"):
            with suppress(FileNotFoundError):
                if entry.readlink() == path.resolve():
                    return
        time.sleep(0.01)
    raise AssertionError(f"{path} was not opened")


def measured(command: Sequence[str]) -> tuple[float, int]:
    """Run a command that prints nothing; return its seconds and its peak memory in bytes."""
    start = time.perf_counter()
    between = [sys.executable, "-S", "-c", _BETWEEN, *command]
    result = subprocess.run(between, stdout=subprocess.PIPE, text=True, check=True)
    return time.perf_counter() - start, int(result.stdout) * 1024

"""How much memory and how many cores this process may use, whatever the machine has."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path

from threadpoolctl import ThreadpoolController

from pdac_cli.engine import cgroups
from pdac_cli.errors import StorageError, UsageError

_SHARE = 0.5  # of what is available, when --memory is not given
_SWITCH_SECONDS = 1e-4


def default_memory() -> int:
    """Return half of the memory that is available to this process, limits of cgroups and SLURM respected, in bytes."""
    limits = [_available()]
    left = cgroups.memory_left()
    if left is not None:
        limits.append(left)
    slurm = os.environ.get("SLURM_MEM_PER_NODE", "")
    if slurm.isdigit() and int(slurm) > 0:
        limits.append(int(slurm) << 20)
    return int(min(limits) * _SHARE)


def default_jobs() -> int:
    """Return the cores this process may use: its affinity, lowered by the cgroups' quotas and the usual variables."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = min(cores, cgroups.cores() or cores)
    for name in ("SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").split(",")[0].strip()
        if not text:
            continue
        if not text.isdigit() or int(text) < 1:
            raise UsageError(f"{name} is {text!r}; expected a whole number of at least 1; unset it or give --jobs")
        cores = min(cores, int(text))
    return cores


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: the classes are what runs in parallel, and the sums stay in one order.

    A thread that comes back from BLAS must not wait long for another one's Python code, so they change places often.
    """
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        libraries = _libraries()
        with nullcontext() if libraries is None else libraries.limit(limits=1, user_api="blas"):
            yield
    finally:
        sys.setswitchinterval(interval)


@cache
def _libraries() -> ThreadpoolController | None:
    """Return the BLAS libraries of NumPy and SciPy, None if they cannot be found and have one thread anyway.

    Looking for them takes a millisecond.
    """
    import scipy.linalg  # noqa: F401  (so that its library is there to be found)

    try:
        return ThreadpoolController()
    except OSError as problem:
        if os.environ.get("OPENBLAS_NUM_THREADS") == "1":
            return None
        raise StorageError(
            f"{problem.filename}: cannot be read; expected it, for keeping BLAS to one thread; "
            "mount /proc, or set OPENBLAS_NUM_THREADS=1"
        ) from problem


def _available() -> int:
    """Return the machine's free memory in bytes."""
    try:
        found = re.search(r"^MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text("ascii"), re.MULTILINE)
    except OSError:
        found = None
    if found:
        return int(found[1]) << 10
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


class PeakMemory:
    """How much more memory the process held at most within a block than at its beginning, where the system tells."""

    def __init__(self) -> None:
        self.bytes: int | None = None
        self._before: int | None = None

    def __enter__(self) -> PeakMemory:
        try:
            Path("/proc/self/clear_refs").write_text("5", "ascii")  # the highest so far is forgotten
        except OSError:
            return self
        self._before = _status("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        peak = _status("VmHWM")
        if self._before is not None and peak is not None:
            self.bytes = max(0, peak - self._before)


def _status(name: str) -> int | None:
    """Return a line of this process's status in bytes."""
    found = re.search(rf"^{name}:\s*(\d+) kB", Path("/proc/self/status").read_text("ascii"), re.MULTILINE)
    return int(found[1]) << 10 if found else None

"""A real scheduler and real workers on loopback, and pdac as their client, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np

# Read by workers before they begin: every unit takes a while, so that something can happen meanwhile.
SLOWLY = """
import time
from pdac_cli.engine.cluster import tasks
if not hasattr(tasks, "slowly"):  # preloads are run more than once
    def slowly(folder, check=tasks._check_alive):
        time.sleep(0.15)
        check(folder)
    tasks.slowly = tasks._check_alive = slowly
"""
UNIT = ("--unit", "24k")


class DaskProcesses:
    """A scheduler, and workers that come and go."""

    def __init__(self, folder: Path, *, protocol: tuple[str, ...] = (), **config: str) -> None:
        self.folder, self.workers, self._logs = folder, [], 0
        self.file, self._protocol = folder / "scheduler.json", protocol
        self._environment = {
            **os.environ, "OMP_NUM_THREADS": "1", "DASK_TEMPORARY_DIRECTORY": str(folder / "dask"),
            **{f"DASK_DISTRIBUTED__{name}": value for name, value in config.items()},
        }  # fmt: skip
        self.scheduler = self._start("scheduler", "--port", "0", "--scheduler-file", str(self.file))
        wait_for(self.file.exists, self.log)

    @property
    def address(self) -> str:
        """The scheduler's."""
        return str(json.loads(self.file.read_text())["address"])

    def add(self, count: int = 1, *, preload: str = "", nanny: bool = False, cwd: Path | None = None) -> None:
        """Start workers of one thread each, and wait until they have joined."""
        before = self._joined()
        for _ in range(count):
            more = [] if nanny else ["--no-nanny"]
            if preload:
                path = self.folder / f"preload{self._logs}.py"
                path.write_text(preload)
                more += ["--preload", str(path)]
            files = ["--scheduler-file", str(self.file), "--nthreads", "1", "--death-timeout", "60"]
            self.workers.append(self._start("worker", *files, *more, cwd=cwd))
        wait_for(lambda: self._joined() >= before + count, self.log)

    def log(self) -> str:
        """All that they have said."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("log*")))

    def close(self) -> None:
        """End all that was started here."""
        for process in [*self.workers, self.scheduler]:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, what: str, *arguments: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        here = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0", *self._protocol)
        self._logs += 1
        with (self.folder / f"log{self._logs}").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{what}", *here, *arguments],
                stdout=log, stderr=log, env=self._environment, cwd=cwd, start_new_session=True,
            )  # fmt: skip

    def _joined(self) -> int:
        return self.log().count("Register worker") or self.log().count("Starting Worker plugin shuffle")


def wait_for(holds, said=lambda: "", seconds=60):
    """Wait until something holds."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < seconds, said()
        time.sleep(0.05)


def pdac(*arguments, cwd=None):
    """Begin a run."""
    return subprocess.Popen(
        [sys.executable, "-m", "pdac_cli", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def finished(process, code=0, seconds=120):
    """Wait for a run to end with this code; return what it said on both streams."""
    out, said = process.communicate(timeout=seconds)
    assert process.returncode == code, said
    return out, said


def write_features(path, n=12000, n_features=12, classes=5, seed=0):
    """Write clustered features in several pieces of the same set: the whole, and two shards."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    h = (3 * rng.standard_normal((classes, n_features))[y] + rng.standard_normal((n, n_features))).astype("f4")
    cut = n // 3
    for name, part in (("whole", slice(None)), ("a", slice(0, cut)), ("b", slice(cut, None))):
        with h5py.File(path / f"{name}.h5", "w") as file:
            file["features"], file["labels"] = h[part], y[part]
    return path / "whole.h5", (path / "a.h5", path / "b.h5")

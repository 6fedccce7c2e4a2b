"""What runs on a worker: one task does some units, by the very code that does them in the client's own process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from pdac_cli.arrays import Follower
from pdac_cli.engine.cluster.identity import check_identity
from pdac_cli.engine.cluster.job_folder import JobFolder
from pdac_cli.errors import PdacError, StorageError
from pdac_cli.storage.reading import plain


@dataclass(frozen=True)
class UnitTask:
    """Some units of a stage: what is sent; the rest is in the folder."""

    folder: Path
    stage: str
    number: int
    client: Mapping[str, str]  # its versions

    @property
    def work(self) -> str:
        """The file of the work."""
        return f"{self.stage}.work"

    @property
    def units(self) -> str:
        """The file of the units."""
        return f"{self.stage}.{self.number}.units"

    @property
    def answers(self) -> str:
        """The file of what comes of them."""
        return f"{self.stage}.{self.number}.answers"


def perform(task: UnitTask) -> str:
    """Do the units of a task, unless they are done, write what comes of them, and return the worker's address."""
    with _WorkerNamed():
        folder = _settled(task)
        if not folder.has(task.answers):
            work = _work(task.folder, task.work)
            answers = []
            for unit in folder.load(task.units):
                _check_alive(folder)
                answers.append(work(unit))
            folder.save(task.answers, answers)
    return worker_address()


@dataclass(frozen=True)
class FollowTask:
    """One step of a method, for some rows."""

    folder: Path
    stage: str
    start: int
    stop: int
    step: int
    client: Mapping[str, str]

    @property
    def work(self) -> str:
        """The file of the beginning."""
        return f"{self.stage}.work"


def follow(task: FollowTask) -> tuple[str, Any]:
    """Bring some rows up to a step, from wherever they are here, and return the worker's address and their answer."""
    with _WorkerNamed():
        folder, key = _settled(task), (task.folder, task.stage, task.start)
        with _lock:
            state = _following.setdefault(key, _Following(threading.Lock()))
        with state.lock:
            if state.follower is None or state.steps > task.step + 1:
                begin: Callable[[int, int], Follower[Any]] = _work(task.folder, task.work)
                state.follower, state.steps = begin(task.start, task.stop), 0
            while state.steps <= task.step:
                _check_alive(folder)
                state.follower.take(folder.load(f"{task.stage}.step{state.steps}"))
                state.steps += 1
            answer = state.follower.answer()
        with _lock:  # one job at a time is remembered
            for other in [other for other in _following if other[0] != task.folder or other[1] != task.stage]:
                del _following[other]
    return worker_address(), answer


@dataclass
class _Following:
    """Rows that follow a method here, and how many steps they know of."""

    lock: threading.Lock
    follower: Follower[Any] | None = None
    steps: int = 0


_following: dict[tuple[Path, str, int], _Following] = {}
_lock = threading.Lock()


def worker_address() -> str:
    """Return this worker's address."""
    from distributed import get_worker

    return str(get_worker().address)


class _WorkerNamed:
    """Names the worker in errors that arise on it."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None, _trace: object) -> None:
        where = f" (on worker {worker_address()})" if problem is not None else ""
        if isinstance(problem, PdacError):
            raise type(problem)(f"{problem}{where}") from None
        if isinstance(problem, MemoryError):
            raise StorageError(
                f"out of memory{where}; expected more of it for a worker; lower --unit, or give workers more memory"
            ) from None
        if isinstance(problem, OSError):
            raise StorageError(
                f"{plain(problem)}{where}; expected disk and files to work there; see the worker's log"
            ) from None


def _settled(task: UnitTask | FollowTask) -> JobFolder:
    """Make this process one that works, and check that it can for this client."""
    check_identity(task.client)
    _settle()
    folder = JobFolder(task.folder)
    if not folder.alive:
        raise StorageError(
            f"{task.folder}: cannot be seen; expected the client's scratch folder; "
            "choose one that all workers share with --scratch"
        )
    return folder


@lru_cache(maxsize=1)
def _settle() -> None:
    """Keep to one BLAS thread for each of the worker's threads, so that sums stay in one order."""
    import scipy.linalg  # noqa: F401  (so that its library is there to be found)

    threadpool_limits(limits=1, user_api="blas")


def _check_alive(folder: JobFolder) -> None:
    if not folder.alive:
        raise StorageError(f"{folder.path}: the work was called off")


@lru_cache(maxsize=2)
def _work(folder: Path, name: str) -> Any:
    """Return what a stage does: read once by each process."""
    return JobFolder(folder).load(name)

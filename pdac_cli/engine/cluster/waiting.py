"""Tasks sent to workers, and waiting for them: what may go wrong meanwhile becomes a sentence."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from distributed import Client, Future, KilledWorker

from pdac_cli.errors import PdacError, StorageError

K = TypeVar("K")
_POLL_SECONDS = 0.25
_LOOK_SECONDS = 1.0  # from one look at the workers to the next
_SCHEDULER_SECONDS = 10.0  # after which a scheduler that does not answer has gone


class WorkersGone(StorageError):  # noqa: N818
    """There is nobody to work: what is finished is kept."""


class Workers:
    """The workers of a scheduler, whichever there are at the moment."""

    def __init__(self, client: Client, patience: float) -> None:
        self._client, self._patience = client, patience
        self._futures: set[Future] = set()
        self._seen = self._heard = self._looked = time.monotonic()
        self._token = secrets.token_hex(4)  # another client's tasks are others
        self._sent = 0

    def in_order(
        self, work: Callable[[K], Any], tasks: Sequence[K], names: Sequence[str], todo: Sequence[bool]
    ) -> Iterator[K]:
        """Have the tasks done that are still to do, and yield all in order, each when it is done."""
        futures = {k: self._submit(work, task) for k, task in enumerate(tasks) if todo[k]}
        for k, task in enumerate(tasks):
            if k in futures:
                self._wait(futures[k], names[k])
                self._let_go([futures.pop(k)])
            yield task

    def all_of(
        self, work: Callable[[K], Any], tasks: Sequence[K], names: Sequence[str], where: dict[int, str] | None
    ) -> list[Any]:
        """Have all tasks done, each by the worker that did it before if that is still there; return the answers."""
        futures = [self._submit(work, task, (where or {}).get(k)) for k, task in enumerate(tasks)]
        answers = [self._wait(future, name, answer=True) for future, name in zip(futures, names, strict=True)]
        self._let_go(futures)
        return answers

    def as_done(self, work: Callable[[K], Any], tasks: Sequence[K], names: Sequence[str]) -> Iterator[tuple[K, Any]]:
        """Have all tasks done, and yield each with its answer as it is done."""
        left = {self._submit(work, task): k for k, task in enumerate(tasks)}
        while left:
            finished = [future for future in left if future.done()]
            for future in finished:
                k = left.pop(future)
                yield tasks[k], self._wait(future, names[k], answer=True)
                self._let_go([future])
            if not finished:
                time.sleep(_POLL_SECONDS)
                self._look()

    def cancel(self) -> None:
        """Call off what is under way."""
        with suppress(Exception):
            self._client.cancel(list(self._futures), force=True)
        self._futures.clear()

    def wait_for_one(self) -> None:
        """Wait until there is a worker."""
        self._seen = time.monotonic()
        while not self._look(at_once=True):
            time.sleep(_POLL_SECONDS)

    def _submit(self, work: Callable[[K], Any], task: K, address: str | None = None) -> Future:
        self._sent += 1
        future = self._client.submit(
            work,
            task,
            key=f"pdac-{self._token}-{self._sent}",
            pure=False,
            workers=[address] if address else None,
            allow_other_workers=bool(address),
        )
        self._futures.add(future)
        return future

    def _let_go(self, futures: Sequence[Future]) -> None:
        for future in futures:
            self._futures.discard(future)
            future.release()

    def _wait(self, future: Future, name: str, *, answer: bool = False) -> Any:
        """Wait for a task; return its answer, if that is asked for."""
        done = threading.Event()
        future.add_done_callback(lambda _future: done.set())
        while not (done.wait(_POLL_SECONDS) or future.done()):
            self._look()
        if future.status == "error":
            raise self._failed(future, name)
        if future.status != "finished":
            raise WorkersGone(
                f"{name}: the scheduler has called it off; expected it to go on; start it again, and rerun"
            )
        while answer:
            try:
                return future.result(timeout=_LOOK_SECONDS)
            except TimeoutError:  # whoever has the answer is gone or hangs: it will be made again
                self._look()
        return None

    def _failed(self, future: Future, name: str) -> BaseException:
        problem = future.exception(timeout=_SCHEDULER_SECONDS)
        if isinstance(problem, KilledWorker):
            return StorageError(
                f"{name}: ended every worker that tried it, {problem.allowed_failures + 1} of them; expected workers "
                "with memory enough for a unit; lower --unit, or give workers more memory, and see their logs"
            )
        if isinstance(problem, ImportError | AttributeError):
            return StorageError(
                f"{name}: a worker cannot load pdac ({problem}); expected the same installation as the client's; "
                "start the workers from the client's environment"
            )
        if isinstance(problem, PdacError):
            return problem
        return problem if isinstance(problem, BaseException) else RuntimeError(f"{name}: {problem}")

    def _look(self, *, at_once: bool = False) -> int:
        """See how many workers there are; end where there has been none, or no scheduler, for too long."""
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS and not at_once:
            return 1
        self._looked = now
        try:
            count = len(self._client.sync(self._client.scheduler.ncores, callback_timeout=_SCHEDULER_SECONDS))
        except Exception as problem:
            if time.monotonic() - self._heard > _SCHEDULER_SECONDS:
                raise WorkersGone(
                    "the scheduler does not answer any more; expected it to run as long as the work; start it again, "
                    "and rerun"
                ) from problem
            return 0
        self._heard = time.monotonic()
        if count:
            self._seen = self._heard
        elif self._heard - self._seen > self._patience:
            raise WorkersGone(
                f"there has been no worker for {self._patience:g} s (--worker-timeout); expected at least one; "
                "start workers, and rerun"
            )
        return count

"""Running the runs of an experiment: one after the other, or in several processes side by side."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pdac_cli.commands.experiment_plan import Unit
from pdac_cli.commands.experiment_schema import COMPARE, TRAIN
from pdac_cli.commands.stopping import stop_requests
from pdac_cli.commands.train_cl_memory import Silent
from pdac_cli.console import Console
from pdac_cli.errors import PdacError, Stopped, UsageError
from pdac_cli.files.runs import read_json, write_json
from pdac_cli.options.shared import RunOptions

_POLL_SECONDS = 0.5
_AGAIN = "; what is done is kept; run the same command again to go on"


@dataclass(frozen=True)
class Place:
    """Where runs keep their files: NAME.json says what a run is, NAME/ or NAME.result.json what it came to."""

    folder: Path
    device: str
    run: RunOptions
    replacing: bool = False  # runs of another definition

    def identity(self, unit: Unit) -> Path:
        """The file that says what a run is."""
        return self.folder / f"{unit.name}.json"

    def result(self, unit: Unit) -> Path:
        """The file that is there once a run is complete."""
        if unit.command == TRAIN:
            return self.folder / unit.name / "results.json"
        return self.folder / f"{unit.name}.result.json"

    def claim(self, unit: Unit) -> None:
        """Note what the run is; refuse to go on with another one of the same name."""
        path, wanted = self.identity(unit), unit.identity()
        if path.exists():
            found = read_json(path)
            name = next((name for name in {**wanted, **found} if found.get(name) != wanted.get(name)), None)
            if name is not None and self.replacing:
                shutil.rmtree(self.folder / unit.name, ignore_errors=True)
                self.result(unit).unlink(missing_ok=True)
            elif name is not None:
                raise UsageError(
                    f"{path}: a run with {name} {found.get(name)} and not {wanted.get(name)}; expected the same "
                    "definition as then; give it again, choose another --output, or replace it by --force"
                )
            else:
                return
        write_json(path, wanted)


def pending(units: Sequence[Unit], place: Place) -> list[list[Unit]]:
    """Return the runs that are not complete; those that open the same feature file in the same way together."""
    chunks: dict[Any, list[Unit]] = {}
    for unit in units:
        place.claim(unit)
        if not place.result(unit).exists():
            chunks.setdefault(_session(unit) if unit.command == COMPARE else unit.name, []).append(unit)
    return list(chunks.values())


def run_all(
    chunks: Sequence[Sequence[Unit]], place: Place, side_by_side: int, done: Callable[[Unit], None]
) -> list[str]:
    """Run all, and return the warnings; what is complete stays complete when the rest is stopped."""
    warnings: list[str] = []
    if side_by_side == 1 or len(chunks) == 1:
        with stop_requests() as stopping:
            for chunk in chunks:
                if stopping():
                    raise Stopped(f"stopped before {chunk[0].name}{_AGAIN}")
                warnings += run_chunk(chunk, place, done)
        return warnings
    context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads in an unknown state
    workers = min(side_by_side, len(chunks))
    with (
        stop_requests() as stopping,
        ProcessPoolExecutor(workers, context, initializer=_begin_worker, initargs=(os.getpid(),)) as pool,
    ):
        futures = {pool.submit(run_chunk, chunk, place): chunk for chunk in chunks}
        try:
            return _watch(futures, stopping, done)
        except BaseException:
            _end(pool)
            raise


def run_chunk(chunk: Sequence[Unit], place: Place, done: Callable[[Unit], None] | None = None) -> list[str]:
    """Run some runs in this process, and say so of each that is complete; return the warnings they made."""
    console = Silent()
    try:
        if chunk[0].command == TRAIN:
            from pdac_cli.commands.train_cl import run

            for unit in chunk:
                run(unit.train_options(place.folder / unit.name, place.device, place.run), console)
                _tell(unit, done)
        elif chunk[0].command == COMPARE:
            _compare(chunk, place, console, done)
    except Stopped as stop:
        raise Stopped(f"{chunk[0].name}: {str(stop).partition(';')[0]}{_AGAIN}") from None
    except PdacError as problem:
        raise type(problem)(f"{chunk[0].name}: {problem}") from None
    return console.warnings


def _compare(chunk: Sequence[Unit], place: Place, console: Console, done: Callable[[Unit], None] | None) -> None:
    """Open a feature file once for all selections from it."""
    from pdac_cli.commands.compare import bench

    options = chunk[0].compare_options(place.run)
    methods = tuple(dict.fromkeys(unit.options["method"] for unit in chunk))
    budgets = tuple(sorted({unit.options["budget"] for unit in chunk}))
    # The densities that selections are measured by are those of one seed, whichever runs are left to do.
    options = replace(options, methods=methods, budgets=budgets, seed=0)
    with bench(options, console) as opened:
        for unit in chunk:
            seconds, found = opened.measure(unit.options["method"], unit.options["budget"], unit.seed)
            write_json(place.result(unit), {"seconds": seconds, **asdict(found)})
            _tell(unit, done)


def _session(unit: Unit) -> tuple[Any, ...]:
    """Return what runs of `compare` must have in common to be measured in one go."""
    rest = sorted((k, str(v)) for k, v in unit.options.items() if k not in ("method", "budget"))
    return unit.path, unit.test, *rest


def _tell(unit: Unit, done: Callable[[Unit], None] | None) -> None:
    if done is not None:
        done(unit)


def _watch(
    futures: dict[Future[list[str]], Sequence[Unit]], stopping: Callable[[], bool], done: Callable[[Unit], None]
) -> list[str]:
    """Wait for the runs; end at the first that fails, or when asked to."""
    left, warnings = set(futures), list[str]()
    while left:
        finished, left = wait(left, _POLL_SECONDS, FIRST_COMPLETED)
        if stopping():
            raise Stopped(f"stopped with {len(left):,} runs to go{_AGAIN}")
        for future in finished:
            try:
                warnings += future.result()
            except BrokenProcessPool:
                name = futures[future][0].name
                raise Stopped(
                    f"a process was killed, in {name} or beside it; memory may have run out{_AGAIN}"
                ) from None
            for unit in futures[future]:
                done(unit)
    return warnings


def _end(pool: ProcessPoolExecutor) -> None:
    """Ask the processes to end; a run keeps a checkpoint of its last step."""
    for process in list((pool._processes or {}).values()):
        with suppress(ProcessLookupError):
            os.kill(process.pid or 0, signal.SIGTERM)
    pool.shutdown(wait=True, cancel_futures=True)


def _begin_worker(parent: int) -> None:
    """Leave signals from the terminal to the parent, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_SECONDS)
        while True:  # the first may only end the run under way
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)

    threading.Thread(target=watch, daemon=True).start()

"""Running the runs of an experiment: one after the other, or in several processes side by side."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, replace
from multiprocessing.synchronize import Event
from typing import Any

from pdac_cli.commands.experiment.place import Place
from pdac_cli.commands.experiment.plan import Unit
from pdac_cli.commands.experiment.schema import COMPARE, HEADS, METHOD, TRAIN
from pdac_cli.console import Console, Silent
from pdac_cli.errors import PdacError, Stopped
from pdac_cli.files.results.runs import write_json
from pdac_cli.storage.signals import stop_requests

_POLL_SECONDS = 0.5
_AGAIN = "; what is done is kept; run the same command again to resume"


def pending(units: Sequence[Unit], place: Place) -> list[list[Unit]]:
    """Return the runs that are not complete; those that open the same feature file in the same way together."""
    chunks: dict[Any, list[Unit]] = {}
    for unit in units:
        place.claim(unit)
        if not place.result(unit).exists():
            chunks.setdefault(_SESSIONS[unit.command](unit), []).append(unit)
    # Trials go seed by seed through all data, so that what there is after a stop can be compared.
    order = [(chunk[0].sweep, chunk[0].seed) if chunk[0].command == HEADS else (0, 0) for chunk in chunks.values()]
    return [chunk for _, chunk in sorted(zip(order, chunks.values(), strict=True), key=lambda pair: pair[0])]


def run_all(
    chunks: Sequence[Sequence[Unit]], place: Place, side_by_side: int, done: Callable[[Unit], None]
) -> list[str]:
    """Run all, and return the warnings; what is complete stays complete when the rest is stopped."""
    warnings: list[str] = []
    if side_by_side == 1 or len(chunks) == 1:
        with stop_requests() as stopping:

            def tell(unit: Unit) -> None:
                done(unit)
                if stopping() and unit != chunks[-1][-1]:
                    raise Stopped(f"stopped after {unit.name}")

            for chunk in chunks:
                if stopping():
                    raise Stopped(f"stopped before {chunk[0].name}{_AGAIN}")
                warnings += run_chunk(chunk, place, tell)
        return warnings
    context = multiprocessing.get_context("spawn")  # a fork would inherit torch's threads in an unknown state
    workers, ending = min(side_by_side, len(chunks)), context.Event()
    with (
        stop_requests() as stopping,
        ProcessPoolExecutor(workers, context, initializer=_begin_worker, initargs=(os.getpid(), ending)) as pool,
    ):
        futures = {pool.submit(_run_in_worker, chunk, place): chunk for chunk in chunks}
        try:
            return _watch(futures, stopping, done)
        except BaseException:
            ending.set()  # a run under way keeps a checkpoint of its last step
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def run_chunk(chunk: Sequence[Unit], place: Place, done: Callable[[Unit], None] | None = None) -> list[str]:
    """Run some runs in this process, and say so of each that is complete; return the warnings they made."""
    console = Silent()
    try:
        if chunk[0].command == TRAIN:
            from pdac_cli.commands.train_cl.command import run

            for unit in chunk:
                run(unit.train_options(place.folder / unit.name, place.device, place.run), console)
                _tell(unit, done)
        elif chunk[0].command == COMPARE:
            _compare(chunk, place, console, done)
        elif chunk[0].command == HEADS:
            _try(chunk, place, console, done)
    except Stopped as stop:
        raise Stopped(f"{chunk[0].name}: {str(stop).partition(';')[0]}{_AGAIN}") from None
    except PdacError as problem:
        raise type(problem)(f"{chunk[0].name}: {problem}") from None
    return console.warnings


def _compare(chunk: Sequence[Unit], place: Place, console: Console, done: Callable[[Unit], None] | None) -> None:
    """Open a feature file once for all selections from it."""
    from pdac_cli.commands.compare.opened import open_comparison

    options = chunk[0].compare_options(place.run)
    methods = tuple(dict.fromkeys(unit.options[METHOD] for unit in chunk))
    budgets = tuple(sorted({unit.options["budget"] for unit in chunk}))
    # The densities that selections are measured by are those of one seed, whichever runs are left to do.
    options = replace(options, methods=methods, budgets=budgets, seed=0)
    with open_comparison(options, console) as opened:
        for unit in chunk:
            seconds, found = opened.measure(unit.options[METHOD], unit.options["budget"], unit.seed)
            write_json(place.result(unit), {"seconds": seconds, **asdict(found)})
            _tell(unit, done)


def _try(chunk: Sequence[Unit], place: Place, console: Console, done: Callable[[Unit], None] | None) -> None:
    """Prepare the rows once for all rules that choose from them."""
    from pdac_cli.commands.experiment.head_to_head import run_trials

    def keep(unit: Unit, result: dict[str, Any]) -> None:
        write_json(place.result(unit), result)
        _tell(unit, done)

    run_trials(chunk, place.run, console, keep)


def _comparison(unit: Unit) -> tuple[Any, ...]:
    """Return what runs of `compare` must have in common to be measured in one go."""
    rest = sorted((k, str(v)) for k, v in unit.options.items() if k not in (METHOD, "budget"))
    return unit.path, unit.test, *rest


def _trial(unit: Unit) -> tuple[Any, ...]:
    """Return what trials must have in common to choose from the same rows."""
    trial = unit.trial_options()
    return unit.sweep, unit.path, unit.test, unit.seed, trial.corruption, trial.pool


# What runs have in common that are run together, by command; each run by itself where it is only the name.
_SESSIONS: Mapping[str, Callable[[Unit], Any]] = {
    TRAIN: lambda unit: unit.name,
    COMPARE: _comparison,
    HEADS: _trial,
}


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


_ending: list[Event] = []  # in a worker: the parent's wish that all end


def _begin_worker(parent: int, ending: Event) -> None:
    """Leave signals from the terminal to the parent; end when it asks to, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _ending.append(ending)

    def watch() -> None:
        while os.getppid() == parent and not ending.wait(_POLL_SECONDS):
            pass
        os.kill(os.getpid(), signal.SIGTERM)  # which a run takes as a request to keep what it has done
        while True:
            time.sleep(1)
            if os.getppid() != parent:  # nobody waits for the run any more
                os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def _run_in_worker(chunk: Sequence[Unit], place: Place) -> list[str]:
    """Run some runs, unless all are to end: the pool hands out one more than it can take back."""
    return [] if _ending[0].is_set() else run_chunk(chunk, place)

"""``pdac valex``: the paper's validation experiment, where density and posterior are known."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from pdac_cli.arrays import Array, Tick
from pdac_cli.commands.valex.claims import Claim, bins_of, c1_claims, c2_claims, same_cell_claims
from pdac_cli.commands.valex.grid import START_NAMES, GridSummary, run_grid
from pdac_cli.commands.valex.report import ValexSummary, bin_rows, claim_rows, lines_of, write_files
from pdac_cli.commands.valex.trials import Measured, World, log_weights, measure, new_world, rankings
from pdac_cli.console import Console
from pdac_cli.engine.resources import default_jobs, one_blas_thread
from pdac_cli.errors import Stopped
from pdac_cli.learning.learner import set_threads
from pdac_cli.options.valex import Strategy, ValexOptions
from pdac_cli.storage.folders import new_folder

Key = tuple[Strategy, int]


def run(options: ValexOptions) -> ValexSummary | GridSummary:
    """Train every trial of every strategy and buffer size, and hold the paper's claims against them."""
    if options.grid:
        return run_grid(options)
    start = time.perf_counter()
    console = Console.of(options.run)
    new_folder(options.output, options.run.force)
    world = new_world(options)
    trials, weights = _all_trials(world, console)
    probability = {strategy: world.grid.probability(weights[strategy]) for strategy in weights}
    uniform = probability[Strategy.UNIFORM]
    bins = [found for size in options.c1_sizes for found in bins_of(trials[Strategy.UNIFORM, size], uniform)]
    claims: list[Claim] = []
    for size in options.c2_sizes:
        claims += c2_claims(trials, size)
    for size in options.c1_sizes:
        claims += c1_claims(trials[Strategy.UNIFORM, size], uniform)
    for size in options.c2_sizes:
        claims += same_cell_claims(trials, probability, size)
    compared = {key: found for key, found in trials.items() if key[1] in options.c2_sizes}
    summary = ValexSummary(
        str(options.output),
        options.trials,
        float((world.bayes.argmax(axis=1) == world.test.y).mean()),
        lines_of(compared),
        bin_rows(bins),
        claim_rows(claims),
        options.network.batch,
        options.density.ridge,
        START_NAMES[options.density.units],
        time.perf_counter() - start,
    )
    cells = {0: uniform, **{size: trials[Strategy.UNIFORM, size].cell_variance for size in options.c1_sizes}}
    write_files(summary, compared, bins, cells)
    return summary


def _all_trials(world: World, console: Console) -> tuple[dict[Key, Measured], dict[Strategy, Array]]:
    """Run the trials; one stack of networks per strategy and buffer size, as many side by side as there are cores."""
    options = world.options
    keys = _keys(options)
    stopped = threading.Event()
    passes = options.network.epochs
    total = sum(passes * -(-size // options.network.batch) for _, size in keys)
    total += passes * -(-options.rows // options.network.batch)
    with console.progress("training", total) as bar, one_blas_thread():

        def tick(done: int) -> None:
            if stopped.is_set():
                raise Stopped("stopped before the end; nothing is kept; run it again")
            bar(done)

        drawn = _drawings(world, keys, tick, console)
        with ThreadPoolExecutor(options.run.jobs or default_jobs(), initializer=set_threads, initargs=(1,)) as pool:
            try:
                work = {key: pool.submit(_one, key, drawn, world, tick) for key in keys}
                found = {key: future.result() for key, future in work.items()}
            except BaseException:
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return found, {strategy: drawn(strategy)[0] for strategy in Strategy}


def _keys(options: ValexOptions) -> list[Key]:
    """Return what to run, long ones first; those that need the estimate last, for it takes long itself."""
    sizes = {strategy: set(options.c2_sizes) for strategy in Strategy}
    sizes[Strategy.UNIFORM] |= set(options.c1_sizes)
    keys = [(strategy, size) for strategy in Strategy for size in sizes[strategy]]
    return sorted(keys, key=lambda key: (key[0] is not Strategy.ESTIMATE or key[1] != max(options.c2_sizes), -key[1]))


def _drawings(world: World, keys: list[Key], tick: Tick, console: Console) -> Callable[[Strategy], tuple[Array, Array]]:
    """Return a function that gives a strategy's log-weights and each trial's ranking, found once."""
    locks = {strategy: threading.Lock() for strategy in Strategy}

    @cache
    def find(strategy: Strategy) -> tuple[Array, Array]:
        log_weight = log_weights(strategy, world, tick, console)
        most = max(size for other, size in keys if other is strategy)
        return log_weight, rankings(log_weight, most, world.options)

    def drawn(strategy: Strategy) -> tuple[Array, Array]:
        with locks[strategy]:
            return find(strategy)

    return drawn


def _one(key: Key, drawn: Callable[[Strategy], tuple[Array, Array]], world: World, tick: Tick) -> Measured:
    strategy, size = key
    return measure(strategy, np.ascontiguousarray(drawn(strategy)[1][:, :size]), world, tick)

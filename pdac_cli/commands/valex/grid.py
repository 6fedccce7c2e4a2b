"""C2 by the choices that the paper leaves open: rows per step, and the floor and the start of the estimated density."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.commands.valex.claims import claim_of, name_of, rank_correlation
from pdac_cli.commands.valex.data import log_density
from pdac_cli.commands.valex.report import difference_text, write_csv
from pdac_cli.commands.valex.trials import World, estimated, features_of_all, log_weights, measure, new_world, rankings
from pdac_cli.console import Console, printable
from pdac_cli.engine.resources import default_jobs, one_blas_thread
from pdac_cli.errors import Stopped
from pdac_cli.files.results.runs import write_json
from pdac_cli.learning.learner import set_threads
from pdac_cli.metrics import paired_difference
from pdac_cli.options.shared import Units
from pdac_cli.options.valex import Strategy, ValexOptions
from pdac_cli.reports.table import Table
from pdac_cli.storage.folders import new_folder

BATCHES = (32, 256, 0)  # rows per step; 0: all of the buffer
FLOORS = (1e-6, 1e-4, 1e-2)
START_NAMES = {Units.CLASS: "scaled", Units.ABSOLUTE: "identity"}
_FULL = 1 << 30

Density = tuple[float, Units]  # the estimate's floor, and what it and the start are measured in
Draw = Strategy | Density


@dataclass(frozen=True)
class GridSummary:
    """Differences of the error to the Bayes posterior, paired by trial, for every choice."""

    output: str
    trials: int
    rows: int
    estimates: list[dict[str, Any]]  # of each floor and start: how the estimate goes with the density
    claims: list[dict[str, Any]]
    seconds: float

    def text(self) -> str:
        """Return the tables."""
        parts = [f"C2 by batch, floor and start; {self.trials} trials, {self.rows:,} rows (± half a 95 % interval)"]
        parts += [self._table(name) for name in dict.fromkeys(claim["claim"] for claim in self.claims)]
        return "\n".join([
            *parts,
            "the estimate: rank correlation of log p-hat with log p, and effective share of the rows in the draw",
            Table.of_records(self.estimates).text(),
            f"results in {printable(self.output)} ({self.seconds:.0f} s)",
        ])  # fmt: skip

    def _table(self, name: str) -> str:
        mine = [claim for claim in self.claims if claim["claim"] == name]
        sizes = list(dict.fromkeys(claim["size"] for claim in mine))
        rows: dict[tuple[str, ...], list[str]] = {}
        for claim in mine:
            key = (claim["batch"], claim["floor"], claim["start"])
            rows.setdefault(key, [*key, *[""] * len(sizes)])[3 + sizes.index(claim["size"])] = difference_text(claim)
        columns = ["batch", "floor", "start", *(f"N = {size:,}" for size in sizes)]
        return Table.of(columns, list(rows.values()), name, left=["batch", "floor", "start"]).text()


def run_grid(options: ValexOptions) -> GridSummary:
    """Train the trials of every strategy at every batch size, the estimate with every floor and start."""
    start, console = time.perf_counter(), Console.of(options.run)
    new_folder(options.output, options.run.force)
    world = new_world(options)
    log_weight = _log_weights(world, console)
    errors = _errors(world, log_weight, console)
    log_p = log_density(world.train)
    estimates = [
        {**_named(density), "rank correlation": round(rank_correlation(log_p, weight), 3),
         "effective share": round(_effective_share(weight), 4)}
        for density, weight in log_weight.items() if not isinstance(density, Strategy)
    ]  # fmt: skip
    claims = [row for batch in BATCHES for row in _claims(errors, batch, options, list(log_weight))]
    seconds = time.perf_counter() - start
    summary = GridSummary(str(options.output), options.trials, options.rows, estimates, claims, seconds)
    write_csv(options.output / "grid.csv", claims)
    write_json(Path(options.output) / "results.json", asdict(summary))
    return summary


def _log_weights(world: World, console: Console) -> dict[Draw, Array]:
    """Return what rows are drawn in proportion to, by strategy or by the estimate's choices: (n,) each."""
    known = (Strategy.UNIFORM, Strategy.DENSITY, Strategy.INVERSE)
    out: dict[Draw, Array] = {strategy: log_weights(strategy, world, lambda _: None, console) for strategy in known}
    h = features_of_all(world, lambda _: None)  # the network that the estimate sees is no part of any trial
    for floor, units in product(FLOORS, Units):
        density = replace(world.options.density, ridge=floor, units=units)
        out[floor, units] = estimated(replace(world.options, density=density), h, world.train.y, console)
    return out


def _errors(world: World, log_weight: Mapping[Draw, Array], console: Console) -> dict[tuple[int, Draw, int], Array]:
    """Return each trial's mean squared error by batch, strategy and buffer size: (T,) each."""
    options, sizes = world.options, sorted(world.options.c2_sizes, reverse=True)
    ranking = {draw: rankings(weight, sizes[0], options) for draw, weight in log_weight.items()}
    keys = [(batch, draw, size) for size in sizes for batch in BATCHES for draw in log_weight]
    stopped = threading.Event()
    steps = sum(options.network.epochs * -(-size // (batch or _FULL)) for batch, _, size in keys)
    with console.progress("training", steps) as bar, one_blas_thread():

        def tick(done: int) -> None:
            if stopped.is_set():
                raise Stopped("stopped before the end; nothing is kept; run it again")
            bar(done)

        def one(key: tuple[int, Draw, int]) -> Array:
            batch, draw, size = key
            network = replace(options.network, batch=batch or _FULL)
            here = replace(world, options=replace(options, network=network))
            strategy = draw if isinstance(draw, Strategy) else Strategy.ESTIMATE
            return measure(strategy, np.ascontiguousarray(ranking[draw][:, :size]), here, tick).mse

        with ThreadPoolExecutor(options.run.jobs or default_jobs(), initializer=set_threads, initargs=(1,)) as pool:
            try:
                work = {key: pool.submit(one, key) for key in keys}
                return {key: future.result() for key, future in work.items()}
            except BaseException:
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _claims(
    errors: Mapping[tuple[int, Draw, int], Array], batch: int, options: ValexOptions, draws: list[Draw]
) -> list[dict[str, Any]]:
    """Hold the order of the strategies against the trials at one batch size."""
    pairs: list[tuple[str, Draw, Draw, dict[str, str]]] = [
        (name_of(first, second), first, second, {"floor": "", "start": ""})
        for first, second in ((Strategy.DENSITY, Strategy.UNIFORM), (Strategy.UNIFORM, Strategy.INVERSE))
    ]
    for draw in draws:
        if not isinstance(draw, Strategy):
            pairs.append((name_of(Strategy.ESTIMATE, Strategy.UNIFORM), draw, Strategy.UNIFORM, _named(draw)))
            pairs.append((name_of(Strategy.DENSITY, Strategy.ESTIMATE), Strategy.DENSITY, draw, _named(draw)))
    rows = []
    for name, first, second, named in pairs:
        for size in options.c2_sizes:
            found = paired_difference(errors[batch, first, size], errors[batch, second, size])
            claim = claim_of(name, size, found)
            rows.append({**asdict(claim), "verdict": claim.verdict, "batch": str(batch or "full"), **named})
    return rows


def _named(draw: Density) -> dict[str, str]:
    return {"floor": f"{draw[0]:g}", "start": START_NAMES[draw[1]]}


def _effective_share(log_weight: Array) -> float:
    w = np.exp(log_weight - log_weight.max())
    return float(w.sum() ** 2 / np.square(w).sum() / len(w))

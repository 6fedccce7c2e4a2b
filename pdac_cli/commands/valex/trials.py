"""The trials of the validation experiment: buffers drawn, networks trained on them, predictions measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdac_cli.arrays import Array, Tick
from pdac_cli.commands.valex.data import CLASSES, Grid, Points, draw, log_density, posterior
from pdac_cli.console import Console
from pdac_cli.engine.plan import count_classes, make_plan
from pdac_cli.engine.sources import MemorySource
from pdac_cli.learning.stacked import Stack, learn
from pdac_cli.options.shared import InputOptions
from pdac_cli.options.valex import Strategy, ValexOptions
from pdac_cli.pipeline.fitting import DensitySetup, device_of, scored_rows
from pdac_cli.rng import Purpose, generator, row_gumbels

GROUPS = 10  # of trials, whose variances are compared for an interval


@dataclass(frozen=True)
class World:
    """What all trials share."""

    options: ValexOptions
    train: Points
    test: Points
    grid: Grid
    bayes: Array  # (m, 10) posterior of the test rows


@dataclass(frozen=True)
class Measured:
    """The results of the trials of one strategy at one buffer size."""

    strategy: Strategy
    size: int
    mse: Array  # (T,) mean squared distance to the Bayes posterior
    accuracy: Array  # (T,)
    density: Array  # (T,) mean of p(z) over the buffer
    variance: float  # E_z tr Cov of the predictions over trials
    bias: float  # E_z ‖mean prediction − posterior‖², without the part that the mean's own variance adds
    cell_variance: Array  # (cells,) of all trials
    group_variance: Array  # (groups, cells) of each group of trials


def rankings(log_weight: Array, most: int, options: ValexOptions) -> Array:
    """Draw `most` rows without replacement in proportion to the weights, once per trial: (n,) -> (T, most).

    Gumbel-top-k, Eq. (10): a smaller buffer is the beginning of a larger one.  The noise is that of the trial alone, so
    the strategies' trials are paired.
    """
    rows = np.arange(len(log_weight))
    out = np.empty((options.trials, most), np.int64)
    for trial in range(options.trials):
        key = log_weight + row_gumbels(options.seed, Purpose.DRAW, rows, trial)
        best = np.argpartition(-key, most - 1)[:most]
        out[trial] = best[np.argsort(-key[best])]
    return out


def log_weights(strategy: Strategy, world: World, tick: Tick, console: Console) -> Array:
    """Return the logarithm of what rows are drawn in proportion to: (n,)."""
    if strategy is Strategy.UNIFORM:
        return np.zeros(len(world.train.y))
    if strategy is Strategy.ESTIMATE:
        return estimated(world.options, features_of_all(world, tick), world.train.y, console)
    sign = 1.0 if strategy is Strategy.DENSITY else -1.0
    return sign * log_density(world.train)


def measure(strategy: Strategy, chosen: Array, world: World, tick: Tick) -> Measured:
    """Train a network on each trial's buffer, rows chosen (T, N), and measure its predictions on the test rows."""
    options, trials = world.options, len(chosen)
    stack = _new_stack(options, trials)
    orders = [generator(options.seed, Purpose.BATCHES, trial) for trial in range(trials)]
    learn(stack, world.train.x[chosen], world.train.y[chosen], orders, options.network, tick)
    groups = np.array_split(np.arange(trials), min(GROUPS, trials // 2))
    rows = len(world.test.y)
    squares, right = np.zeros(trials), np.zeros(trials)
    variance, bias = np.empty(rows), np.empty(rows)
    parts = np.empty((len(groups), rows))
    for part, p in stack.predictions(world.test.x):  # (T, m, 10)
        tick(0)  # which tells when to stop
        bayes = world.bayes[part]
        squares += np.square(p - bayes).sum(axis=(1, 2))
        right += (p.argmax(axis=2) == world.test.y[part]).sum(axis=1)
        variance[part] = p.var(axis=0, ddof=1).sum(axis=1)
        bias[part] = np.square(p.mean(axis=0) - bayes).sum(axis=1) - variance[part] / trials
        for g, group in enumerate(groups):
            parts[g, part] = p[group].var(axis=0, ddof=1).sum(axis=1)
    return Measured(
        strategy,
        chosen.shape[1],
        squares / rows,
        right / rows,
        np.exp(log_density(world.train))[chosen].mean(axis=1),
        float(variance.mean()),
        float(bias.mean()),
        world.grid.mean_of(variance),
        world.grid.mean_of(parts),
    )


def new_world(options: ValexOptions) -> World:
    """Draw the rows; they are given, and only the buffers vary from trial to trial."""
    train, test = (draw(options.rows, options.seed, part) for part in range(2))
    return World(options, train, test, Grid.of(train, test), posterior(test.x))


def _new_stack(options: ValexOptions, trials: int, first: int = 0) -> Stack:
    """Return the trials' networks; a trial starts from the same weights whatever its strategy and buffer size."""
    hidden = options.network.hidden
    draws = [generator(options.seed, Purpose.NETWORK, first + trial) for trial in range(trials)]
    return Stack.begin((2, hidden, hidden, CLASSES), draws)


def features_of_all(world: World, tick: Tick) -> Array:
    """Return the features of all rows by a network trained on them, which is not part of any trial: (n, D)."""
    options, train = world.options, world.train
    stack = _new_stack(options, 1, first=options.trials)
    order = generator(options.seed, Purpose.BATCHES, options.trials)
    learn(stack, train.x[None], train.y[None], [order], options.network, tick)
    return np.concatenate([part[0] for _, part in stack.chunks(train.x, stack.features)])


def estimated(options: ValexOptions, h: Array, y: Array, console: Console) -> Array:
    """Return log p̂(z), Eq. (9), of rows by their features h (n, D) and labels y (n,): (n,)."""
    source, unread = MemorySource(h, y), InputOptions()
    plan = make_plan(unread, options.run)
    classes = count_classes(source, plan, unread)
    setup = DensitySetup(options.density, options.seed, device_of(options.run))
    log_p = np.empty(len(y))
    for some in scored_rows(source, classes, setup, plan, console):
        log_p[some.ids] = some.log_p
    return log_p

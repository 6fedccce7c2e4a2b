"""``pdac train-cl``: a whole continual-learning experiment, tasks by classes, with replay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pdac_cli.commands.stopping import stop_requests
from pdac_cli.commands.train_cl_data import open_samples
from pdac_cli.commands.train_cl_memory import ChosenMemory, NoMemory, Silent, SpeakingMemory
from pdac_cli.commands.train_cl_plan import check_plan, config_of, methods_of, settled, sharing_of
from pdac_cli.commands.train_cl_report import SeedResult, TrainSummary, results_of, seed_result, summary_of, table_of
from pdac_cli.commands.train_cl_stored import restored, stored_result
from pdac_cli.commands.train_cl_stream import StreamMemory
from pdac_cli.console import Console
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.engine.source import Tick
from pdac_cli.errors import DataError, Stopped
from pdac_cli.files.runs import RunFolder, SeedFolder, last_name, new_name, open_run
from pdac_cli.learning.checkpoints import Checkpoint
from pdac_cli.learning.devices import choose_device
from pdac_cli.learning.heads import new_network
from pdac_cli.learning.learner import Learner, set_threads
from pdac_cli.learning.loop import Schedule, learn
from pdac_cli.learning.parallel import Ranks, joined_ranks, local_device
from pdac_cli.learning.progress import Progress
from pdac_cli.learning.samples import Samples, first_rows
from pdac_cli.learning.tasks import Task, order_classes, split_tasks
from pdac_cli.options.select import Allocation, SelectOptions
from pdac_cli.options.shared import InputOptions
from pdac_cli.options.stream import StreamAllocation, StreamMethod, StreamOptions
from pdac_cli.options.stream import StreamDensityOptions as StreamDensity
from pdac_cli.options.train_cl import Setting, TrainOptions
from pdac_cli.selection.streams.methods import STREAMING_METHODS

_RUNS = Path("runs")
_FEWEST_IMAGES = 2  # of a task


@dataclass(frozen=True)
class Experiment:
    """All that the seeds and methods of a run have in common."""

    options: TrainOptions  # settled
    samples: Samples  # on the device
    init: Checkpoint | None
    ranks: Ranks
    stopping: Callable[[], bool]
    console: Console


def run(options: TrainOptions, console: Console | None = None) -> TrainSummary | None:
    """Run every method with every seed; None in processes of a parallel run that have nothing to say."""
    methods = methods_of(options)
    device = choose_device(local_device(options.learning.device))
    # The densities' products are small: threads of their own would only be in the way of the network's.
    with joined_ranks(device) as ranks, stop_requests() as stopping, one_blas_thread():
        console = (console or Console.of(options.run)) if ranks.first else Silent()
        samples, init = open_samples(options, console)
        samples = samples if options.rows_per_class is None else first_rows(samples, options.rows_per_class)
        options = settled(options, samples, init)
        check_plan(options, samples, methods, device.type, ranks.world)
        experiment = Experiment(options, samples.to(device), init, ranks, stopping, console)
        config = config_of(options, samples, methods, device.type, ranks.world)
        with _folder(options, config, ranks) as folder:
            results = _all_seeds(experiment, methods, folder)
            if not ranks.first:
                return None
            folder.finish(results_of(results, config), table_of(results))
        return summary_of(folder.path, results, console)


@contextmanager
def _folder(options: TrainOptions, config: dict[str, object], ranks: Ranks) -> Iterator[RunFolder]:
    """Open the run's folder, which the first process makes."""
    if not ranks.first:
        yield RunFolder(ranks.shared(Path()))
        return
    stem = f"{Path(options.data[0].rstrip('/')).stem.replace(':', '-')}-{options.setting.value}"
    path = options.output or (last_name if options.resume else new_name)(_RUNS, stem)
    with open_run(path, config, options.resume, options.run.force) as folder:
        ranks.shared(path)
        yield folder


def _all_seeds(experiment: Experiment, methods: tuple[str, ...], folder: RunFolder) -> list[SeedResult]:
    """Run every method with every seed, several side by side where one does not keep the cores busy."""
    options, samples = experiment.options, experiment.samples
    sharing = sharing_of(options, samples, samples.x.device.type, experiment.ranks.world)
    seeds = range(options.seed, options.seed + options.seeds)
    failed = threading.Event()
    watched = replace(experiment, stopping=lambda: failed.is_set() or experiment.stopping())
    steps = len(samples.x) // options.learning.batch * (options.learning.epochs or 1) * len(methods) * len(seeds)
    with experiment.console.progress("training", steps) as tick:

        def work(job: tuple[int, str]) -> SeedResult:
            if experiment.ranks.world == 1 and watched.stopping():
                raise Stopped(f"stopped before {job[1]}, seed {job[0]}; what is done is kept; add --resume to go on")
            try:
                return _seed(watched, job[1], job[0], folder, tick)
            except BaseException:
                failed.set()  # the others need not go on; what they have done is kept
                raise

        jobs = [(seed, method) for seed in seeds for method in methods]
        set_threads(sharing.threads)
        if sharing.runs == 1:
            return [work(job) for job in jobs]
        with ThreadPoolExecutor(sharing.runs, initializer=set_threads, initargs=(sharing.threads,)) as pool:
            futures = [pool.submit(work, job) for job in jobs]
            errors = [error for future in futures if (error := future.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, Stopped)):
            raise error  # the cause before its consequences
        return [future.result() for future in futures]


def _seed(experiment: Experiment, method: str, seed: int, folder: RunFolder, tick: Tick) -> SeedResult:
    """Return what one method comes to with one seed, unless an earlier run has done it."""
    options, ranks, samples, console = experiment.options, experiment.ranks, experiment.samples, experiment.console
    place = folder.seed(method, seed, make=ranks.first)
    done = ranks.shared(place.result())
    if done is not None:
        return stored_result(done, place.path)
    labels = order_classes(samples.labels, options.class_order, seed)
    y, y_test = samples.y.cpu().numpy(), samples.y_test.cpu().numpy()
    tasks = split_tasks(y, y_test, labels, options.tasks, options.imbalance, seed)
    if samples.how is not None and min(len(task.train) for task in tasks) < _FEWEST_IMAGES:
        raise DataError("a task has a single training image; expected two or more, for a batch to have a variance")
    learner = _learner(experiment, seed)
    memory = _memory(experiment, method, seed, tasks, place)
    checkpoint = ranks.shared(place.checkpoint())
    progress = Progress() if checkpoint is None else restored(checkpoint, place.path, learner, memory)
    epochs = options.learning.epochs or 1
    learn(learner, tasks, memory, Schedule(seed, epochs, place.save, experiment.stopping, tick), progress)
    result = seed_result(method, seed, tasks, samples, progress, memory.console.warnings)
    if ranks.first:
        place.finish(vars(result), result.csv())
        console.note(result.line())
    return result


def _learner(experiment: Experiment, seed: int) -> Learner:
    options, samples, init = experiment.options.learning, experiment.samples, experiment.init
    shape, classes = tuple(samples.x.shape[1:]), len(samples.labels)
    state = None if init is None else init.state
    network = new_network(shape, classes, options.width or 1, options.hidden, state, seed)
    return Learner(network, samples, options, samples.x.device, experiment.ranks)


def _memory(experiment: Experiment, method: str, seed: int, tasks: list[Task], place: SeedFolder) -> SpeakingMemory:
    """Return the buffer that the method keeps."""
    options, ranks, samples = experiment.options, experiment.ranks, experiment.samples
    run = replace(options.run, quiet=True, device=None)
    if options.budget == 0:
        return NoMemory()
    if options.setting is Setting.OFFLINE:
        select = SelectOptions(
            InputOptions(), options.budget, method=method, allocation=options.allocation,
            temperature=options.temperature, eviction=options.eviction, density=options.density, run=run, seed=seed,
        )  # fmt: skip
        return ChosenMemory(samples, place, ranks.shared, ranks.first, select, options.rescore)
    density = StreamDensity(
        options.density.dim, options.density.components, options.density.ridge, options.beta, options.step_rows
    )
    joint = options.allocation is Allocation.JOINT
    stream = StreamOptions(
        InputOptions(), options.budget, Path(), method=StreamMethod(method), acceptance=options.acceptance,
        temperature=options.temperature, batch=options.learning.batch, density=density, run=run, seed=seed,
        allocation=StreamAllocation.JOINT if joint else StreamAllocation.PER_CLASS, window=options.window,
        settings=options.settings,
    )  # fmt: skip
    dim = 8 * (options.learning.width or 1) if samples.how is not None else samples.x.shape[1]
    scored = dim if STREAMING_METHODS[stream.method].needs_features else 1
    return StreamMemory(samples, place, ranks.shared, ranks.first, stream, scored, tasks)

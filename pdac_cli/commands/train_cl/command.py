"""``pdac train-cl``: a whole continual-learning experiment, tasks by classes, with replay."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pdac_cli.arrays import Tick
from pdac_cli.commands.train_cl.closed_form import learn_closed_form
from pdac_cli.commands.train_cl.data import open_samples
from pdac_cli.commands.train_cl.methods import Methods, methods_of, reference_of
from pdac_cli.commands.train_cl.offline_memory import ChosenMemory, MemoryWithWarnings, NoMemory
from pdac_cli.commands.train_cl.plan import check_effect, check_plan, config_of, settled, sharing_of
from pdac_cli.commands.train_cl.report import SeedResult, TrainSummary, results_of, seed_result, summary_of, table_of
from pdac_cli.commands.train_cl.stored import restored, stored_result
from pdac_cli.commands.train_cl.stream_memory import StreamMemory
from pdac_cli.console import Console, Silent
from pdac_cli.engine.plan import make_plan
from pdac_cli.engine.resources import one_blas_thread
from pdac_cli.errors import DataError, Stopped
from pdac_cli.files.results.runs import RunFolder, SeedFolder, last_name, new_name, open_run
from pdac_cli.learning.data.samples import Samples, first_rows
from pdac_cli.learning.data.tasks import Task, order_classes, split_tasks
from pdac_cli.learning.devices import autocast, choose_device
from pdac_cli.learning.learner import Learner, set_threads
from pdac_cli.learning.loop import Schedule, learn
from pdac_cli.learning.networks.checkpoints import Checkpoint
from pdac_cli.learning.networks.heads import new_network
from pdac_cli.learning.parallel import Ranks, joined_ranks, local_device
from pdac_cli.learning.progress import RunProgress
from pdac_cli.options.heads import HeadLearner
from pdac_cli.options.methods import StreamMethod
from pdac_cli.options.select import Allocation, DrawOptions, SelectOptions, SteerBy
from pdac_cli.options.stream import StreamAllocation, StreamRule
from pdac_cli.options.stream import StreamDensityOptions as StreamDensity
from pdac_cli.options.train_cl import KmeansOf, TrainOptions
from pdac_cli.selection.interface import Method
from pdac_cli.selection.streams.interface import StreamingMethod
from pdac_cli.storage.signals import stop_requests

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


@dataclass(frozen=True)
class SeedSupervisor:
    """Keeps the checkpoints of one seed in its folder; see `loop.Supervisor`."""

    place: SeedFolder
    stopping: Callable[[], bool]
    tick: Tick

    def save(self, checkpoint: bytes) -> None:
        """Keep a checkpoint."""
        self.place.save(checkpoint)


def run(options: TrainOptions, console: Console | None = None) -> TrainSummary | None:
    """Run every method with every seed; None in processes of a parallel run that have nothing to say.

    An experiment gives its console, and to all its runs the options that one of them needs.
    """
    methods, reference, alone = methods_of(options), reference_of(options), console is None
    device = choose_device(local_device(options.learning.device))
    # The densities' products are small: threads of their own would only be in the way of the network's.
    with joined_ranks(device) as ranks, stop_requests() as stopping, one_blas_thread():
        console = (console or Console.of(options.run)) if ranks.first else Silent()
        samples, init = open_samples(options, console)
        samples = samples if options.rows_per_class is None else first_rows(samples, options.rows_per_class)
        options = settled(options, samples, init)
        check_plan(options, samples, methods, device.type, ranks.world)
        if alone:
            check_effect(options, samples)
        experiment = Experiment(options, samples.to(device), init, ranks, stopping, console)
        _check_seeds(experiment)
        config = config_of(options, samples, methods, device.type, ranks.world)
        with _folder(options, config, ranks) as folder:
            results = _all_seeds(experiment, methods, folder)
            if not ranks.first:
                return None
            folder.finish(results_of(results, config, reference), table_of(results))
        return summary_of(folder.path, results, console, reference)


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


def _check_seeds(experiment: Experiment) -> None:
    """Refuse, before anything is made, what no seed could be run with."""
    options = experiment.options
    autocast(experiment.samples.x.device, options.learning.amp)
    for seed in range(options.seed, options.seed + options.seeds):
        _tasks(experiment, seed)


def _tasks(experiment: Experiment, seed: int) -> list[Task]:
    """Return the tasks of a seed."""
    options, samples = experiment.options, experiment.samples
    labels = order_classes(samples.labels, options.class_order, seed)
    y, y_test = samples.y.cpu().numpy(), samples.y_test.cpu().numpy()
    tasks = split_tasks(y, y_test, labels, options.tasks, options.imbalance, seed)
    if samples.how is not None and min(len(task.train) for task in tasks) < _FEWEST_IMAGES:
        raise DataError("a task has a single training image; expected two or more, for a batch to have a variance")
    return tasks


def _all_seeds(experiment: Experiment, methods: Methods, folder: RunFolder) -> list[SeedResult]:
    """Run every method with every seed, several side by side where one does not keep the cores busy."""
    options, samples = experiment.options, experiment.samples
    sharing = sharing_of(options, samples, samples.x.device.type, experiment.ranks.world)
    seeds = range(options.seed, options.seed + options.seeds)
    failed = threading.Event()
    watched = replace(experiment, stopping=lambda: failed.is_set() or experiment.stopping())
    steps = (
        len(samples.x) // options.learning.batch * (options.learning.epochs or 1) * len(options.compared) * len(seeds)
    )
    with experiment.console.progress("training", steps) as tick:

        def work(job: tuple[int, str]) -> SeedResult:
            if experiment.ranks.world == 1 and watched.stopping():
                raise Stopped(f"stopped before {job[1]}, seed {job[0]}; what is done is kept; add --resume to go on")
            try:
                return _seed(watched, job[1], methods.get(job[1]), job[0], folder, tick)
            except BaseException:
                failed.set()  # the others need not go on; what they have done is kept
                raise

        jobs = [(seed, method) for seed in seeds for method in options.compared]
        set_threads(sharing.threads)
        if sharing.runs == 1:
            return [work(job) for job in jobs]
        with ThreadPoolExecutor(sharing.runs, initializer=set_threads, initargs=(sharing.threads,)) as pool:
            futures = [pool.submit(work, job) for job in jobs]
            errors = [error for future in futures if (error := future.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, Stopped)):
            raise error  # the cause before its consequences
        return [future.result() for future in futures]


def _seed(
    experiment: Experiment,
    name: str,
    method: Method | StreamingMethod | None,
    seed: int,
    folder: RunFolder,
    tick: Tick,
) -> SeedResult:
    """Return the results of one method, or a learner without one, with one seed, unless an earlier run has done it."""
    options, ranks, samples = experiment.options, experiment.ranks, experiment.samples
    place = folder.seed(name, seed, make=ranks.first)
    done = ranks.shared(place.result())
    if done is not None:
        return stored_result(done, place.path)
    tasks = _tasks(experiment, seed)
    supervisor = SeedSupervisor(place, experiment.stopping, tick)
    if method is None and not HeadLearner(name).has_network:
        progress, kept = learn_closed_form(name, options, samples, tasks, seed, supervisor)
        return _finished(experiment, place, seed_result(name, seed, tasks, samples, progress, [], kept))
    learner = _learner(experiment, seed)
    memory = _memory(experiment, name, method, seed, tasks, place)
    checkpoint = ranks.shared(place.checkpoint())
    progress = RunProgress() if checkpoint is None else restored(checkpoint, place.path, learner, memory)
    epochs = options.learning.epochs or 1
    learn(learner, tasks, memory, Schedule(seed, epochs, supervisor), progress)
    kept = bytes_kept(learner, samples, 0 if method is None else options.budget)
    warnings = memory.console.warnings
    return _finished(experiment, place, seed_result(name, seed, tasks, samples, progress, warnings, kept))


def _finished(experiment: Experiment, place: SeedFolder, result: SeedResult) -> SeedResult:
    if experiment.ranks.first:
        place.finish(vars(result), result.csv())
        experiment.console.note(result.line())
    return result


def bytes_kept(learner: Learner, samples: Samples, budget: int) -> int:
    """Return the bytes of the network and of a full buffer: rows as they are held, and their classes."""
    rows = min(budget, len(samples.x))
    row = samples.x[0].numel() * samples.x.element_size() + samples.y.element_size()
    state = learner.network.state_dict().values()
    return int(rows * row + sum(tensor.numel() * tensor.element_size() for tensor in state))


def _learner(experiment: Experiment, seed: int) -> Learner:
    options, samples, init = experiment.options.learning, experiment.samples, experiment.init
    shape, classes = tuple(samples.x.shape[1:]), len(samples.labels)
    state = None if init is None else init.state
    network = new_network(shape, classes, options.width or 1, options.hidden, state, seed)
    return Learner(network, samples, options, samples.x.device, experiment.ranks)


def _draw(options: TrainOptions, images: bool) -> tuple[DrawOptions, float]:
    """Return how pdac draws, and its temperature.

    On features classes come task by task, so a row is to help the mean of its class.  A network that learns does not
    need to be reminded of the rows it finds easy, which are those of high density: there the density has no say, and a
    row is to help telling the task's classes apart.
    """
    by = options.draw.steer_by or (SteerBy.ERROR if images else SteerBy.MEAN)
    indifferent = images and options.draw.steer > 0 and "temperature" not in options.given
    return replace(options.draw, steer_by=by), 0.0 if indifferent else options.temperature


def _memory(
    experiment: Experiment,
    name: str,
    method: Method | StreamingMethod | None,
    seed: int,
    tasks: list[Task],
    place: SeedFolder,
) -> MemoryWithWarnings:
    """Return the buffer that the method keeps."""
    options, ranks, samples = experiment.options, experiment.ranks, experiment.samples
    run = replace(options.run, quiet=True, device=None)
    if options.budget == 0 or method is None:
        return NoMemory()
    if isinstance(method, Method):
        draw, temperature = _draw(options, samples.how is not None)
        select = SelectOptions(
            budget=options.budget, method=name, allocation=options.allocation,
            temperature=temperature, draw=draw, eviction=options.eviction, own=options.own,
            density=options.density, run=run, seed=seed,
        )  # fmt: skip
        plan = make_plan(select.input, select.run)
        of_inputs = options.kmeans_of is KmeansOf.INPUTS
        return ChosenMemory(
            samples, place, ranks.shared, ranks.first, select, method, plan, options.rescore, of_inputs, options.probe
        )
    density = StreamDensity(
        dim=options.density.dim, components=options.density.components, ridge=options.density.ridge,
        units=options.density.units, beta=options.beta, step_rows=options.step_rows, updates=options.updates,
    )  # fmt: skip
    joint = options.allocation is Allocation.JOINT
    stream = StreamRule(
        budget=options.budget, method=StreamMethod(name), acceptance=options.acceptance,
        temperature=options.temperature, batch=options.learning.batch, density=density, seed=seed,
        allocation=StreamAllocation.JOINT if joint else StreamAllocation.PER_CLASS, window=options.window,
        density_kind=options.draw.density_kind, steer=options.draw.steer, settings=options.settings,
    )  # fmt: skip
    n_features = 8 * (options.learning.width or 1) if samples.how is not None else samples.x.shape[1]
    scored = n_features if method.needs_features else 1
    return StreamMemory(samples, place, ranks.shared, ranks.first, stream, method, scored, tasks, options.feed)

"""Rows per second of ``pdac stream`` beside the direct transcription of Algorithm 2, in one run.

    python -m tests.benchmarks.stream [--rows 50000] [--features 512] [--direct-batches 16] [--no-network]
    python -m tests.benchmarks.stream --likelihood [--seeds 4] [--train TRAIN.h5 --test TEST.h5]

The direct transcription decomposes every class's D × D covariance afresh (full ``eigh``) for every batch the class is
in.  It is timed on a few batches in the middle of the stream, when every class has its density, for all of it would
take hours; so are the two streams that also update every class in every batch.  The default stream, which updates a
class every 256 of its rows, and plain reservoir sampling are timed on all rows.  BLAS has one thread in all of them.
Then the default's time for a batch of 32 rows is compared with one training step of ResNet18 (width 64) on 64 images of
32 × 32, the other work of a replay step, on all cores.  Processor time stands beside, for other work on the machine
slows the one or the other.

``--likelihood`` prints instead how far the streamed density's held-out log-likelihood lies below the offline fit's (in
per cent of it; negative: above), rows arriving three at a time: over sets of each kind, seeds of the initial rows in
each, beside how far the offline fit's own seeds lie apart.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from pdac_cli.density.moments import DenseMoments
from pdac_cli.engine.stream.running import Stream
from pdac_cli.options.methods import StreamMethod
from pdac_cli.options.select import DensityKind
from pdac_cli.options.stream import StreamDensityOptions, StreamOptions, StreamSolver
from pdac_cli.selection.streams.methods import streaming_method
from tests.likelihood import from_files, measure, samples

BATCH = 32
Times = tuple[float, float]  # wall and processor seconds


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--direct-batches", type=int, default=16)
    parser.add_argument("--no-network", action="store_true")
    parser.add_argument("--likelihood", action="store_true")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--train", type=Path)
    parser.add_argument("--test", type=Path)
    options = parser.parse_args()
    if options.likelihood:
        with threadpool_limits(1):
            likelihoods(options.seeds, options.train, options.test)
        return
    print(f"{options.rows:,} x {options.features}, batches of {BATCH}, {os.cpu_count()} cores\n")
    print("| classes | stream | rows timed | rows/s | of direct | rows per processor second | of direct |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    batch_times = {}
    for classes in (10, 100):
        with threadpool_limits(1):
            batch_times[classes] = compare(options.rows, options.features, classes, options.direct_batches)
    if not options.no_network:
        step, processor = training_step()
        print(f"\nResNet18 training step on 64 images: {1e3 * step:.0f} ms, {1e3 * processor:.0f} ms of processor time")
        for classes, (wall, own) in batch_times.items():
            print(
                f"stream step on {BATCH} rows, {classes} classes: {1e3 * wall:.2f} ms = {wall / step:.1%} of it; "
                f"processor time {1e3 * own:.2f} ms = {own / processor:.1%}"
            )


def likelihoods(seeds: int, train: Path | None, test: Path | None) -> None:
    """Print a line per kind of set."""
    kinds = [samples(clusters, rows) for clusters in (1, 5, 12, 30) for rows in (300, 500, 2000, 5000)]
    if train and test:
        kinds.append(from_files(train, test))
    print(f"{seeds} seeds a set; gaps and spreads in %\n")
    print("| rows | sets | offline | stream | mean gap | worst set | worst seed | sets over 5 % | offline's spread |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for kind in kinds:
        found = [(sample.kind, measure(sample, seeds)) for sample in kind]
        for name in dict.fromkeys(name for name, _ in found):
            ours = [one for label, one in found if label == name]
            gaps = 100 * np.array([one.gap for one in ours])
            means = [np.mean([one.offline.mean() for one in ours]), np.mean([one.stream.mean() for one in ours])]
            cells = [
                name, str(len(ours)), f"{means[0]:.2f}", f"{means[1]:.2f}", f"{gaps.mean():.1f}", f"{gaps.max():.1f}",
                f"{100 * max(one.worst for one in ours):.1f}", str((gaps > 5).sum()),
                f"{100 * np.mean([one.spread for one in ours]):.1f}",
            ]  # fmt: skip
            print(f"| {' | '.join(cells)} |", flush=True)


def compare(rows: int, features: int, classes: int, direct_batches: int) -> Times:
    """Print a line per stream and return the default's seconds per batch."""
    h, y = data(rows, features, classes)
    half = rows // 2 // BATCH * BATCH
    direct = None
    for title, solver, step_rows, batches in (
        ("direct transcription: eigh, every batch", StreamSolver.EXACT, 1, direct_batches),
        ("warm, every batch", StreamSolver.WARM, 1, 8 * direct_batches),
        ("warm, every 256 rows of a class (default)", StreamSolver.WARM, 256, None),
        ("sketch, every 256 rows of a class", StreamSolver.SKETCH, 256, None),
        ("plain reservoir sampling (er)", None, 256, None),
    ):
        settings = make_options(solver, step_rows)
        if batches is None:
            stream, start, stop = (
                Stream.begin(settings, streaming_method(settings.method, settings.density_kind), features),
                0,
                rows,
            )
        else:
            stream, start = in_the_middle(settings, h[:half], y[:half], classes), half
            stop = start + batches * BATCH
        wall, own = seconds(lambda s=stream, a=start, b=stop: feed(s, h, y, a, b))
        speed = ((stop - start) / wall, (stop - start) / own)
        direct = direct or speed
        ratios = [f"{found / base:.1f}x" for found, base in zip(speed, direct, strict=True)]
        cells = [str(classes), title, f"{stop - start:,}", f"{speed[0]:,.0f}", ratios[0], f"{speed[1]:,.0f}", ratios[1]]
        print(f"| {' | '.join(cells)} |", flush=True)
        if title.endswith("(default)"):
            result = (wall / (rows / BATCH), own / (rows / BATCH))
    return result


def data(rows: int, features: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of classes with means of their own and a spectrum that falls as real features' do."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, rows)
    h = rng.standard_normal((rows, features), dtype="f4") * (np.arange(1, features + 1) ** -0.7).astype("f4")
    return h + rng.standard_normal((classes, features), dtype="f4")[y], y


def make_options(solver: StreamSolver | None, step_rows: int) -> StreamOptions:
    """Return a stream's options; no solver: plain reservoir sampling."""
    method = StreamMethod.ER if solver is None else StreamMethod.SPDAC
    density = StreamDensityOptions(step_rows=step_rows, solver=solver or StreamSolver.WARM)
    return StreamOptions(
        budget=500, output=Path("buffer.json"), method=method, density_kind=DensityKind.CLASS, density=density
    )


def in_the_middle(settings: StreamOptions, h: np.ndarray, y: np.ndarray, classes: int) -> Stream:
    """Return a stream that has come far enough for every class to have its density, and two batches on its way."""
    settings = make_options(StreamSolver.WARM, 256)
    stream = Stream.begin(settings, streaming_method(settings.method, settings.density_kind), h.shape[1])
    rows = min(len(h), 60 * classes // BATCH * BATCH) - 2 * BATCH
    feed(stream, h, y, 0, rows)
    stream.densities.options = stream.options = replace(stream.options, density=settings.density)
    for known in stream.classes.values():
        if isinstance(known.moments, DenseMoments):
            known.moments.solver = settings.density.solver
    feed(stream, h, y, rows, rows + 2 * BATCH)
    return stream


def feed(stream: Stream, h: np.ndarray, y: np.ndarray, start: int, stop: int) -> None:
    """Give the stream its batches."""
    for first in range(start, stop, BATCH):
        ids = np.arange(first, min(first + BATCH, stop))
        stream.take(0, ids, h[ids], y[ids])


def training_step() -> Times:
    """Return the seconds of one training step of ResNet18 on 64 images, the best of four."""
    import torch

    from pdac_cli.learning.networks.backbones import resnet18

    network = resnet18(10, stem="cifar").train()
    optimiser = torch.optim.SGD(network.parameters(), lr=0.03)
    images, labels = torch.randn(64, 3, 32, 32), torch.randint(0, 10, (64,))

    def step() -> None:
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(network(images), labels).backward()
        optimiser.step()

    step()
    trials = [seconds(step) for _ in range(4)]
    return min(wall for wall, _ in trials), min(own for _, own in trials)


def seconds(work: Callable[[], None]) -> Times:
    """Return what the work takes."""
    wall, own = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - own


if __name__ == "__main__":
    main()

"""Speed of ``pdac train-cl`` in one run: its loop beside a bare one, selection's share, streaming methods beside ER.

    python -m tests.benchmarks.train_cl [--width 8] [--size 32] [--rows 320] [--trials 7] [--threads 1]
    python -m tests.benchmarks.train_cl --images FILE --rows-per-class 32   # images (n, size, size, 3) and labels

- The bare loop has its batches ready, standardised and not augmented, and does nothing but forward, backward and step.
  The loop of a run draws, augments and standardises each batch, replays, keeps the loss and looks for signals.
- Selection's share is PDAC's seconds in an offline run, without the forward pass, of the run's seconds.
- Streaming methods are whole online runs, all of them in turn in every trial; stages are the clock's seconds of the
  run that was quickest.

Loops and online runs are compared by the processor's seconds, the best of alternating trials: as long as there is one
thread these equal the clock's on an idle machine, and other processes disturb them least.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import torch
from torch.nn.functional import cross_entropy

from pdac_cli.commands.train_cl.command import run
from pdac_cli.commands.train_cl.offline_memory import NoMemory
from pdac_cli.commands.train_cl.report import MethodResult
from pdac_cli.learning.data.preprocessing import Preprocessing
from pdac_cli.learning.data.samples import Origin, Samples
from pdac_cli.learning.data.tasks import split_tasks
from pdac_cli.learning.learner import Learner
from pdac_cli.learning.loop import Schedule, learn
from pdac_cli.learning.networks.backbones import resnet18
from pdac_cli.learning.networks.heads import new_network
from pdac_cli.learning.progress import STAGES, RunProgress
from pdac_cli.options.methods import StreamMethod
from pdac_cli.options.shared import RunOptions
from pdac_cli.options.train_cl import LearningOptions, Setting, TrainOptions

CLASSES, BATCH = 10, 32


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--rows", type=int, default=320)
    parser.add_argument("--trials", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--rows-per-class", type=int, default=32)
    parser.add_argument("--only-streams", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    x, y = made(options.rows, options.size) if options.images is None else read(options.images, options.rows_per_class)
    options.rows, options.size = len(x), x.shape[-1]
    print(f"torch {torch.__version__}, {options.threads} threads; {options.rows} images of {options.size} px, "
          f"width {options.width}, batches of {BATCH}; best of {options.trials} alternating trials")  # fmt: skip

    if not options.only_streams:
        loops(x, y, options)
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "images.h5"
        with h5py.File(data, "w") as file:
            file["images"], file["labels"] = x.permute(0, 2, 3, 1).numpy(), y.numpy()
            file["split"] = (np.arange(len(y)) // CLASSES % 10 == 9).astype("u1")
        if not options.only_streams:
            (offline,) = trained(data, Setting.OFFLINE, ("pdac",), options, 10)
            total = sum(offline.seconds.values())
            print(f"offline, 10 epochs: {total:.1f} s, of which selection {offline.seconds['selection']:.2f} s "
                  f"({100 * offline.seconds['selection'] / total:.2f} %), its forward pass "
                  f"{offline.seconds['extraction']:.2f} s")  # fmt: skip
        streams(data, options)


def loops(x: torch.Tensor, y: torch.Tensor, options: argparse.Namespace) -> None:
    """Compare the loop of a run with a bare one."""
    bare, ours = [], []
    for trial in range(options.trials + 1):  # the first warms up
        seconds = bare_loop(x, y, options.width), own_loop(x, y, options.width)
        if trial:
            bare.append(seconds[0])
            ours.append(seconds[1])
    print(f"loop: bare {options.rows / min(bare):.1f} images/s, "
          f"train-cl {options.rows / min(ours):.1f} images/s, ratio {min(bare) / min(ours):.3f}")  # fmt: skip


def streams(data: Path, options: argparse.Namespace) -> None:
    """Compare the streaming methods with ER."""
    trials: dict[str, list[tuple[float, dict[str, float]]]] = {method.value: [] for method in StreamMethod}
    for _ in range(options.trials):
        for method, found in trials.items():
            found.append(timed(data, method, options))
    best = {method: min(found, key=lambda each: each[0]) for method, found in trials.items()}
    print("online, processor seconds of whole runs; stages by the clock")
    print(f"{'method':8} {'seconds':>8} {'of ER':>6}  " + " ".join(f"{stage:>10}" for stage in STAGES))
    for method, (seconds, stages) in sorted(best.items(), key=lambda each: each[1][0]):
        ratio = seconds / best[StreamMethod.ER][0]
        print(f"{method:8} {seconds:8.2f} {ratio:6.2f}  " + " ".join(f"{stages[stage]:10.2f}" for stage in STAGES))


def timed(data: Path, method: str, options: argparse.Namespace) -> tuple[float, dict[str, float]]:
    """Seconds of a whole online run, and of its stages."""
    begun = time.process_time()
    (found,) = trained(data, Setting.ONLINE, (method,), options, 1)
    return time.process_time() - begun, found.seconds


def read(path: Path, rows_per_class: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first images of every class of a file, the classes in turn."""
    with h5py.File(path) as file:
        labels = file["labels"][:]
        rows = np.stack([np.flatnonzero(labels == c)[:rows_per_class] for c in range(CLASSES)], axis=1).ravel()
        order = np.argsort(rows)
        x = np.empty((len(rows), *file["images"].shape[1:]), np.uint8)
        x[order] = file["images"][rows[order]]
    return torch.from_numpy(x).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(labels[rows])


def made(rows: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Images of noise around a colour per class."""
    rng = np.random.default_rng(0)
    y = np.arange(rows) % CLASSES
    x = rng.integers(0, 100, (rows, 3, size, size)) + rng.integers(0, 155, (CLASSES, 3, 1, 1))[y]
    return torch.from_numpy(x.astype(np.uint8)), torch.from_numpy(y)


def bare_loop(x: torch.Tensor, y: torch.Tensor, width: int) -> float:
    """Seconds of an epoch that finds its batches ready."""
    network = resnet18(CLASSES, width=width)
    optimizer = torch.optim.SGD(network.parameters(), 0.03)
    batches = [(a.float().div(255), b) for a, b in zip(x.split(BATCH), y.split(BATCH), strict=True)]
    begun = time.process_time()
    for inputs, labels in batches:
        loss = cross_entropy(network(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.process_time() - begun


class Unsupervised:
    """Keeps nothing and never stops."""

    def save(self, checkpoint: bytes) -> None: ...

    def stopping(self) -> bool:
        return False

    def tick(self, steps: int) -> None: ...


def own_loop(x: torch.Tensor, y: torch.Tensor, width: int) -> float:
    """Seconds of an epoch of a run, with a test on ten images."""
    how = Preprocessing(3, (0.5,) * 3, (0.25,) * 3)
    samples = Samples(
        x, y, x[:CLASSES], y[:CLASSES], np.arange(CLASSES), None, Origin("", (), np.arange(len(x)), len(x)), how
    )
    learner = Learner(new_network((3, *x.shape[2:]), CLASSES, width, 0, None, 0), samples, LearningOptions(), x.device)
    tasks = split_tasks(y.numpy(), y[:CLASSES].numpy(), np.arange(CLASSES), 1, None, 0)
    begun = time.process_time()
    learn(learner, tasks, NoMemory(), Schedule(0, 1, Unsupervised()), RunProgress())
    return time.process_time() - begun


def trained(
    data: Path, setting: Setting, methods: tuple[str, ...], options: argparse.Namespace, epochs: int
) -> list[MethodResult]:
    """What a whole run came to."""
    summary = run(
        TrainOptions(
            data=(str(data),), output=data.parent / "run", setting=setting, methods=methods, seeds=1,
            # A stream's buffer is to have more rows than the methods choose from at a time.
            budget=options.rows // (10 if setting is Setting.OFFLINE else 2),
            learning=LearningOptions(epochs=epochs, width=options.width),
            run=RunOptions(jobs=options.threads, quiet=True, force=True),
        )
    )  # fmt: skip
    assert summary is not None
    return summary.methods


if __name__ == "__main__":
    main()

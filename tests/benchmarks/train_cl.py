"""Speed of ``pdac train-cl`` in one run: its loop beside a bare one, selection's share, SPDAC beside ER.

    python -m tests.benchmarks.train_cl [--width 8] [--size 32] [--rows 320] [--trials 7] [--threads 1]

- The bare loop has its batches ready, standardised and not augmented, and does nothing but forward, backward and step.
  The loop of a run draws, augments and standardises each batch, replays, keeps the loss and looks for signals.
- Selection's share is PDAC's seconds in an offline run, without the forward pass, of the run's seconds.
- SPDAC and ER are whole online runs, alternating.

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

from pdac_cli.commands.train_cl import run
from pdac_cli.commands.train_cl_memory import NoMemory
from pdac_cli.commands.train_cl_report import MethodResult
from pdac_cli.learning.backbones import resnet18
from pdac_cli.learning.heads import new_network
from pdac_cli.learning.learner import Learner
from pdac_cli.learning.loop import Schedule, learn
from pdac_cli.learning.preprocessing import Preprocessing
from pdac_cli.learning.progress import Progress
from pdac_cli.learning.samples import Origin, Samples
from pdac_cli.learning.tasks import split_tasks
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
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    x, y = made(options.rows, options.size)
    print(f"torch {torch.__version__}, {options.threads} threads; {options.rows} images of {options.size} px, "
          f"width {options.width}, batches of {BATCH}; best of {options.trials} alternating trials")  # fmt: skip

    bare, ours = [], []
    for trial in range(options.trials + 1):  # the first warms up
        seconds = bare_loop(x, y, options.width), own_loop(x, y, options.width)
        if trial:
            bare.append(seconds[0])
            ours.append(seconds[1])
    print(f"loop: bare {options.rows / min(bare):.1f} images/s, "
          f"train-cl {options.rows / min(ours):.1f} images/s, ratio {min(bare) / min(ours):.3f}")  # fmt: skip

    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "images.h5"
        with h5py.File(data, "w") as file:
            file["images"], file["labels"] = x.permute(0, 2, 3, 1).numpy(), y.numpy()
            file["split"] = (np.arange(len(y)) // CLASSES % 10 == 9).astype("u1")
        (offline,) = trained(data, Setting.OFFLINE, ("pdac",), options, 10)
        total = sum(offline.seconds.values())
        print(f"offline, 10 epochs: {total:.1f} s, of which selection {offline.seconds['selection']:.2f} s "
              f"({100 * offline.seconds['selection'] / total:.2f} %), its forward pass "
              f"{offline.seconds['extraction']:.2f} s")  # fmt: skip
        spdac, er = [], []
        for _ in range(options.trials):
            spdac.append(timed(data, "spdac", options))
            er.append(timed(data, "er", options))
        print(f"online: SPDAC {min(spdac):.2f} s, ER {min(er):.2f} s, ratio {min(spdac) / min(er):.3f}")


def timed(data: Path, method: str, options: argparse.Namespace) -> float:
    """Seconds of a whole online run."""
    begun = time.process_time()
    trained(data, Setting.ONLINE, (method,), options, 1)
    return time.process_time() - begun


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


def own_loop(x: torch.Tensor, y: torch.Tensor, width: int) -> float:
    """Seconds of an epoch of a run, with a test on ten images."""
    how = Preprocessing(3, (0.5,) * 3, (0.25,) * 3)
    samples = Samples(
        x, y, x[:CLASSES], y[:CLASSES], np.arange(CLASSES), None, Origin("", (), np.arange(len(x)), len(x)), how
    )
    learner = Learner(new_network((3, *x.shape[2:]), CLASSES, width, 0, None, 0), samples, LearningOptions(), x.device)
    tasks = split_tasks(y.numpy(), y[:CLASSES].numpy(), np.arange(CLASSES), 1, None, 0)
    begun = time.process_time()
    learn(learner, tasks, NoMemory(), Schedule(0, 1, lambda _: None, lambda: False, lambda _: None), Progress())
    return time.process_time() - begun


def trained(
    data: Path, setting: Setting, methods: tuple[str, ...], options: argparse.Namespace, epochs: int
) -> list[MethodResult]:
    """What a whole run came to."""
    summary = run(
        TrainOptions(
            (str(data),), output=data.parent / "run", setting=setting, methods=methods, seeds=1,
            budget=options.rows // 10,
            learning=LearningOptions(epochs, width=options.width),
            run=RunOptions(jobs=options.threads, quiet=True, force=True),
        )
    )  # fmt: skip
    assert summary is not None
    return summary.methods


if __name__ == "__main__":
    main()

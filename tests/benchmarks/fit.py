"""How fast `fit` is, beside scikit-learn and beside plainly reading the file, all in one run.

    python -m tests.benchmarks.fit              # the table, about ten minutes
    python -m tests.benchmarks.fit --sets C10-like,C100-like
    python -m tests.benchmarks.fit --readme     # also write it into the README beside it

Times are the best of a few repeats, ours and theirs in turn.  Only ratios mean something on a shared machine.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from threadpoolctl import threadpool_limits

from pdac_cli.console import size_text
from pdac_cli.engine import fitting
from pdac_cli.engine.grouping import grouped
from pdac_cli.engine.plan import count_classes, make_plan
from pdac_cli.engine.sources import MemorySource
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions
from tests.processes import measured

DIM = 512
ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Line:
    name: str
    size: str
    against: str
    theirs: str
    ours: str
    ratio: str
    goal: str


def synthetic(rows: int, classes: int, seed: int = 0, dtype: str = "f4") -> tuple[np.ndarray, np.ndarray]:
    """Features with a decaying spectrum around class means, labels in random order: (n, D), (n,)."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(rows) % classes)
    means = rng.standard_normal((classes, DIM), dtype="f4") * 0.3
    spectrum = np.arange(1, DIM + 1, dtype="f4") ** -0.5
    h = np.empty((rows, DIM), dtype)
    for at in range(0, rows, 50_000):
        part = slice(at, at + 50_000)
        h[part] = rng.standard_normal((len(labels[part]), DIM), dtype="f4") * spectrum + means[labels[part]]
    return h, labels


def ours(h: np.ndarray, y: np.ndarray) -> None:
    source = MemorySource(h, y)
    plan = make_plan(InputOptions(), RunOptions())
    with grouped(source, count_classes(source, plan, InputOptions()), plan) as stored:
        fitting.fit(stored, DensityOptions(), 0, plan)


def scikit_learn(h: np.ndarray, y: np.ndarray) -> None:
    from sklearn.decomposition import PCA
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for label in np.unique(y):
            xi = PCA(10, svd_solver="covariance_eigh").fit_transform(h[y == label])
            GaussianMixture(7, max_iter=20, tol=0, init_params="random_from_data").fit(xi)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def against_scikit_learn(name: str, rows: int, classes: int, goal: float) -> Line:
    h, y = synthetic(rows, classes)
    ours(h[:5000], y[:5000])  # load what is loaded once
    fast, slow = [], []
    for _ in range(3):
        fast += [seconds(lambda: ours(h, y)) for _ in range(3)]
        slow.append(seconds(lambda: scikit_learn(h, y)))
    return Line(
        name,
        f"{rows:,} × {DIM}, {classes}",
        "scikit-learn",
        f"{min(slow):.2f} s",
        f"{min(fast):.2f} s",
        f"{min(slow) / min(fast):.1f}× faster",
        f"≥ {goal:g}×",
    )


def write_file(path: Path, rows: int, classes: int) -> None:
    """Write a float16 feature file piece by piece."""
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.arange(rows) % classes)
    with h5py.File(path, "w") as file:
        features = file.create_dataset("features", (rows, DIM), "f2", chunks=(1024, DIM))
        file["labels"] = labels
        means = rng.standard_normal((classes, DIM), dtype="f4") * 0.3
        spectrum = np.arange(1, DIM + 1, dtype="f4") ** -0.5
        noise = rng.standard_normal((20_000, DIM), dtype="f4") * spectrum
        for at in range(0, rows, 20_000):
            part = labels[at : at + 20_000]
            features[at : at + 20_000] = (
                np.roll(noise, at % 9973, axis=0)[: len(part)] * rng.choice([-1, 1], (len(part), 1)).astype("f4")
                + means[part]
            )


def plain_read(path: Path) -> None:
    """One chunked read of the file with one (D × 32) product per chunk."""
    other = np.random.default_rng(0).standard_normal((DIM, 32), dtype="f4")
    with h5py.File(path) as file:
        features = file["features"]
        for at in range(0, len(features), 16_384):
            features[at : at + 16_384].astype("f4") @ other


def fit_file(path: Path, memory: str) -> tuple[float, int]:
    """Run the command in a process of its own; return its seconds and its peak memory in bytes."""
    out = path.with_suffix(".model")
    command = [sys.executable, "-m", "pdac_cli", "fit", str(path), "-o", str(out), "--memory", memory, "--force", "-q"]
    return measured(command)


def imagenet(folder: Path) -> Line:
    rows, classes = 1_281_167, 1000
    path = folder / "imagenet.h5"
    write_file(path, rows, classes)
    plain_read(path)
    reading, fitting = [], []
    for _ in range(2):
        reading.append(seconds(lambda: plain_read(path)))
        fitting.append(fit_file(path, "1G"))
    read, fit = min(reading), min(time for time, _ in fitting)
    path.unlink()
    return Line(
        "ImageNet-like",
        f"{rows:,} × {DIM} float16, {classes:,}",
        "reading the file",
        f"{read:.2f} s",
        f"{fit:.1f} s",
        f"{fit / read:.1f}× its time, {size_text(max(peak for _, peak in fitting))}",
        "≤ 12×, ≤ 1.5 GB",
    )


def growth(folder: Path) -> Line:
    sizes = (100_000, 400_000, 1_600_000)
    times, peaks = [], []
    for rows in sizes:
        path = folder / f"rows{rows}.h5"
        write_file(path, rows, 100)
        found = [fit_file(path, "512M") for _ in range(2)]
        times.append(min(time for time, _ in found))
        peaks.append(max(peak for _, peak in found))
        path.unlink()
    exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    return Line(
        "growth",
        " → ".join(f"{rows // 1000:,}k" for rows in sizes) + f" × {DIM} float16, 100",
        "itself, --memory 512M",
        f"{times[0]:.1f} s, {size_text(peaks[0])}",
        f"{times[-1]:.1f} s, {size_text(peaks[-1])}",
        f"exponent {exponent:.2f}",
        "≤ 1.1",
    )


def table(lines: list[Line]) -> str:
    rows = [
        "| set | rows × features, classes | against | theirs | ours | ratio | goal |",
        "|---|---|---|---|---|---|---|",
    ]
    rows += [f"| {x.name} | {x.size} | {x.against} | {x.theirs} | {x.ours} | {x.ratio} | {x.goal} |" for x in lines]
    return "\n".join(rows)


def processor() -> str:
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return found[1] if found else platform.processor()


def write_readme(lines: list[Line]) -> None:
    readme = Path(__file__).with_name("README.md")
    text = readme.read_text("utf-8")
    head = f"Measured on {datetime.date.today():%d %B %Y}, {len(os.sched_getaffinity(0))} cores of an {processor()}."
    begin, end = "<!-- benchmark: fit -->", "<!-- end of benchmark: fit -->"
    new = f"{begin}\n{head}\n\n{table(lines)}\n{end}"
    if begin not in text:
        raise SystemExit(f"{readme} has no {begin}")
    readme.write_text(re.sub(f"{begin}.*?{end}", lambda _: new, text, flags=re.DOTALL), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", default="C10-like,C100-like,Tiny-like,ImageNet-like,growth")
    parser.add_argument("--readme", action="store_true", help="write the table into the README beside this file")
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as name:
        sets: dict[str, Callable[[], Line]] = {
            "C10-like": lambda: against_scikit_learn("C10-like", 50_000, 10, 8),
            "C100-like": lambda: against_scikit_learn("C100-like", 50_000, 100, 12),
            "Tiny-like": lambda: against_scikit_learn("Tiny-like", 100_000, 200, 12),
            "ImageNet-like": lambda: imagenet(Path(name)),
            "growth": lambda: growth(Path(name)),
        }
        for wanted in options.sets.split(","):
            lines.append(sets[wanted]())
            print(table(lines).splitlines()[-1], flush=True)
    print("\n" + table(lines))
    if options.readme:
        write_readme(lines)


if __name__ == "__main__":
    main()

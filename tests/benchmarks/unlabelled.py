"""Choosing from rows without labels, out of core: seconds, rows a second and peak memory of whole processes.

python -m tests.benchmarks.unlabelled [--rows 2000000] [--features 512] [--budget 2000] [--memory 1G] [--folder DIR]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

RUNS = {
    "uniform": ["--no-labels", "--method", "uniform"],
    "pdac": ["--no-labels"],
    "pdac, 200 clusters": ["--clusters", "200"],
    "least-error, 200 clusters": ["--clusters", "200", "--method", "least-error"],
    "herding": ["--no-labels", "--method", "herding"],
    "kmeans": ["--no-labels", "--method", "kmeans"],
}
CENTRES, BLOCK = 300, 20_000


def write(path: Path, rows: int, features: int) -> None:
    """Make rows around centres, in the order of the centres: the worst one for whoever looks at the first rows only."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CENTRES, features)).astype("f4")
    with h5py.File(path, "w") as file:
        made = file.create_dataset("features", (rows, features), "f2", chunks=(512, features))
        for start in range(0, rows, BLOCK):
            stop = min(rows, start + BLOCK)
            which = np.arange(start, stop) * CENTRES // rows
            made[start:stop] = centres[which] + rng.standard_normal((stop - start, features), "f4")


def run(arguments: list[str]) -> tuple[float, float]:
    """Run pdac; return its seconds and its peak memory in bytes."""
    begun = time.perf_counter()
    process = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-m", "pdac_cli", *arguments])
    _, status, used = os.wait4(process, 0)
    if status:
        raise SystemExit(f"pdac {' '.join(arguments)} ended in {status}")
    return time.perf_counter() - begun, used.ru_maxrss * 1024


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--budget", default="2000")
    parser.add_argument("--memory", default="1G")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "rows.h5"
        write(path, options.rows, options.features)
        print(
            f"{options.rows:,} x {options.features} float16, {path.stat().st_size / 1e9:.2f} GB, load {os.getloadavg()}"
        )
        for name, arguments in RUNS.items():
            if options.only and name not in options.only.split(";"):
                continue
            common = ["select", str(path), "-n", options.budget, "--memory", options.memory, "-q", "-o"]
            seconds, memory = run([*common, str(Path(folder) / f"{name}.json"), *arguments])
            rate = options.rows / seconds
            print(f"| {name} | {seconds:.0f} | {rate:,.0f} | {memory / 1e9:.2f} GB |", flush=True)


if __name__ == "__main__":
    main()

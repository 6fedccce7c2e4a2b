"""How long every method takes, and k-center beside the matrix-vector products it cannot do without, all in one run.

    python -m tests.benchmarks.select                    # the table on 10,000 x 512
    python -m tests.benchmarks.select --methods kcenter,pdac --rows 50000
    python -m tests.benchmarks.select --products         # k-center of 500 from 50,000 x 512 beside 500 products

Only ratios mean something on a shared machine.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from pdac_cli.console import Console
from pdac_cli.engine.plan import make_plan
from pdac_cli.engine.sources import MemorySource
from pdac_cli.options.select import SelectOptions
from pdac_cli.options.shared import RunOptions
from pdac_cli.pipeline.selecting import choose
from pdac_cli.reports.table import Table
from pdac_cli.selection.methods import METHODS

# Seconds on a V100, CIFAR-10, N = 500, of the paper's table 2.
PAPER = {
    "uniform": 0.5, "hardest": 22.3, "pdac": 24.0, "kcenter": 36.9, "gcr": 152.0, "pbcs": 207.0, "bcsr": 488.0,
    "ocs": 639.0, "greedy": 1131.0,
}  # fmt: skip


def synthetic(rows: int, dim: int, classes: int, seed: int = 0) -> MemorySource:
    """Features with a decaying spectrum around class means, and the logits of the nearest mean."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(rows) % classes)
    means = rng.standard_normal((classes, dim), dtype="f4") * 0.3
    spectrum = np.arange(1, dim + 1, dtype="f4") ** -0.5
    h = rng.standard_normal((rows, dim), dtype="f4") * spectrum + means[labels]
    logits = (h @ means.T - 0.5 * (means**2).sum(axis=1)).astype("f4")
    return MemorySource(h, labels, logits=logits)


def seconds(source: MemorySource, method: str, budget: int, jobs: int | None) -> float:
    options = SelectOptions(budget=budget, method=method, run=RunOptions(jobs=jobs))
    start = time.perf_counter()
    plan = make_plan(options.input, options.run)
    choose(source, None, options, METHODS[method], plan, Console(quiet=True))
    return time.perf_counter() - start


def products(rows: int, dim: int, budget: int, repeats: int) -> None:
    """k-center beside its products with one vector each, in turn, both on one thread and on as many as NumPy takes."""
    source = synthetic(rows, dim, 10)
    for jobs in (1, None):
        best = {"products": np.inf, "kcenter": np.inf}
        for _ in range(repeats):
            with threadpool_limits(jobs, user_api="blas"):
                start = time.perf_counter()
                for k in range(budget):
                    source.h @ source.h[k]
                best["products"] = min(best["products"], time.perf_counter() - start)
            best["kcenter"] = min(best["kcenter"], seconds(source, "kcenter", budget, jobs))
        ratio = best["kcenter"] / best["products"]
        threads = "one thread" if jobs == 1 else "all threads"
        print(
            f"{budget} of {rows:,} x {dim}, {threads}: products {best['products']:.2f} s, "
            f"kcenter {best['kcenter']:.2f} s, ratio {ratio:.2f} (goal: at most 2)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--budget", type=int, default=500)
    parser.add_argument("--products", action="store_true")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    if options.products:
        products(50_000, options.dim, options.budget, options.repeats)
        return
    source = synthetic(options.rows, options.dim, 10)
    lines = [["method", "seconds", "paper, V100, seconds"]]
    for name in options.methods.split(","):
        took = seconds(source, name, options.budget, None)
        lines.append([name, f"{took:.2f}", f"{PAPER[name]:.1f}" if name in PAPER else ""])
    print(f"{options.budget} of {options.rows:,} x {options.dim}, 10 classes")
    print(Table.of(lines[0], lines[1:], left=lines[0][:1]).text())


if __name__ == "__main__":
    main()

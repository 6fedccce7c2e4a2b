"""What buffers of streams are worth: heads trained on them, for ``spdac``, streaming ``herding`` and ``er``.

    python -m tests.benchmarks.stream_rules NAME=TRAIN.h5,TEST.h5 … [--seeds 10] [--per-class 5,20] [--results FILE]

A seed is a random pool of 80 % of the training rows, their order, what is done to the labels, and the random numbers of
the method.  Rows come shuffled, or class after class.  Printed is the accuracy of streaming herding, mean of a logistic
and a ridge head, and the difference of the others to it over paired seeds, with its 95 % interval.  ``--results`` keeps
every trial, so that a run that was stopped goes on, and what is there can be printed with ``--seeds 0``.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np

from pdac_cli import StreamingSelector
from pdac_cli.arrays import Array
from pdac_cli.engine.sources import MemorySource
from pdac_cli.files.features import open_features
from pdac_cli.metrics import paired_difference
from pdac_cli.options.heads import Classifier, Corruption
from pdac_cli.options.shared import InputOptions
from pdac_cli.pipeline.corruption import Labelled, corrupted, drawn_pool
from pdac_cli.pipeline.heads.classifiers import FeatureScale, accuracies, train_classifier

METHODS = ("herding", "spdac", "er")
HEADS = (Classifier.LOGISTIC, Classifier.RIDGE)
ORDERS = ("shuffled", "by class")
CORRUPTIONS = (Corruption.CLEAN, Corruption.WRONG_40)
BATCH = 32


def rows_of(path: str) -> Labelled:
    """Read a feature file."""
    with open_features(InputOptions(paths=(path,))) as source:
        parts = list(source.chunks(4096))
    ids, h, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("ids", "h", "y"))
    return Labelled(ids, h, y.astype(np.int64))


def arrival(rows: Labelled, true: Array, order: str, seed: int) -> Array:
    """Return the order in which rows come; by class means by the class that a row is of, whatever its label says."""
    shuffled = np.random.default_rng(seed).permutation(len(rows.y))
    return shuffled if order == "shuffled" else shuffled[np.argsort(true[shuffled], kind="stable")]


def trial(pool: Labelled, came: Array, test: Labelled, budget: int, method: str, seed: int) -> float:
    """Stream the pool in an order and return the mean accuracy of heads on what was kept."""
    keeper = StreamingSelector(budget, method=method, batch=BATCH, random_state=seed)
    whole = BATCH * (4096 // BATCH)
    for start in range(0, len(came), whole):
        some = came[start : start + whole]
        keeper.partial_fit(pool.h[some], pool.y[some], ids=some)
    kept = np.array([int(one) for one in keeper.buffer_.ids])
    scale = FeatureScale.of(pool.h)
    heads = [train_classifier(kind, pool.h[kept], pool.y[kept], scale) for kind in HEADS]
    return float(np.mean(accuracies(heads, MemorySource(test.h, test.y).chunks(4096), scale)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="*", help="NAME=TRAIN.h5,TEST.h5")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--per-class", default="5,20")
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    found = json.loads(given.results.read_text()) if given.results and given.results.exists() else {}
    sets = {name: where.split(",") for name, where in (one.split("=", 1) for one in given.data)}
    loaded = {name: tuple(map(rows_of, where)) for name, where in sets.items()} if given.seeds else {}
    for seed, (name, (train, test)) in product(range(given.seeds), loaded.items()):
        pool = drawn_pool(train, 0.8, seed)
        classes = len(np.unique(pool.y))
        for kind, order, each in product(CORRUPTIONS, ORDERS, map(int, given.per_class.split(","))):
            rows = corrupted(pool, kind, seed)
            for method in METHODS:
                key = f"{name}|{kind.value}|{order}|{each}|{method}|{seed}"
                if key in found:
                    continue
                found[key] = trial(rows, arrival(rows, pool.y, order, seed), test, each * classes, method, seed)
                if given.results:
                    given.results.write_text(json.dumps(found))
    print_table(found)


def print_table(found: dict[str, float]) -> None:
    """Print a line for each data set, corruption, order and number of rows a class."""
    cells: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for key, share in found.items():
        *cell, method, seed = key.split("|")
        cells[" | ".join(cell)][method][seed] = 100 * share
    print("| data | labels | order | rows a class | seeds | herding | spdac | er |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for cell, by_method in cells.items():
        seeds = sorted(set.intersection(*(set(by_method[method]) for method in METHODS)))
        ours = {method: np.array([by_method[method][seed] for seed in seeds]) for method in METHODS}
        apart = [paired_difference(ours[method], ours["herding"]) for method in METHODS[1:]]
        shown = [f"{one.mean:+.1f} ± {one.high - one.mean:.1f}" if one.high is not None else f"{one.mean:+.1f}"
                 for one in apart]  # fmt: skip
        print(f"| {cell} | {len(seeds)} | {ours['herding'].mean():.1f} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()

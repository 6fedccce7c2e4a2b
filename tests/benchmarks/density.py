"""Why drawing in proportion to the density picks badly, measured rule by rule on a file of frozen features.

    python -m tests.benchmarks.density train.h5 test.h5 --budget 200 --figure why.svg

For every rule: how many rows the draw rests on, how far the mean of the chosen rows is from their class's, how much of
the class's variance they keep inside the projection and outside it, how many lie near a boundary, how long they are,
and what a linear head trained on them gets right.  Then, for the paper's mixture: on how few rows its components stand.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

import h5py
import numpy as np

from pdac_cli.console import Console
from pdac_cli.density.model import Model
from pdac_cli.engine.plan import count_classes, make_plan
from pdac_cli.engine.sources import MemorySource
from pdac_cli.options.select import Allocation, DensityKind, DrawOptions, SelectOptions
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions
from pdac_cli.pipeline.fitting import DensitySetup, fit_source
from pdac_cli.pipeline.selecting import choose
from pdac_cli.pipeline.trained_head import Head, train_head
from pdac_cli.reports.table import Table
from pdac_cli.selection.methods import METHODS


class _Mute(Console):
    def warn(self, text: str) -> None:
        """Say nothing: the table has it."""


QUIET = _Mute(quiet=True)
DEFAULT = SelectOptions(budget=1, method="pdac", run=RunOptions(jobs=1))
BASE = replace(
    DEFAULT,
    allocation=Allocation.PER_CLASS,
    draw=DrawOptions(density_kind=DensityKind.CLASS, steer=0.0),
    density=DensityOptions(normalize=False),
)
RULES = {
    "default": DEFAULT,
    "as printed": replace(BASE, allocation=Allocation.JOINT),
    "per class": BASE,
    "per class, ridge 0.1": replace(BASE, density=DensityOptions(ridge=0.1, normalize=False)),
    "per class, ridge 1": replace(BASE, density=DensityOptions(ridge=1.0, normalize=False)),
    "per class, L 1": replace(BASE, density=DensityOptions(components=1, normalize=False)),
    "per class, T 0.25": replace(BASE, temperature=0.25),
    "per class, T 0.1": replace(BASE, temperature=0.1),
    "uniform": replace(BASE, method="uniform"),
    "herding": replace(BASE, method="herding"),
    "least-error": replace(BASE, method="least-error"),
}


@dataclass(frozen=True)
class Line:
    """What a rule's choice looks like, means over seeds."""

    rule: str
    effective: float  # share of the rows that the draw rests on, 1 where nothing is drawn by weight
    mean: float  # squared distance of the chosen mean from the class's, as a share of a single row's
    inside: float  # variance inside the projection, as a share of the class's
    outside: float  # and outside it
    boundary: float  # share of chosen rows among the quarter that a head trained on all rows is least sure of
    length: float  # mean |h| of the chosen rows, as a share of the classes'
    accuracy: float  # %


def read(path: str) -> MemorySource:
    with h5py.File(path) as file:
        return MemorySource(file["features"][:].astype("f4"), file["labels"][:].astype("i8"))


def margins(head: Head, source: MemorySource) -> np.ndarray:
    """How far the logit of a row's class is above the next: (n,)."""
    z = head.logits(source.h)
    own = np.searchsorted(head.classes, source.y)
    mine = z[np.arange(len(z)), own]
    z[np.arange(len(z)), own] = -np.inf
    return mine - z.max(axis=1)


def fitted(source: MemorySource, density: DensityOptions) -> Model:
    plan = make_plan(InputOptions(), RunOptions(jobs=1))
    classes = count_classes(source, plan, InputOptions())
    return fit_source(source, classes, DensitySetup(density), plan, QUIET)


def shape(source: MemorySource, model: Model, rows: np.ndarray) -> tuple[float, float, float]:
    """Return squared distance of the means, variance inside and outside the projection, as shares of the classes'."""
    found = []
    for c, label in enumerate(model.labels):
        mine = rows[source.y[rows] == label]
        if len(mine) < 2:
            continue
        everything, chosen = (source.h[i] - model.mean[c] for i in (source.y == label, mine))
        total = everything.var(axis=0).sum()
        inner = (everything @ model.W[c]).var(axis=0).sum()
        middle = chosen.mean(axis=0)
        within = ((chosen - middle) @ model.W[c]).var(axis=0, ddof=1).sum()
        all_within = chosen.var(axis=0, ddof=1).sum()
        found.append(((middle**2).sum() / total, within / inner, (all_within - within) / (total - inner)))
    return tuple(np.mean(found, axis=0))


def lines(train: MemorySource, test: MemorySource, budget: int, seeds: int) -> list[Line]:
    model = fitted(train, DensityOptions(normalize=False))
    mean, std = train.h.mean(axis=0, dtype="f8"), train.h.std(axis=0, dtype="f8")
    unsure = margins(train_head(train.h, train.y), train)
    near = unsure <= np.quantile(unsure, 0.25)
    lengths = np.linalg.norm(train.h, axis=1)
    usual = {label: lengths[train.y == label].mean() for label in np.unique(train.y)}
    out, plan = [], make_plan(InputOptions(), RunOptions())
    for rule, options in RULES.items():
        found = []
        for seed in range(1 if options.method in ("herding", "least-error") else seeds):
            asked = replace(options, budget=budget, seed=seed)
            chosen = choose(train, None, asked, METHODS[asked.method], plan, QUIET)
            rows = chosen.index.row
            sizes = chosen.answer.effective_size
            counts = chosen.classes.counts
            effective = 1.0 if sizes is None else float(np.mean(sizes / counts))
            accuracy = 100 * train_head(train.h[rows], train.y[rows], mean, std).accuracy(test.h, test.y)
            length = np.mean([lengths[r] / usual[train.y[r]] for r in rows])
            found.append((effective, *shape(train, model, rows), near[rows].mean(), length, accuracy))
        out.append(Line(rule, *np.mean(found, axis=0)))
    return out


def components(train: MemorySource, density: DensityOptions) -> tuple[np.ndarray, np.ndarray]:
    """Of each component the rows it stands for, and its share of a draw ∝ p̂ in its class: (C L,), (C L,)."""
    model = fitted(train, density)
    size, share = [], []
    for c, label in enumerate(model.labels):
        xi = (train.h[train.y == label] - model.mean[c]) @ model.W[c]
        log_p = []
        for alpha, mu, chol in zip(model.alpha[c], model.mu[c], model.chol[c], strict=True):
            z = np.linalg.solve(chol, (xi - mu).T)
            log_p.append(np.log(alpha) - np.log(np.diag(chol)).sum() - 0.5 * (z**2).sum(axis=0))
        both = np.logaddexp.reduce(log_p, axis=0)
        r = np.exp(np.array(log_p) - both)
        pi = np.exp(both - both.max())
        size.append(r.sum(axis=1))
        share.append(r @ pi / pi.sum())
    return np.concatenate(size), np.concatenate(share)


def figure(found: list[Line], path: str) -> None:
    from matplotlib.figure import Figure

    fig = Figure(figsize=(10, 7.5), layout="constrained")
    axes = fig.subplots(2, 2, sharey=True)
    panels = (
        ("mean", "distance of the chosen mean from the class's\n(squared, 1: a single row)", "log"),
        ("boundary", "share of chosen rows near a boundary\n(of all rows: 0.25)", "linear"),
        ("effective", "share of the rows that the draw rests on\n(effective size / class size)", "log"),
        ("outside", "variance kept outside the projection\n(share of the class's)", "linear"),
    )
    for axis, (name, label, scale) in zip(axes.flat, panels, strict=True):
        for line in found:
            at = getattr(line, name), line.accuracy
            axis.plot(*at, "o", color="C0" if line.rule in ("uniform", "herding", "least-error") else "C3")
            axis.annotate(line.rule, at, (4, 3), textcoords="offset points", size=7)
        axis.set(xlabel=label, ylabel="accuracy of a linear head in %", xscale=scale)
        if scale == "log":
            marks = [0.02, 0.05, 0.1, 0.2, 0.4, 1.0]
            axis.set_xticks(marks, [f"{mark:g}" for mark in marks])
            axis.set_xticks([], minor=True)
        axis.grid(alpha=0.3)
        axis.margins(x=0.15)
    fig.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--figure")
    given = parser.parse_args()
    train, test = read(given.train), read(given.test)
    found = lines(train, test, given.budget, given.seeds)
    head = ["rule", "draw rests on", "mean off by", "inside", "outside", "near a boundary", "length", "accuracy"]
    body = [
        [x.rule, f"{x.effective:.1%}", f"{x.mean:.3f}", f"{x.inside:.2f}", f"{x.outside:.2f}", f"{x.boundary:.0%}",
         f"{x.length:.2f}", f"{x.accuracy:.1f}"] for x in found
    ]  # fmt: skip
    print(Table.of(head, body, left=head[:1]).text())
    standing = {f"ridge {r:g}": components(train, DensityOptions(ridge=r)) for r in (1e-6, 0.1)}
    for name, (size, share) in standing.items():
        small = size <= 2 * (DensityOptions.dim + 1)
        print(
            f"{name}: {small.sum()} of {len(size)} components stand on at most {2 * (DensityOptions.dim + 1)} rows, "
            f"{size[small].sum() / size.sum():.1%} of all, and have {share[small].sum() / share.sum():.0%} of the draw"
        )
    if given.figure:
        figure(found, given.figure)


if __name__ == "__main__":
    main()

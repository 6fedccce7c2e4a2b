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

from pdac_cli.commands.choose import choose
from pdac_cli.commands.fit import fit_model, grouped_rows
from pdac_cli.commands.head import Head, train_head
from pdac_cli.console import Console, table
from pdac_cli.density.device import NUMPY
from pdac_cli.density.model import Model
from pdac_cli.engine.arrays import ArraySource
from pdac_cli.engine.source import count_classes, make_plan
from pdac_cli.options.select import Allocation, SelectOptions
from pdac_cli.options.shared import DensityOptions, InputOptions, RunOptions


class _Mute(Console):
    def warn(self, text: str) -> None:
        """Say nothing: the table has it."""


QUIET = _Mute(quiet=True)
BASE = SelectOptions(InputOptions(), 1, method="pdac", run=RunOptions(jobs=1))
RULES = {
    "as printed": replace(BASE, allocation=Allocation.JOINT),
    "pdac": BASE,
    "pdac, ridge 0.1": replace(BASE, density=DensityOptions(ridge=0.1)),
    "pdac, ridge 1": replace(BASE, density=DensityOptions(ridge=1.0)),
    "pdac, L 1": replace(BASE, density=DensityOptions(components=1)),
    "pdac, T 0.25": replace(BASE, temperature=0.25),
    "pdac, T 0.1": replace(BASE, temperature=0.1),
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


def read(path: str) -> ArraySource:
    with h5py.File(path) as file:
        return ArraySource(file["features"][:].astype("f4"), file["labels"][:].astype("i8"))


def margins(head: Head, source: ArraySource) -> np.ndarray:
    """How far the logit of a row's class is above the next: (n,)."""
    z = head.logits(source.h)
    own = np.searchsorted(head.classes, source.y)
    mine = z[np.arange(len(z)), own]
    z[np.arange(len(z)), own] = -np.inf
    return mine - z.max(axis=1)


def fitted(source: ArraySource, density: DensityOptions) -> Model:
    plan = make_plan(source, InputOptions(), RunOptions(jobs=1))
    with grouped_rows(source, count_classes(source, plan, InputOptions()), plan, QUIET) as stored:
        return fit_model(stored, density, 0, plan, NUMPY, QUIET)


def shape(source: ArraySource, model: Model, rows: np.ndarray) -> tuple[float, float, float]:
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


def lines(train: ArraySource, test: ArraySource, budget: int, seeds: int) -> list[Line]:
    model = fitted(train, DensityOptions())
    mean, std = train.h.mean(axis=0, dtype="f8"), train.h.std(axis=0, dtype="f8")
    unsure = margins(train_head(train.h, train.y), train)
    near = unsure <= np.quantile(unsure, 0.25)
    lengths = np.linalg.norm(train.h, axis=1)
    usual = {label: lengths[train.y == label].mean() for label in np.unique(train.y)}
    out = []
    for rule, options in RULES.items():
        found = []
        for seed in range(1 if options.method in ("herding", "least-error") else seeds):
            chosen = choose(train, None, replace(options, budget=budget, seed=seed), QUIET)
            rows = chosen.index.row
            sizes = chosen.answer.effective_size
            counts = chosen.classes.counts
            effective = 1.0 if sizes is None else float(np.mean(sizes / counts))
            accuracy = 100 * train_head(train.h[rows], train.y[rows], mean, std).accuracy(test.h, test.y)
            length = np.mean([lengths[r] / usual[train.y[r]] for r in rows])
            found.append((effective, *shape(train, model, rows), near[rows].mean(), length, accuracy))
        out.append(Line(rule, *np.mean(found, axis=0)))
    return out


def components(train: ArraySource, density: DensityOptions) -> tuple[np.ndarray, np.ndarray]:
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
    print(table([head, *body]))
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

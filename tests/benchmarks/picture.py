"""The picture of the first README: two classes of the sample's digits, their densities, and the rows that are kept.

    python -m tests.benchmarks.picture                  # writes tests/benchmarks/digits.svg

Each panel is one class in the first two directions of its projection: every row a dot, the fitted mixture as contours,
and the rows that `pdac select` keeps ringed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import h5py
import matplotlib as mpl
import numpy as np

mpl.use("agg")
from matplotlib.figure import Figure

SAMPLE = Path(__file__).parent.parent.parent / "sample_data" / "digits.h5"
GRID = 48  # points a side: the contours make up most of the file
INK, DOTS, RING = "#1a1a1a", "#56B4E9", "#D55E00"  # Okabe and Ito: told apart by colour-blind readers too


def kept_and_model(folder: Path, budget: int, arguments: list[str]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The rows that the command keeps, and the arrays of a fitted model."""
    pdac = [sys.executable, "-m", "pdac_cli"]
    rows, model = folder / "rows.npy", folder / "model.h5"
    subprocess.run([*pdac, "fit", SAMPLE, "-o", model, "--ridge", "0.1", "--quiet"], check=True)
    subprocess.run([*pdac, "select", SAMPLE, "--budget", str(budget), "-o", rows, "--quiet", *arguments], check=True)
    with h5py.File(model) as file:
        return np.load(rows), {name: file[name][:] for name in ("labels", "mean", "W", "alpha", "mu", "chol", "unit")}


def log_marginal(points: np.ndarray, model: dict[str, np.ndarray], k: int) -> np.ndarray:
    """Log-density of the k-th class's mixture in its first two directions, at points (m, 2)."""
    terms = []
    for alpha, mu, chol in zip(model["alpha"][k], model["mu"][k], model["chol"][k], strict=True):
        if alpha > 0:
            cov = (chol @ chol.T)[:2, :2]
            off = points - mu[:2]
            squares = np.einsum("ni,ij,nj->n", off, np.linalg.inv(cov), off)
            terms.append(np.log(alpha) - 0.5 * (squares + np.linalg.slogdet(2 * np.pi * cov)[1]))
    return np.logaddexp.reduce(terms, axis=0)


def draw(axes: Any, xi: np.ndarray, kept: np.ndarray, model: dict[str, np.ndarray], k: int, title: str) -> None:
    low, high = xi.min(axis=0), xi.max(axis=0)
    low, high = low - 0.12 * (high - low), high + 0.12 * (high - low)
    grid = np.stack(np.meshgrid(np.linspace(low[0], high[0], GRID), np.linspace(low[1], high[1], GRID)), axis=-1)
    heights = np.exp(log_marginal(grid.reshape(-1, 2), model, k)).reshape(GRID, GRID)
    levels = heights.max() * np.array([0.02, 0.1, 0.25, 0.5, 0.8])
    axes.contourf(grid[..., 0], grid[..., 1], heights, [*levels, heights.max() * 1.01], cmap="Greys", alpha=0.45)
    axes.scatter(*xi.T, s=7, color=DOTS, linewidths=0, label="all rows")
    axes.scatter(*xi[kept].T, s=34, facecolor=DOTS, edgecolor=RING, linewidths=1.6, label="kept")
    axes.set(xticks=[], yticks=[], xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_title(title, fontsize=10, color=INK)
    for side in axes.spines.values():
        side.set_color("#b0b0b0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--budget", type=int, default=100)
    parser.add_argument("--digits", default="3,8")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).with_name("digits.svg"))
    options, arguments = parser.parse_known_args()
    with h5py.File(SAMPLE) as file:
        h, y = file["features"][:].astype(float), file["labels"][:]
    with tempfile.TemporaryDirectory() as folder:
        rows, model = kept_and_model(Path(folder), options.budget, arguments)
    digits = [int(digit) for digit in options.digits.split(",")]
    mpl.rcParams.update({"svg.hashsalt": "pdac", "svg.fonttype": "none", "font.family": "sans-serif"})
    figure = Figure(figsize=(3.6 * len(digits), 3.3), layout="constrained", facecolor="white")
    for axes, digit in zip(figure.subplots(1, len(digits), squeeze=False)[0], digits, strict=True):
        k = int(np.flatnonzero(model["labels"] == digit)[0])
        members = np.flatnonzero(y == digit)
        xi = (h[members] - model["mean"][k]) @ model["W"][k][:, :2] / model["unit"][k]
        kept = np.isin(members, rows)
        draw(axes, xi, kept, model, k, f"digit {digit}: {kept.sum()} of {len(members)} rows kept")
    figure.axes[0].legend(loc="best", fontsize=8, framealpha=0.9, labelcolor=INK)
    figure.savefig(options.output, metadata={"Date": None} if options.output.suffix == ".svg" else None, dpi=150)
    print(f"{options.output}: {options.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

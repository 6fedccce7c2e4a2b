"""The only home of matplotlib: figures of results, as the bytes of a file."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.storage.atomic import write_bytes

FORMATS = ("png", "svg")
_PANEL = (4.0, 3.2)  # inches
# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
MARKERS = "osD^vPX*"


@dataclass(frozen=True)
class Curve:
    """Points with intervals."""

    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class PlotPanel:
    """One pair of axes."""

    title: str
    x: str
    y: str
    draw: Callable[[Any], None]


def curves(
    title: str, x: str, y: str, found: Mapping[str, Curve], *, log_x: bool = False, log_y: bool = False
) -> PlotPanel:
    """Return a panel of curves by name, each with its interval as a band."""

    def draw(axes: Any) -> None:
        for k, (name, curve) in enumerate(found.items()):
            colour = COLOURS[k % len(COLOURS)]
            axes.plot(curve.x, curve.y, color=colour, marker=MARKERS[k % len(MARKERS)], markersize=4, label=name)
            if curve.low is not None and curve.high is not None:
                axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
        if log_x:
            axes.set_xscale("log")
        if log_y:
            axes.set_yscale("log")
        axes.legend(fontsize=8)

    return PlotPanel(title, x, y, draw)


def boxes(title: str, x: str, y: str, found: Mapping[str, Array]) -> PlotPanel:
    """Return a panel of box plots by name."""

    def draw(axes: Any) -> None:
        axes.boxplot(list(found.values()), tick_labels=list(found), flierprops={"markersize": 2})
        axes.tick_params(axis="x", labelsize=7)

    return PlotPanel(title, x, y, draw)


def bars(title: str, x: str, y: str, groups: Sequence[str], found: Mapping[str, Sequence[float]]) -> PlotPanel:
    """Return a panel of bars: for each group one bar per name."""

    def draw(axes: Any) -> None:
        width = 0.8 / len(found)
        for k, (name, heights) in enumerate(found.items()):
            place = np.arange(len(groups)) + (k - (len(found) - 1) / 2) * width
            axes.bar(place, heights, width, color=COLOURS[k % len(COLOURS)], label=name)
        axes.set_xticks(np.arange(len(groups)), groups)
        axes.tick_params(axis="x", labelsize=7)
        axes.margins(y=0.3)  # room for the names
        axes.legend(fontsize=8, ncols=2, loc="upper center")

    return PlotPanel(title, x, y, draw)


def write_figure(stem: Path, panels: Sequence[PlotPanel], columns: int, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the panels as one figure, in every format; return the paths."""
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in formats]
    for path, data in zip(paths, _rendered(panels, columns, formats), strict=True):
        write_bytes(path, data, force=True)
    return paths


def write_plot(path: Path, panel: PlotPanel, force: bool) -> None:
    """Write one panel as one file, in the format of its name."""
    (data,) = _rendered([panel], 1, (path.suffix.lower().removeprefix("."),))
    write_bytes(path, data, force)


def _rendered(panels: Sequence[PlotPanel], columns: int, formats: Sequence[str] = FORMATS) -> Iterator[bytes]:
    rows = -(-len(panels) // columns)
    with _canvas() as new_figure:
        figure = new_figure(figsize=(_PANEL[0] * columns, _PANEL[1] * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            panel.draw(axes)
            axes.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
            axes.grid(alpha=0.3)
        for axes in grid[len(panels) :]:
            axes.set_axis_off()
        for kind in formats:
            stream = io.BytesIO()
            figure.savefig(stream, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
            yield stream.getvalue()


@contextmanager
def _canvas() -> Iterator[Any]:
    """Give the class of figures that need no window; the same figure gives the same bytes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": "pdac", "font.size": 9}):
        yield Figure

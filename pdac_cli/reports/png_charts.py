"""The same charts as picture files, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np

from pdac_cli.console import printable
from pdac_cli.reports.charts import MUTED, Bars, Boxes, Chart, Cloud, Heat, Joined, Outline, Report, Series
from pdac_cli.reports.plots import COLOURS, MARKERS, PlotPanel, write_figure

_GREY = "#9aa4b2"


def write_pictures(report: Report, folder: Path) -> list[Path]:
    """Write every chart of the report as a PNG; return the paths."""
    found: list[Path] = []
    for chart in report.charts():
        panels = [_panel(chart, title, series) for title, series in chart.panels.items()]
        found += write_figure(folder / chart.key, panels, min(3, len(panels)), ("png",))
    return found


def _panel(chart: Chart, title: str, series: Sequence[Series]) -> PlotPanel:
    def draw(axes: Any) -> None:
        for k, one in enumerate(series):
            _draw(one, axes, (k, len(series), chart.stacked))
        if chart.square:
            axes.set_aspect("equal", adjustable="datalim")
        if chart.logarithmic:
            axes.set_yscale("log")
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=7)

    return PlotPanel(
        _plain(f"{chart.title}: {title}" if title else chart.title), _plain(chart.x), _plain(chart.y), draw
    )


@singledispatch
def _draw(one: Series, axes: Any, place: tuple[int, int, bool]) -> None:  # noqa: ARG001
    raise TypeError(f"{type(one).__name__} is no series of a chart")


@_draw.register
def _points(one: Cloud, axes: Any, place: tuple[int, int, bool]) -> None:  # noqa: ARG001
    size = 26 if one.emphasis else 5
    marker = MARKERS[one.colour % len(MARKERS)] if one.emphasis else "o"
    edge = {"edgecolors": "white", "linewidths": 0.6} if one.emphasis else {"linewidths": 0}
    axes.scatter(one.x, one.y, s=size, c=_colour(one.colour), marker=marker, label=_plain(one.name), **edge)


@_draw.register
def _outline(one: Outline, axes: Any, place: tuple[int, int, bool]) -> None:  # noqa: ARG001
    axes.plot(one.x, one.y, color="#1a1a1a", linewidth=0.7)


@_draw.register
def _line(one: Joined, axes: Any, place: tuple[int, int, bool]) -> None:  # noqa: ARG001
    colour = _colour(one.colour)
    marker = MARKERS[one.colour % len(MARKERS)] if len(one.x) < 60 else None
    axes.plot(one.x, one.y, color=colour, marker=marker, markersize=3, label=_plain(one.name))
    if one.low is not None and one.high is not None:
        axes.fill_between(one.x, one.low, one.high, color=colour, alpha=0.2, linewidth=0)


@_draw.register
def _bars(one: Bars, axes: Any, place: tuple[int, int, bool]) -> None:
    k, count, stacked = place
    width = 0.8 if stacked else 0.8 / count
    at = np.arange(len(one.x)) + (0 if stacked else (k - (count - 1) / 2) * width)
    bottom = np.zeros(len(one.x))
    if stacked:
        bottom = getattr(axes, "pdac_bottom", bottom)
        axes.pdac_bottom = bottom + np.asarray(one.y, float)
    error = None
    if one.low is not None and one.high is not None:
        ends = [(y - (y if lo is None else lo), (y if hi is None else hi) - y)
                for y, lo, hi in zip(one.y, one.low, one.high, strict=True)]  # fmt: skip
        error = np.clip(np.array(ends).T, 0, None)
    axes.bar(at, one.y, width, bottom=bottom, yerr=error, color=_colour(one.colour), label=_plain(one.name))
    _name_ticks(axes, one.x)


@_draw.register
def _boxes(one: Boxes, axes: Any, place: tuple[int, int, bool]) -> None:
    k, count, _ = place
    width = 0.8 / count
    stats = [
        {"whislo": five[0], "q1": five[1], "med": five[2], "q3": five[3], "whishi": five[4], "fliers": []}
        for five in one.five.tolist()
    ]
    at = np.arange(len(one.x)) + (k - (count - 1) / 2) * width
    drawn = axes.bxp(stats, positions=at, widths=0.9 * width, patch_artist=True, manage_ticks=False)
    for box in drawn["boxes"]:
        box.set(facecolor=_colour(one.colour), alpha=0.8)
    if drawn["boxes"]:
        drawn["boxes"][0].set_label(_plain(one.name))
    _name_ticks(axes, one.x)


@_draw.register
def _heat(one: Heat, axes: Any, place: tuple[int, int, bool]) -> None:  # noqa: ARG001
    axes.imshow(one.values, cmap="cividis", aspect="auto")
    axes.set_xticks(range(len(one.x)), [_plain(name) for name in one.x])
    axes.set_yticks(range(len(one.y)), [_plain(name) for name in one.y])
    if one.values.size <= 150:
        middle = np.nanmean(one.values) if np.isfinite(one.values).any() else 0
        for (row, column), value in np.ndenumerate(one.values):
            if np.isfinite(value):
                ink = "white" if value < middle else "black"
                axes.text(column, row, f"{value:.{one.digits}f}", ha="center", va="center", fontsize=6, color=ink)


def _name_ticks(axes: Any, names: Sequence[str]) -> None:
    shown = range(0, len(names), max(1, -(-len(names) // 20)))
    axes.set_xticks(list(shown), [_plain(names[k]) for k in shown])
    axes.tick_params(axis="x", labelsize=7)


def _colour(number: int) -> str:
    return _GREY if number == MUTED else COLOURS[number % 7]


def _plain(text: object) -> str:
    """Return text in which matplotlib finds no formula."""
    return printable(str(text)).replace("$", r"\$")

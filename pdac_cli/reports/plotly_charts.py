"""The only home of plotly: charts as figures that its script draws in a page.

Text that comes from files is escaped: plotly takes part of HTML in every text. Colours are those of the
light theme; the page puts those of the dark one in their places.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from pdac_cli.console import printable
from pdac_cli.reports.charts import MUTED, Bars, Boxes, Chart, Cloud, Heat, Joined, Outline, Series

# After Okabe and Ito, whose colours colour-blind readers can tell apart; dark enough for lines on white.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07d00", "#3a8fc4", "#333333")
GREY, INK, PAPER = "#8a97a6", "#1a1a1a", "#ffffff"
_SYMBOLS = ("diamond", "square", "cross", "triangle-up", "x", "pentagon", "star")


def library() -> str:
    """Return plotly's script."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def escaped(text: object) -> str:
    """Return text for a page, and for plotly's templates, in which a percent sign may begin a name."""
    return html.escape(printable(str(text))).replace("%", "&#37;")


def figure_json(chart: Chart) -> str:
    """Return a chart as the JSON that plotly's script takes."""
    import plotly.graph_objects as go

    traces: list[Any] = []
    layout: dict[str, Any] = {"template": "none", "boxmode": "group", "barmode": "stack" if chart.stacked else "group"}
    names: set[str] = set()
    for k, (title, series) in enumerate(chart.panels.items()):
        end = "" if k == 0 else str(k + 1)
        for one in series:
            trace = _trace(one)
            trace.update(
                xaxis=f"x{end}", yaxis=f"y{end}", showlegend=one.name not in names and not isinstance(one, Heat)
            )
            trace.update(legendgroup=escaped(one.name))
            names.add(one.name)
            traces.append(getattr(go, trace.pop("kind"))(**trace))
        below = {"title": {"text": escaped(f"{title}: {chart.x}" if title and chart.x else title or chart.x)}}
        layout[f"xaxis{end}"], layout[f"yaxis{end}"] = below, {"title": {"text": escaped(chart.y)}}
        if chart.square:
            layout[f"yaxis{end}"] |= {"scaleanchor": f"x{end}"}
        if k:
            layout[f"xaxis{end}"]["matches"], layout[f"yaxis{end}"]["matches"] = "x", "y"
        if any(isinstance(one, Bars | Boxes | Heat) for one in series):
            layout[f"xaxis{end}"]["type"] = "category"
        if any(isinstance(one, Heat) for one in series):
            layout[f"yaxis{end}"] |= {"type": "category", "autorange": "reversed"}
        if chart.logarithmic:
            layout[f"yaxis{end}"]["type"] = "log"
    figure = go.Figure(traces, layout)
    text: str = figure.to_json()
    return text


@singledispatch
def _trace(one: Series) -> dict[str, Any]:
    raise TypeError(f"{type(one).__name__} is no series of a chart")


@_trace.register
def _points(one: Cloud) -> dict[str, Any]:
    pictures = np.full(len(one.x), -1) if one.pictures is None else one.pictures
    said = "row %{customdata[0]:,d}" + ("<br>%{text}" if one.texts else "")
    marker: dict[str, Any] = {"color": _colour(one.colour), "size": 5, "opacity": 0.75}
    if one.emphasis:
        marker = {
            "color": _colour(one.colour), "size": 9, "symbol": _SYMBOLS[one.colour % len(_SYMBOLS)],
            "line": {"color": PAPER, "width": 1},
        }  # fmt: skip
    return {
        "kind": "Scattergl", "name": escaped(one.name), "x": np.asarray(one.x, "f4"), "y": np.asarray(one.y, "f4"),
        "mode": "markers", "marker": marker, "text": [escaped(text) for text in one.texts] or None,
        "customdata": np.stack([one.rows, one.values, pictures], axis=1).astype("f8"),
        "hovertemplate": f"{said}<br>log-density %{{customdata[1]:.3f}}<extra>{escaped(one.name)}</extra>",
    }  # fmt: skip


@_trace.register
def _outline(one: Outline) -> dict[str, Any]:
    return {
        "kind": "Scatter", "name": escaped(one.name), "x": one.x, "y": one.y, "mode": "lines", "hoverinfo": "skip",
        "line": {"color": INK, "width": 1},
    }  # fmt: skip


@_trace.register
def _line(one: Joined) -> dict[str, Any]:
    error = _error(one.y, one.low, one.high)
    return {
        "kind": "Scatter", "name": escaped(one.name), "x": np.asarray(one.x), "y": np.asarray(one.y, float),
        "mode": "lines+markers", "line": {"color": _colour(one.colour)}, "error_y": error,
        "marker": {"symbol": ("circle", *_SYMBOLS)[one.colour % 8], "color": _colour(one.colour)},
    }  # fmt: skip


@_trace.register
def _bars(one: Bars) -> dict[str, Any]:
    return {
        "kind": "Bar", "name": escaped(one.name), "x": [escaped(name) for name in one.x],
        "y": np.asarray(one.y, float), "marker": {"color": _colour(one.colour)},
        "error_y": _error(one.y, one.low, one.high),
    }  # fmt: skip


@_trace.register
def _boxes(one: Boxes) -> dict[str, Any]:
    low, first, middle, third, high = one.five.T
    return {
        "kind": "Box", "name": escaped(one.name), "x": [escaped(name) for name in one.x], "lowerfence": low,
        "q1": first, "median": middle, "q3": third, "upperfence": high, "marker": {"color": _colour(one.colour)},
        "offsetgroup": escaped(one.name),
    }  # fmt: skip


@_trace.register
def _heat(one: Heat) -> dict[str, Any]:
    shown = [["" if np.isnan(value) else f"{value:.{one.digits}f}" for value in row] for row in one.values.tolist()]
    return {
        "kind": "Heatmap", "name": escaped(one.name), "x": [escaped(name) for name in one.x],
        "y": [escaped(name) for name in one.y], "z": one.values, "text": shown, "texttemplate": "%{text}",
        "colorscale": "Cividis", "hovertemplate": "%{y}, %{x}: %{z:,.2f}<extra></extra>",
    }  # fmt: skip


def _error(
    y: Sequence[float], low: Sequence[float | None] | None, high: Sequence[float | None] | None
) -> dict[str, Any] | None:
    if low is None or high is None:
        return None
    up = [0 if end is None else end - value for value, end in zip(y, high, strict=True)]
    down = [0 if end is None else value - end for value, end in zip(y, low, strict=True)]
    return {"type": "data", "symmetric": False, "array": up, "arrayminus": down, "color": INK, "thickness": 1}


def _colour(number: int) -> str:
    return GREY if number == MUTED else SERIES[number % len(SERIES)]

"""Demšar's diagram of mean ranks: rules on a line, bars over those that do not differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pdac_cli.reports.plots import PlotPanel

_STEP = 0.08  # of the height, from name to name


def critical_difference(title: str, ranks: Mapping[str, float], difference: float) -> PlotPanel:
    """Return a panel of mean ranks by names in order; bars join ranks less than `difference` apart."""

    def draw(axes: Any) -> None:
        names, places = list(ranks), list(ranks.values())
        low, high = 1.0, max(float(len(names)), max(places))
        axes.set_xlim(low - 0.35 * (high - low), high + 0.35 * (high - low))
        groups = alike(places, difference)
        half = (len(names) + 1) // 2
        bottom = -(len(groups) * 0.35 + (half + 1)) * _STEP
        axes.set_ylim(bottom, 3 * _STEP)
        axes.plot([low, high], [0, 0], color="black", linewidth=1)
        for tick in range(1, int(high) + 1, max(1, len(names) // 8)):
            axes.plot([tick, tick], [0, 0.3 * _STEP], color="black", linewidth=1)
            axes.text(tick, 0.5 * _STEP, str(tick), ha="center", va="bottom", fontsize=7)
        axes.plot([low, low + difference], [2 * _STEP] * 2, color="black", linewidth=2)
        axes.text(low + difference / 2, 2.15 * _STEP, f"CD {difference:.2f}", ha="center", va="bottom", fontsize=7)
        below = -len(groups) * 0.35 * _STEP
        for k, (first, last) in enumerate(groups):
            y = -(k + 0.6) * 0.35 * _STEP
            axes.plot([places[first], places[last]], [y, y], color="#0072B2", linewidth=2.5)
        for k, (name, place) in enumerate(zip(names, places, strict=True)):
            left = k < half
            y = below - (1 + (k if left else len(names) - 1 - k)) * _STEP
            end, side = (low, "right") if left else (high, "left")
            axes.plot([place, place, end], [0, y, y], color="#777777", linewidth=0.7)
            axes.text(end, y, f" {name} {place:.1f} ", ha=side, va="center", fontsize=7)
        axes.set_axis_off()

    return PlotPanel(title, "", "", draw)


def alike(ranks: list[float], difference: float) -> list[tuple[int, int]]:
    """Return the first and last place of each longest run of ascending ranks that are less than `difference` apart."""
    found: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = max(k for k in range(first, len(ranks)) if ranks[k] - rank < difference)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found

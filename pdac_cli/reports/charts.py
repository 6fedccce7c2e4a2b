"""What a report shows, as data: charts, galleries, tables and notes, which a page and picture files draw alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.reports.table import Table

MUTED = -1  # the colour of what stands behind; others count from 0


@dataclass(frozen=True)
class Cloud:
    """A cloud of points, with what is said of each."""

    name: str
    x: Array
    y: Array
    rows: Array  # (m,) row numbers
    values: Array  # (m,) log-densities, NaN where there is none
    texts: Sequence[str] = ()  # (m,) ids
    pictures: Array | None = None  # (m,) which picture of the sheet, -1: none
    colour: int = MUTED
    emphasis: bool = False


@dataclass(frozen=True)
class Outline:
    """A closed line around something."""

    name: str
    x: Array
    y: Array


@dataclass(frozen=True)
class Joined:
    """Cloud that are joined, perhaps with an interval around each."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    colour: int = 0


@dataclass(frozen=True)
class Bars:
    """Heights by name, perhaps with intervals."""

    name: str
    x: Sequence[str]
    y: Sequence[float]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    colour: int = 0


@dataclass(frozen=True)
class Boxes:
    """Five numbers a name: least, quartiles and largest."""

    name: str
    x: Sequence[str]
    five: Array  # (m, 5)
    colour: int = 0

    @classmethod
    def of(cls, name: str, groups: Mapping[str, Array], colour: int) -> Boxes:
        """Return the boxes of groups of values; empty groups are left out."""
        kept = {key: values[np.isfinite(values)] for key, values in groups.items()}
        kept = {key: values for key, values in kept.items() if len(values)}
        five = [np.percentile(values, [0, 25, 50, 75, 100]) for values in kept.values()]
        return cls(name, list(kept), np.array(five).reshape(-1, 5), colour)


@dataclass(frozen=True)
class Heat:
    """A table of numbers as colours, NaN where there is none."""

    name: str
    x: Sequence[str]
    y: Sequence[str]
    values: Array  # (len(y), len(x))
    digits: int = 1


Series = Cloud | Outline | Joined | Bars | Boxes | Heat


@dataclass(frozen=True)
class Chart:
    """One chart, or the same axes several times side by side."""

    key: str  # names its file
    title: str
    x: str
    y: str
    panels: Mapping[str, Sequence[Series]]  # by what is said above each; one of them is called ""
    about: str = ""
    square: bool = False  # one unit is as long in both directions
    stacked: bool = False
    logarithmic: bool = False  # y
    sheet: str = ""  # a PNG of pictures as text, which points refer to
    tile: int = 0  # pixels of a side of each

    @classmethod
    def single(
        cls, key: str, title: str, x: str, y: str, series: Sequence[Series], about: str = "", **more: Any
    ) -> Chart:
        """Return a chart of one panel."""
        return cls(key, title, x, y, {"": series}, about, **more)


@dataclass(frozen=True)
class Choice:
    """Charts of which one is shown, chosen by name."""

    label: str
    charts: Mapping[str, Chart]


@dataclass(frozen=True)
class Picture:
    """An image, as the text of a PNG in base64, and what is said under it."""

    png: str
    caption: str


@dataclass(frozen=True)
class Gallery:
    """Images in a grid."""

    key: str
    title: str
    pictures: Sequence[Picture]
    about: str = ""


@dataclass(frozen=True)
class Embedded:
    """A figure that is drawn already: an SVG, shown as an image, in which no script runs."""

    title: str
    svg: bytes


@dataclass(frozen=True)
class Note:
    """A sentence."""

    text: str


Item = Chart | Choice | Gallery | Table | Embedded | Note


@dataclass(frozen=True)
class Report:
    """All there is to show."""

    title: str
    facts: Mapping[str, str]
    items: Sequence[Item] = field(default=())

    def charts(self) -> list[Chart]:
        """Return every chart, those to choose from one by one."""
        found: list[Chart] = []
        for item in self.items:
            if isinstance(item, Chart):
                found.append(item)
            elif isinstance(item, Choice):
                found += item.charts.values()
        return found

"""The report of a feature file and of what indices keep of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pdac_cli.arrays import Array
from pdac_cli.commands.report.densities import density_items
from pdac_cli.console import Console
from pdac_cli.engine.plan import make_plan
from pdac_cli.errors import DataError
from pdac_cli.files.featureset import FeatureSet
from pdac_cli.files.index.index_file import Index, read_index, read_rows
from pdac_cli.files.recognise import FileKind
from pdac_cli.files.results.model import read_model
from pdac_cli.options.report import ReportOptions
from pdac_cli.pipeline.row_access import open_input
from pdac_cli.pipeline.thumbnails import Take, open_pictures, png_of, sheet_of
from pdac_cli.pipeline.views import ClassView, SetView, uniform_distance, view_of
from pdac_cli.reports.charts import Bars, Boxes, Chart, Choice, Cloud, Gallery, Item, Note, Outline, Picture, Report
from pdac_cli.reports.table import Table

_MOST_PICTURES = 2000  # on the sheets of a report
_GALLERY = 40
_MOST_CLASSES = 100  # with a view of their own


@dataclass(frozen=True)
class Selection:
    """What an index keeps of the feature file."""

    name: str
    rows: Array  # (m,) in order of ranking
    index: Index | None  # None: row numbers alone

    @property
    def temperature(self) -> float:
        """The exponent of the densities in the draw."""
        found = self.index.options.get("temperature") if self.index else None
        return float(found) if isinstance(found, int | float) else 1.0


def selection_report(kinds: Mapping[Path, FileKind], options: ReportOptions, console: Console) -> Report:
    """Look at the features, fit them unless there is a model, and show what is kept."""
    indices = {path: read_index(path) for path, kind in kinds.items() if kind is FileKind.INDEX}
    feats = tuple(str(path) for path, kind in kinds.items() if kind is FileKind.FEATURES)
    if not feats:
        named = next((index.sources[-1].files for index in indices.values() if index.sources[-1].files), ())
        if not named:
            raise DataError(f"{next(iter(kinds))}: no feature file is given or named; expected one beside it")
        feats = tuple(named)
    given = replace(options.input, paths=feats)
    model = read_model(options.model) if options.model else None
    with open_input(given, console, options.run.memory) as source, open_pictures(options.images, source) as take:
        chosen = [_selection(path, kind, indices.get(path), source) for path, kind in kinds.items()
                  if kind is not FileKind.FEATURES]  # fmt: skip
        names = _distinct([one.name for one in chosen])
        chosen = [replace(one, name=name) for one, name in zip(chosen, names, strict=True)]
        kept = [one.rows for one in chosen]
        plan = make_plan(given, options.run)
        view = view_of(
            source, kept, model, options.model or Path(), options.density, given, options.most, plan, console
        )
        items: list[Item] = []
        if view.shown < view.total:
            items.append(Note(
                f"{view.shown:,} of {view.total:,} rows are shown: evenly spaced ones, and all that are kept. "
                "The density is fitted on these."
            ))  # fmt: skip
        items += [_views(view, chosen, source, take), *_galleries(view, chosen, take), *_charts(view, chosen)]
        items += [*density_items(view), *(item for one in chosen for item in _suspects(one, source))]
        source.check_unchanged()
        fingerprint = source.fingerprint
    facts = {
        "features": ", ".join(source.files),
        "rows, features, classes": f"{source.n:,}, {source.n_features:,}, {len(view.classes):,}",
        "density": "fitted for this page" if view.fitted else f"of {options.model}",
        **{one.name: _said(one) for one in chosen},
        "fingerprint": fingerprint,
    }
    return Report(
        f"What is kept of {Path(source.files[0]).name}" if chosen else Path(source.files[0]).name, facts, items
    )


def _selection(path: Path, kind: FileKind, index: Index | None, source: FeatureSet) -> Selection:
    """Return the rows that a file keeps of the source; refuse one of another source."""
    if kind is FileKind.ROWS or index is None:
        return Selection(path.stem, read_rows(path, source.n), None)
    for k, said in enumerate(index.sources):
        if said.fingerprint == source.fingerprint:
            return Selection(path.stem, index.row[index.source == k], index)
    raise DataError(
        f"{path}: keeps rows of {', '.join(index.sources[-1].files)}, which {source.files[0]} is not (by its "
        "fingerprint); expected the file they were chosen from"
    )


def _said(one: Selection) -> str:
    return f"{len(one.rows):,} rows" + (f" by {one.index.method}, seed {one.index.seed}" if one.index else "")


def _distinct(names: list[str]) -> list[str]:
    return [name if names.count(name) == 1 else f"{name} ({names[:k].count(name) + 1})" for k, name in enumerate(names)]


def _views(view: SetView, chosen: list[Selection], source: FeatureSet, take: Take | None) -> Choice:
    """Return a chart of every class: all its rows, the outlines of its mixture, and the kept rows on top."""
    room = max(1, _MOST_PICTURES // len(view.classes))
    charts: dict[str, Chart] = {}
    for k, one in enumerate(view.classes[:_MOST_CLASSES]):
        pictures, sheet = _sheet(one, chosen, take, room)
        texts = np.array(source.id_texts(one.rows), object) if source.has_ids else None
        panels: dict[str, list[Cloud | Outline]] = {}
        for c, selection in enumerate(chosen or [None]):
            rest = np.ones(len(one.rows), bool) if selection is None else ~one.kept(selection.rows)
            series: list[Cloud | Outline] = [_points("other rows" if chosen else "rows", one, rest, pictures, texts)]
            series += [Outline("two standard deviations", *line.T) for line in one.outlines]
            if selection is not None:
                series.append(_points(f"kept: {selection.name}", one, ~rest, pictures, texts, c + 1))
            panels[selection.name if selection is not None and len(chosen) > 1 else ""] = series
        charts[f"{one.name} ({one.total:,} rows)"] = Chart(
            f"class-{k:03d}", "Every class in two directions", "first direction", "second direction", panels,
            "The first two directions of the class's own projection. Lines: two standard deviations of each "
            "component of its mixture. Arrow keys go from kept row to kept row.",
            square=True, sheet=sheet,
        )  # fmt: skip
    return Choice("Class", charts)


def _points(
    name: str, one: ClassView, which: Array, pictures: Array, texts: Array | None, colour: int | None = None
) -> Cloud:
    said = () if texts is None else tuple(texts[which].tolist())
    x, y = one.xi[which].T
    more = {} if colour is None else {"colour": colour, "emphasis": True}
    return Cloud(name, x, y, one.rows[which], one.log_p[which], said, pictures[which], **more)  # type: ignore[arg-type]


def _sheet(one: ClassView, chosen: list[Selection], take: Take | None, room: int) -> tuple[Array, str]:
    """Return which picture each shown row has, -1 for none, and the sheet of them: kept rows first."""
    places = np.full(len(one.rows), -1)
    if take is None:
        return places, ""
    kept = np.zeros(len(one.rows), bool)
    for selection in chosen:
        kept |= one.kept(selection.rows)
    order = np.argsort(~kept, kind="stable")[:room]
    found = [(k, picture) for k, picture in zip(order, take(one.rows[order]), strict=True) if picture is not None]
    for number, (k, _) in enumerate(found):
        places[k] = number
    return places, sheet_of([picture for _, picture in found]) if found else ""


def _galleries(view: SetView, chosen: list[Selection], take: Take | None) -> Iterator[Item]:
    """Yield pictures of what is kept, class by class in turn, and of the least typical rows."""
    if take is None:
        return
    where = {row: one for one in view.classes for row in one.rows.tolist()}
    for selection in chosen:
        rows = [row for row in selection.rows.tolist() if row in where][:_GALLERY]
        captions = [f"row {row}, {where[row].name}" for row in rows]
        yield from _gallery(f"Kept by {selection.name}", rows, captions, take, "The first in its order.")
    pairs = [
        (p, row, one) for one in view.classes for p, row in zip(one.log_p.tolist(), one.rows.tolist(), strict=True)
    ]
    least = sorted(pairs, key=lambda pair: pair[0])[:_GALLERY]
    captions = [f"row {row}, {one.name}, {p:.1f}" for p, row, one in least]
    about = "The lowest log-densities in their own class: rare, odd, or wrongly labelled."
    yield from _gallery("Least typical rows", [row for _, row, _ in least], captions, take, about)


def _gallery(title: str, rows: list[int], captions: list[str], take: Take, about: str) -> Iterator[Gallery]:
    found = [
        Picture(png_of(picture), caption)
        for picture, caption in zip(take(np.array(rows, np.int64)), captions, strict=True)
        if picture is not None
    ]
    if found:
        yield Gallery(title, title, found, about)


def _charts(view: SetView, chosen: list[Selection]) -> Iterator[Item]:
    """Yield what can be said of each class in numbers."""
    names = [one.name for one in view.classes]
    all_rows = Boxes.of("all rows", {one.name: one.log_p for one in view.classes}, -1)
    boxes = [
        Boxes.of(f"kept: {s.name}", {one.name: one.log_p[one.kept(s.rows)] for one in view.classes}, c + 1)
        for c, s in enumerate(chosen)
    ]
    yield Chart.single("density", "How dense the rows are, by class", "class", "log-density", [all_rows, *boxes],
                       "Least, quartiles and largest log-density of all rows and of the kept ones.")  # fmt: skip
    if not chosen:
        return
    shares = [Bars("before", names, [100 * one.total / view.total for one in view.classes], colour=-1)]
    distances, effective = [], []
    expected = []
    for c, s in enumerate(chosen):
        counts = [int(one.kept(s.rows).sum()) for one in view.classes]
        total = max(1, sum(counts))
        shares.append(Bars(f"after: {s.name}", names, [100 * count / total for count in counts], colour=c + 1))
        found = [one.mean_distance(one.kept(s.rows)) for one in view.classes]
        distances.append(Bars(s.name, names, found, colour=c + 1))
        expected.append(
            [uniform_distance(len(one.rows), count) for one, count in zip(view.classes, counts, strict=True)]
        )
        sizes = [one.effective_size(s.temperature) for one in view.classes]
        effective.append(Bars(f"of a draw by density^{s.temperature:g}", names, sizes, colour=-1))
        effective.append(Bars(f"kept: {s.name}", names, counts, colour=c + 1))
    yield Chart.single("shares", "Shares of the classes, before and after", "class", "% of the rows", shares)
    uniform = Bars("a uniform draw of as many, expected", names, expected[0], colour=-1)
    about = "In units of the class's spread: the root mean square distance of its rows from their mean."
    title = "How far the kept rows' mean is from the class's"
    yield Chart.single("distance", title, "class", "distance / spread", [uniform, *distances], about)
    yield Chart.single(
        "effective-size", "Effective sample size", "class", "rows", list({bar.name: bar for bar in effective}.values()),
        "How many rows share the weight if rows are drawn by their class's density. Where this is below the number "
        "kept, few rows dominate such a draw.",
    )  # fmt: skip


def _suspects(one: Selection, source: FeatureSet) -> Iterator[Item]:
    """Yield the rows whose label is more likely wrong than right, where the index has them."""
    found = one.index.suspects if one.index else None
    if found is None or one.index is None or one.index.sources[-1].fingerprint != source.fingerprint:
        return
    if not len(found.row):
        yield Note(f"{one.name}: no label is more likely wrong than right.")
        return
    names = one.index.label_names
    labels = source.read_rows(found.row).y.tolist()
    theirs = source.label_names
    ids = source.id_texts(found.row) if source.has_ids else [""] * len(found.row)
    kept = set(one.rows.tolist())
    rows = [
        [
            row,
            name,
            theirs[label] if theirs else label,
            names[likely] if names else likely,
            "yes" if row in kept else "",
        ]
        for row, name, label, likely in zip(found.row.tolist(), ids, labels, found.likely.tolist(), strict=True)
    ]
    title = f"Suspect labels in {one.name}: {len(rows):,} (estimated share of wrong ones: {found.share:.1%})"
    yield Table.of(["row", "id", "label", "looks like", "kept"], rows, title)

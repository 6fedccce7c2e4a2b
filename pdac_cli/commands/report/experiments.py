"""The report of an experiment's folder: its table, its measures, and the figures it drew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pdac_cli.console import Console
from pdac_cli.errors import DataError
from pdac_cli.files.results.runs import read_json
from pdac_cli.metrics import mean_interval
from pdac_cli.reports.charts import Bars, Chart, Embedded, Item, Report
from pdac_cli.reports.table import Table, interval_text, spread
from pdac_cli.storage.reading import reading

_MOST_BYTES = 1 << 22  # of a figure
Cell = Mapping[str, Any]


def experiment_report(paths: Sequence[Path], console: Console) -> Report:
    """Show the results of finished experiments."""
    items: list[Item] = []
    facts = {}
    for path in paths:
        found = read_json(path / "results.json") if (path / "results.json").exists() else None
        cells = _cells(found, path)
        facts[path.name] = f"{found.get('title') if found else ''}: {len(cells):,} cells"
        items += [*_charts(cells, len(items)), _table(cells, str(path.name)), *_figures(path, console)]
    return Report(f"Experiment {paths[0].name}" if len(paths) == 1 else f"{len(paths)} experiments", facts, items)


def _cells(found: dict[str, Any] | None, path: Path) -> list[Cell]:
    """Return the cells of results.json, checked."""
    if found is None:
        raise DataError(f"{path}: has no results yet; expected results.json in it; finish it with pdac experiment")
    cells = found.get("cells")
    if not isinstance(cells, list) or not cells or not all(_is_cell(cell) for cell in cells):
        raise DataError(f"{path / 'results.json'}: its cells are of another kind; expected those of pdac experiment")
    return cells


def _is_cell(cell: Any) -> bool:
    return (
        isinstance(cell, dict)
        and isinstance(cell.get("data"), str)
        and isinstance(cell.get("method"), str)
        and isinstance(cell.get("axes"), dict)
        and isinstance(cell.get("seeds"), list)
        and isinstance(cell.get("values"), dict)
        and isinstance(cell.get("differences", {}), dict)
        and all(_are_numbers(values) for values in cell["values"].values())
    )


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in values
    )  # fmt: skip


def _charts(cells: Sequence[Cell], before: int) -> Iterator[Chart]:
    """Yield a chart for each measure: a bar for every method in every place."""
    for measure in dict.fromkeys(name for cell in cells for name in cell["values"]):
        mine = [cell for cell in cells if measure in cell["values"]]
        places = list(dict.fromkeys(_place(cell) for cell in mine))
        bars: list[Bars] = []
        for method in dict.fromkeys(cell["method"] for cell in mine):
            found = {_place(cell): mean_interval(cell["values"][measure]) for cell in mine if cell["method"] == method}
            own = [place for place in places if place in found]
            mean, low, high = ([getattr(found[place], end) for place in own] for end in ("mean", "low", "high"))
            bars.append(Bars(method, own, mean, low, high, len(bars)))
        about = "Mean over seeds, with 95 % intervals."
        yield Chart.single(f"measure-{before}-{len(bars)}-{_slug(measure)}", measure, "", measure, bars, about)


def _place(cell: Cell) -> str:
    return ", ".join([cell["data"], *(f"{name} {value}" for name, value in cell["axes"].items())])


def _table(cells: Sequence[Cell], title: str) -> Table:
    measures = list(dict.fromkeys(name for cell in cells for name in cell["values"]))
    rows = []
    for cell in cells:
        row: list[object] = [_place(cell), cell["method"], len(cell["seeds"])]
        for name in measures:
            values, difference = cell["values"].get(name), cell.get("differences", {}).get(name)
            row.append("" if values is None else spread(values))
            row.append(interval_text(difference) if _is_difference(difference) else "")
        rows.append(row)
    columns = ["data", "method", "seeds", *(title for name in measures for title in (name, f"{name} difference"))]
    return Table.of(columns, rows, title)


def _is_difference(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(found.get(end), int | float | None) for end in ("mean", "low", "high")
    ) and isinstance(found.get("mean"), int | float)  # fmt: skip


def _figures(path: Path, console: Console) -> Iterator[Embedded]:
    for figure in sorted(path.glob("*.svg")):
        if figure.stat().st_size > _MOST_BYTES:
            console.note(f"note: {figure}: is larger than {_MOST_BYTES:,} bytes and is left out")
            continue
        with reading(figure, "the figure"):
            yield Embedded(figure.stem, figure.read_bytes())


def _slug(text: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text)[:40]

"""A report as one page that needs nothing else: script, figures and pictures are inside, and nothing is asked for."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from importlib.resources import files

from pdac_cli.reports.charts import Chart, Choice, Embedded, Gallery, Item, Note, Report
from pdac_cli.reports.plotly_charts import escaped, figure_json, library
from pdac_cli.reports.table import Table

# WebGL needs functions made from text ('unsafe-eval'); nothing is loaded from anywhere.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
_MOST_ROWS = 200  # of a table


def page_of(report: Report) -> bytes:
    """Return the page; the same report gives the same bytes."""
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        '<meta name=color-scheme content="light dark"><link rel=icon href="data:,">',
        f"<title>{escaped(report.title)}</title><style>{_resource('page.css')}</style></head><body>",
        f"<header><h1>{escaped(report.title)}</h1>{_facts(report)}</header><main>",
        *(part for item in report.items for part in _item(item)),
        "</main><div id=thumb hidden></div>",
        f"<script>{_script(library())}</script><script>{_script(_resource('page.js'))}</script></body></html>\n",
    ]
    return "".join(parts).encode("utf-8", "backslashreplace")


def _facts(report: Report) -> str:
    rows = "".join(f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in report.facts.items())
    return f"<dl>{rows}</dl>"


def _item(item: Item) -> Iterator[str]:
    if isinstance(item, Note):
        yield f"<p class=note>{escaped(item.text)}</p>"
    elif isinstance(item, Table):
        yield from _table(item)
    elif isinstance(item, Gallery):
        shown = "".join(
            f'<figure><img alt="{escaped(one.caption)}" src="data:image/png;base64,{one.png}">'
            f"<figcaption>{escaped(one.caption)}</figcaption></figure>"
            for one in item.pictures
        )
        yield f"<section><h2>{escaped(item.title)}</h2>{_about(item.about)}<div class=gallery>{shown}</div></section>"
    elif isinstance(item, Embedded):
        data = base64.b64encode(item.svg).decode()
        yield f"<section><h2>{escaped(item.title)}</h2><div class=wide>"
        yield f'<img class=embedded alt="{escaped(item.title)}" src="data:image/svg+xml;base64,{data}"></div></section>'
    elif isinstance(item, Choice):
        first = next(iter(item.charts.values()))
        names = "".join(f"<option value={k}>{escaped(name)}</option>" for k, name in enumerate(item.charts))
        choose = f"<label>{escaped(item.label)} <select>{names}</select></label>"
        yield from _chart(first, list(item.charts.values()), choose)
    else:
        yield from _chart(item, [item], "")


def _chart(first: Chart, charts: list[Chart], choose: str) -> Iterator[str]:
    yield f"<section><h2>{escaped(first.title)}</h2>{_about(first.about)}{choose}"
    yield f'<div class=chart tabindex=0 role=img aria-label="{escaped(first.title)}"></div>'
    for chart in charts:
        kind = json.dumps(
            {"sheet": chart.sheet, "tile": chart.tile, "square": chart.square, "panels": len(chart.panels)}
        )
        figure = f'{{"figure":{figure_json(chart)},"page":{kind}}}'
        yield f"<script type=application/json>{_inert(figure)}</script>"
    yield "</section>"


def _table(table: Table) -> Iterator[str]:
    yield f"<section><h2>{escaped(table.title)}</h2><div class=wide tabindex=0><table><thead><tr>"
    yield "".join(f"<th>{escaped(name)}</th>" for name in table.columns) + "</tr></thead><tbody>"
    for row in table.rows[:_MOST_ROWS]:
        yield "<tr>" + "".join(f"<td>{'' if cell is None else escaped(cell)}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"
    if len(table.rows) > _MOST_ROWS:
        yield f"<p class=note>the first {_MOST_ROWS} of {len(table.rows):,}</p>"
    yield "</section>"


def _about(text: str) -> str:
    return f"<p class=about>{escaped(text)}</p>" if text else ""


def _inert(text: str) -> str:
    """Return JSON in which no tag can begin."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _script(text: str) -> str:
    """Return a script that its element cannot be ended by."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _resource(name: str) -> str:
    return files("pdac_cli.reports").joinpath(name).read_text("utf-8")

"""A report in a real browser: it loads, draws, is hovered and asks for nothing; at the width of a phone too."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from pdac_cli.reports.charts import Bars, Chart, Choice, Cloud, Heat, Joined, Outline, Report
from pdac_cli.reports.page import page_of
from tests.browser import Browser, executable
from tests.conftest import SAMPLE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(executable() is None, reason="no chromium is installed: pages are not looked at"),
]
DRAWN = "document.body && document.body.dataset.drawn"


@pytest.fixture(scope="module")
def browser():
    with Browser() as found:
        yield found


@pytest.fixture
def page(pdac, tmp_path):
    """The report of two selections of the sample, with images."""
    for name, more in (("a.json", []), ("b.json", ["--method", "uniform"])):
        assert pdac("select", SAMPLE, "-n", 100, "-o", tmp_path / name, "-q", *more).code == 0
    images = SAMPLE.parent / "digits-images.h5"
    path = tmp_path / "r.html"
    assert (
        pdac("report", SAMPLE, tmp_path / "a.json", tmp_path / "b.json", "--images", images, "-o", path, "-q").code == 0
    )
    return path


def test_it_loads_draws_and_asks_for_nothing(browser, page, tmp_path):
    brightness = {}
    for width in (390, 1400):
        for dark in (False, True):
            browser.size(width, 900, dark)
            browser.open(page, DRAWN)
            assert [text for text in browser.problems() if "GPU stall" not in text] == []  # of software WebGL
            assert browser.requests() == []
            assert browser.evaluate("document.querySelectorAll('.js-plotly-plot').length") == 7
            assert browser.evaluate("document.documentElement.scrollWidth") == width
            shot = tmp_path / f"{width}-{dark}.png"
            browser.screenshot(shot)
            brightness[width, dark] = np.asarray(Image.open(shot).convert("L")).mean()
            widths = "[...document.querySelectorAll('.chart .main-svg')].map(svg => svg.clientWidth)"
            assert max(browser.evaluate(widths)) <= width
    for width in (390, 1400):
        assert brightness[width, False] > 200 > 90 > brightness[width, True]


def test_hover_says_what_a_row_is_and_shows_it(browser, page):
    browser.size(1400, 900)
    browser.open(page, DRAWN)
    # The kept row of the first class that is farthest from others, where it stands in the window.
    where = """(() => { const box = document.querySelector('.chart'), l = box._fullLayout; box.scrollIntoView();
      const k = box._fullData.findIndex(t => t.name.startsWith('kept: a')), t = box._fullData[k], o = box._fullData[0];
      const r = box.getBoundingClientRect(), px = (x, y) => [l.xaxis.d2p(x), l.yaxis.d2p(y)];
      const others = [...o.x, ...t.x].map((x, i) => px(x, [...o.y, ...t.y][i]));
      const gaps = [...t.x].map((x, i) => { const p = px(x, t.y[i]);
        return others.map(q => Math.hypot(p[0] - q[0], p[1] - q[1])).sort((a, b) => a - b)[1]; });
      const i = gaps.indexOf(Math.max(...gaps)), at = px(t.x[i], t.y[i]);
      return { x: r.left + l.xaxis._offset + at[0], y: r.top + l.yaxis._offset + at[1],
        row: t.customdata[i][0], id: t.text[i] }; })()"""
    point = browser.evaluate(where)
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=point["x"] - 3, y=point["y"] - 3)
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=point["x"], y=point["y"])
    browser.wait("document.querySelector('.chart .hoverlayer text')", 10)
    said = browser.evaluate("document.querySelector('.chart .hoverlayer').textContent")
    assert f"row {int(point['row']):,}" in said
    assert point["id"] in said
    assert "log-density" in said
    assert browser.evaluate("document.getElementById('thumb').hidden") is False


def test_every_class_can_be_chosen_and_rows_walked_by_keyboard(browser, page):
    browser.size(390, 900)
    browser.open(page, DRAWN)
    with h5py.File(SAMPLE) as file:
        counts = np.bincount(file["labels"][:])
    names = browser.evaluate("[...document.querySelector('select').options].map(o => o.text)")
    assert names == [f"{label} ({count:,} rows)" for label, count in enumerate(counts)]
    browser.evaluate("document.querySelector('select').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="ArrowDown", code="ArrowDown", windowsVirtualKeyCode=40)
    browser.wait("document.querySelector('select').value === '1'", 10)
    shown = "(c => c[0].x.length + c[c.length - 1].x.length)(document.querySelector('.chart')._fullData)"
    browser.wait(f"{shown} === {counts[1]}", 10)
    browser.evaluate("document.querySelector('.chart').focus()")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="ArrowRight", code="ArrowRight", windowsVirtualKeyCode=39)
    browser.wait("document.querySelector('.chart .hoverlayer text')", 10)


def test_what_a_file_says_is_text_in_the_browser(browser, tmp_path):
    evil = "<img src=x onerror='window.hit=1'></script><script>window.hit=1</script><a href='http://x'>y</a>%{x}"
    one = np.arange(5.0)
    points = Cloud(evil, one, one, one.astype(int), one, [evil] * 5, colour=1, emphasis=True)
    charts = [
        Chart("a", evil, evil, evil, {"": [points, Outline(evil, one, one)]}, evil, square=True),
        Chart.single("b", evil, evil, evil, [Bars(evil, [evil, "b"], [1, 2]), Bars("z", ["b"], [1])]),
        Chart.single("c", evil, evil, evil, [Heat(evil, [evil], [evil], np.ones((1, 1)))]),
        Chart.single("d", evil, evil, evil, [Joined(evil, [1, 2], [1, 2], [0, 1], [2, 3])]),
    ]
    path = Path(tmp_path, "evil.html")
    path.write_bytes(page_of(Report(evil, {evil: evil}, [Choice(evil, {evil: charts[0]}), *charts[1:]])))
    browser.size(1400, 900)
    browser.open(path, DRAWN)
    browser.evaluate("Plotly.Fx.hover(document.querySelector('.chart'), {xval: 1, yval: 1}, 'xy')")
    browser.wait("document.querySelector('.chart .hoverlayer text')", 10)
    assert browser.evaluate("window.hit === undefined")
    assert browser.evaluate("document.querySelectorAll('img, svg a').length") == 0
    assert browser.requests() == []
    assert browser.problems() == []
    assert evil in browser.evaluate("document.querySelector('h1').textContent")
    assert json.dumps(browser.evaluate("document.querySelector('.chart .hoverlayer').textContent")).count("<img") >= 1

"""One type of table: aligned and never cut for people, harmless and exact for programs."""

import csv
import io

import pytest
from rich import box
from rich.console import Console as RichConsole
from rich.table import Table as RichTable

from pdac_cli.reports.table import Table, facts, interval_text, spread


def test_columns_are_aligned_and_nothing_is_cut():
    table = Table.of(["class", "rows"], [["a" * 300, 5], ["b", "1,000"]], left=["class"])
    assert table.text().splitlines() == [
        f"  {'class':300}   rows",
        f"  {'a' * 300}      5",
        f"  {'b':300}  1,000",
    ]


def test_a_ruled_table_looks_like_the_librarys():
    rows = [["uniform", "1.2 ± 0.3", ""], ["中文", "", "x"]]
    theirs = RichTable(box=box.SIMPLE)
    theirs.add_column("method")
    theirs.add_column("ACC", justify="right")
    theirs.add_column("FM", justify="right")
    for row in rows:
        theirs.add_row(*row)
    stream = io.StringIO()
    RichConsole(file=stream, width=120, force_terminal=False, no_color=True).print(theirs)
    expected = "\n".join(line.rstrip() for line in stream.getvalue().strip("\n").splitlines())
    assert Table.of(["method", "ACC", "FM"], rows, left=["method"]).text(ruled=True) == expected


def test_text_from_files_commands_nothing():
    table = Table.of(["class\x1b[2J", "n"], [["a\nerror: b", 1], ["\x07\0", None]], "title\r\x1b[31m")
    lines = table.text(ruled=True).splitlines()
    assert len(lines) == 6
    assert all(line.isprintable() for line in lines)
    assert r"a\nerror: b" in lines[4]
    assert facts({"model": "a\nb"}) == r"model  a\nb"


@pytest.mark.parametrize(("text", "stored"), [
    ("=1+1", "'=1+1"),
    ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
    ("-2+3", "'-2+3"),
    ("@SUM(A1)", "'@SUM(A1)"),
    ("\t=1", "'\\t=1"),
    ("\r=1", "'\\r=1"),
    ("-0.1", "-0.1"),
    ("+1e-05", "+1e-05"),
    ("-inf", "-inf"),
    ("pdac-T-0.1", "pdac-T-0.1"),
    ("a\nb", r"a\nb"),
    ('a "quoted", name', 'a "quoted", name'),
])  # fmt: skip
def test_a_spreadsheet_computes_nothing_that_a_file_says(text, stored):
    table = Table.of(["name", "value"], [[text, -1.5]])
    assert list(csv.reader(io.StringIO(table.csv()))) == [["name", "value"], [stored, "-1.5"]]


def test_numbers_are_exact_and_absent_cells_empty():
    table = Table.of_records([{"a": 0.1 + 0.2, "b": 3}, {"b": None, "c": True}])
    assert table.csv() == "a,b,c\n0.30000000000000004,3,\n,,True\n"
    assert Table.of_records([]).csv() == "\n"


def test_means_and_intervals():
    assert spread([1.0]) == "1.00"
    assert spread([1.0, 3.0]) == "2.00 ± 1.41"
    assert interval_text(None) == interval_text({}) == ""
    assert interval_text({"mean": -1.0, "low": None, "high": None}) == "-1.00"
    assert interval_text({"mean": 1.0, "low": 0.5, "high": 1.5}) == "+1.00 [+0.50, +1.50]"

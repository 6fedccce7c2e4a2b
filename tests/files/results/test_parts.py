"""Parts of a run: what is finished, what is refused, and blocks that do not depend on how parts were cut."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdac_cli.errors import DataError, ModelError, StorageError, UsageError
from pdac_cli.files.results.parts import open_parts, reblocked

MANIFEST = {"checkpoint_sha256": "aa", "images": "bb", "batch_size": 4}


def columns(start: int, stop: int) -> dict[str, np.ndarray]:
    return {"rows": np.arange(start, stop), "h": np.arange(start, stop)[:, None] * np.ones(3)}


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 7))
def test_blocks_do_not_depend_on_the_pieces(sizes: list[int], rows: int) -> None:
    ends = np.cumsum([0, *sizes])
    pieces = [columns(a, b) for a, b in itertools.pairwise(ends)]
    blocks = list(reblocked(pieces, rows))
    total = int(ends[-1])
    assert [len(block["rows"]) for block in blocks] == [rows] * (total // rows) + [total % rows] * bool(total % rows)
    joined = np.concatenate([block["rows"] for block in blocks]) if blocks else np.arange(0)
    assert joined.tolist() == list(range(total))
    assert all(np.array_equal(block["h"], columns(0, total)["h"][block["rows"]]) for block in blocks)


def test_a_rerun_finds_what_was_finished(tmp_path: Path) -> None:
    out = tmp_path / "x.h5"
    with open_parts(out, MANIFEST, 10, 30, restart=False) as parts:
        parts.append(14, columns(10, 14))
        parts.append(20, columns(14, 20))
    (tmp_path / "x.h5.parts" / ".rows.host.99.0123abcd.tmp").write_text("half a part of a dead run")
    with open_parts(out, MANIFEST, 10, 30, restart=False) as parts:
        assert parts.done == 20
        assert np.concatenate([part["rows"] for part in parts.read()]).tolist() == list(range(10, 20))
        parts.append(30, columns(20, 30))
        assert not list(parts.folder.glob(".*"))
        parts.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_gap_ends_what_is_finished(tmp_path: Path) -> None:
    out = tmp_path / "x.h5"
    with open_parts(out, MANIFEST, 0, 30, restart=False) as parts:
        for stop in (10, 20, 30):
            parts.append(stop, columns(stop - 10, stop))
    (tmp_path / "x.h5.parts" / "rows-000000000010-000000000020.npz").unlink()
    with open_parts(out, MANIFEST, 0, 30, restart=False) as parts:
        assert parts.done == 10


def test_nothing_done_leaves_nothing(tmp_path: Path) -> None:
    with open_parts(tmp_path / "x.h5", MANIFEST, 0, 5, restart=False):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"checkpoint_sha256": "cc"}, ModelError, "checkpoint_sha256 aa and not cc"),
        ({"images": "cc"}, DataError, "images bb and not cc"),
        ({"batch_size": 8}, UsageError, "batch_size 4 and not 8"),
    ],
)
def test_parts_of_another_run(tmp_path: Path, change: dict, error: type[Exception], words: str) -> None:
    out = tmp_path / "x.h5"
    with open_parts(out, MANIFEST, 0, 5, restart=False) as parts:
        parts.append(5, columns(0, 5))
    with pytest.raises(error, match=words), open_parts(out, MANIFEST | change, 0, 5, restart=False):
        pass
    with open_parts(out, MANIFEST | change, 0, 5, restart=True) as parts:
        assert parts.done == 0
        parts.append(1, columns(0, 1))
    assert json.loads((tmp_path / "x.h5.parts" / "manifest.json").read_text()) == MANIFEST | change


def test_files_that_are_not_ours_stay(tmp_path: Path) -> None:
    with open_parts(tmp_path / "x.h5", MANIFEST, 0, 5, restart=False) as parts:
        parts.append(5, columns(0, 5))
        (parts.folder / "notes.txt").write_text("mine")
        parts.remove()
    assert [path.name for path in (tmp_path / "x.h5.parts").iterdir()] == ["notes.txt"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "x.h5.parts").write_text("in the way")
    with pytest.raises(StorageError), open_parts(tmp_path / "x.h5", MANIFEST, 0, 5, restart=False):
        pass

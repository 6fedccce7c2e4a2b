"""A bug of ours is said to be one: exit code 1, never "write the file again"."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from pdac_cli import cli

# A function of ours that runs while the kind of file is read.
PLACES = {
    "features": ("pdac_cli.files.formats.hdf5_datasets.check_filters", "fit {f} -o m.h5 -q"),
    "labels": ("pdac_cli.files.formats.labels._names", "fit {f} -o m.h5 -q"),
    "a virtual file": ("pdac_cli.files.formats.hdf5_virtual._check_extent", "fit {v} -o m.h5 -q"),
    "a model": ("pdac_cli.files.results.model._checked", "select {f} --budget 5 --model {m}"),
    "an index as HDF5": ("pdac_cli.files.index.hdf5_index.find_problem", "select {f} --budget 5 --buffer {i}"),
    "an index as JSON": ("pdac_cli.files.index.json_index._source", "select {f} --budget 5 --buffer {j}"),
    "a state": ("pdac_cli.files.results.state._digest", "stream {f} --budget 5 --state {s} -o o.json --force"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sound")
    names = {letter: folder / name for letter, name in zip("fvgmijst", (
        "f.h5", "v.h5", "g.h5", "m.h5", "i.h5", "i.json", "s.h5", "t.txt"), strict=True)}  # fmt: skip
    for seed, letter in enumerate("fg"):
        with h5py.File(names[letter], "w") as file:
            file["features"] = np.random.default_rng(seed).normal(size=(40, 12)).astype("f4")
            file["labels"] = np.array([b"a", b"b"] * 20)
    with h5py.File(names["v"], "w") as file:
        file["stored"] = np.ones((4, 2))
        layout = h5py.VirtualLayout((4, 2), "f8")
        layout[:] = h5py.VirtualSource(".", "stored", (4, 2))
        file.create_virtual_dataset("features", layout)
        file["labels"] = np.zeros(4, int)
    monkeypatch = pytest.MonkeyPatch()
    for line in (
        "fit {f} -o {m} -q", "select {g} --budget 5 -o {i} -q", "select {g} --budget 5 -o {j} -q",
        "select {g} --budget 5 -o {t} -q", "stream {f} --budget 5 --state {s} -o {s}.json -q",
    ):  # fmt: skip
        assert run(line, names, monkeypatch) == 0
    monkeypatch.undo()
    return names


def run(line: str, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["pdac", *line.format(**files).split()])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.fixture
def bug() -> Callable[..., object]:
    def wrong(*_: object, **__: object) -> object:
        return {}["no such key"]

    return wrong


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("verbose", [False, True])
def test_a_bug_is_not_taken_for_damage(
    place: str, verbose: bool, files: dict[str, Path], bug: Callable[..., object], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    target, line = PLACES[place]
    monkeypatch.setattr(target, bug)
    assert run(line + " --verbose" * verbose, files, monkeypatch) == 1
    said = capfd.readouterr().err.splitlines()
    assert said[-1].startswith("error: this is a bug in pdac: KeyError: 'no such key' (test_bugs.py:")
    assert said[-1].endswith("; rerun with --verbose for the traceback, and report it")
    assert verbose == any(each.startswith("Traceback") for each in said)
    assert verbose or not any("File" in each for each in said)

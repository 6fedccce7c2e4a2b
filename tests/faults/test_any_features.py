"""Feature sets of every kind through fit, select and stream: exactly the budget, whole, the same however it is done."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdac_cli.files.index.index_file import read_index
from pdac_cli.files.results.model import read_model
from tests.faults.processes import Ended, Server, contents

QUICK: dict[str, Any] = {
    "derandomize": True, "deadline": None, "database": None, "suppress_health_check": list(HealthCheck),
}  # fmt: skip


@dataclass(frozen=True)
class Set:
    """A feature set, by what it is made of."""

    n: int
    dim: int
    classes: int
    kind: str
    scale: float
    shift: float
    dtype: str
    seed: int
    budget: int

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Return h (n, D) and y (n,)."""
        rng = np.random.default_rng(self.seed)
        h = rng.standard_normal((self.n, self.dim))
        if self.kind == "constant":
            h = np.ones_like(h)
        elif self.kind == "duplicates":
            h = h[rng.integers(0, min(3, self.n), self.n)]
        elif self.kind == "low rank":
            h = h[:, :1] * np.linspace(-1, 1, self.dim)
        elif self.kind == "heavy tails":
            h = h * 10.0 ** rng.integers(-3, 4, (self.n, 1))
        elif self.kind == "zeros among them":
            h = h * (rng.random(h.shape) < 0.1)
        y = rng.integers(0, self.classes, self.n) * 3
        return ((h + self.shift) * self.scale).astype(self.dtype), y


@st.composite
def sets(draw: st.DrawFn) -> Set:
    """Tiny and larger, one class and as many as rows, constant and repeated rows, extreme scales, half precision."""
    n = draw(st.one_of(st.integers(1, 12), st.integers(13, 200), st.sampled_from([128, 129, 700])))
    dtype = draw(st.sampled_from(["f4", "f8", "f2"]))
    scales = [1.0, 1e-3] if dtype == "f2" else [1.0, 1e-15, 1e15] if dtype == "f4" else [1.0, 1e-60, 1e60, 1e-30]
    return Set(
        n,
        draw(st.sampled_from([1, 2, 3, 17, 64])),
        draw(st.sampled_from([1, 2, 5, n])),
        draw(st.sampled_from(["normal", "constant", "duplicates", "low rank", "heavy tails", "zeros among them"])),
        draw(st.sampled_from(scales)),
        draw(st.sampled_from([0.0, 0.0, 100.0])),
        dtype,
        draw(st.integers(0, 1000)),
        draw(st.one_of(st.integers(1, 30), st.integers(1, n))),
    )


def commands(found: Set) -> dict[str, str]:
    small = f"--dim {min(3, found.dim)} --components 2"
    budget = f"--budget {found.budget}"
    select = f"select f.h5 {budget} -q --jobs 1"
    # Streamed relative densities keep D x D numbers: beyond a few thousand features the documents advise herding.
    batches = f"stream {budget} -q --batch 16"
    stream = batches + (" --method herding" if found.dim > 2000 else "")
    return {
        "fit": f"fit f.h5 -o m.h5 {small} -q --jobs 1",
        "select": f"{select} -o s.json",
        "again": f"{select} -o again.json --chunk-rows 7 --memory 16M --jobs 2",
        "by the model": f"{select} -o by.json --model m.h5",
        "herding": f"{select} -o h.json --method herding",
        "uniform": f"{select} -o u.json --method uniform",
        "stream": f"{stream} f.h5 -o t.json",
        "stream again": f"{stream} f.h5 -o t2.json --state state.h5",
        "stream by class": f"{batches} f.h5 -o c.json --density class {small} --step-rows 16 --model tm.h5",
        "er": f"{batches} f.h5 -o e.json --method er",
    }


def check_index(path: Path, y: np.ndarray, budget: int) -> np.ndarray:
    index = read_index(path)
    assert len(index.row) == len(set(index.row.tolist())) == min(budget, len(y))
    assert (np.asarray(index.label) == y[index.row]).all()
    return np.asarray(index.row)


def check_set(found: Set, server: Server, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    h, y = found.arrays()
    with h5py.File(folder / "f.h5", "w") as file:
        file["features"], file["labels"] = h, y
    before = contents(folder)
    lines = commands(found)
    ends, opened = server.run_many([(folder, line.split()) for line in lines.values()])
    for name, ended in zip(lines, ends, strict=True):
        check_said(name, ended)
    assert len(set(opened)) == 1, opened
    assert contents(folder)["f.h5"] == before["f.h5"]
    rows = {
        name: check_index(folder / f"{name}.json", y, found.budget) for name in ("s", "h", "u", "t", "t2", "c", "e")
    }
    chosen = [read_index(folder / f"{name}.json") for name in ("s", "again", "by")]
    assert chosen[0].row.tolist() == chosen[1].row.tolist() == chosen[2].row.tolist()
    assert np.array_equal(chosen[0].log_density, chosen[1].log_density)
    assert np.isfinite(chosen[0].log_density).all()
    assert rows["t"].tolist() == rows["t2"].tolist()
    for name in ("m.h5", "tm.h5"):
        model = read_model(folder / name).model  # which checks that every number is one that a model has
        assert model.counts.tolist() == [int((y == label).sum()) for label in model.labels]
    shares = np.bincount(y[rows["u"]] // 3) if found.budget < found.n else None
    if shares is not None and len(np.unique(np.bincount(y // 3))) == 1:
        assert shares.max() - shares.min() <= 1  # equal classes, equal shares


def check_said(name: str, ended: Ended) -> None:
    assert ended.code == 0, f"{name}: {ended.code} {ended.err}"
    for line in ended.err.splitlines():
        assert line.startswith("warning: "), f"{name}: {ended.err}"


@settings(max_examples=12, **QUICK)
@given(found=sets())
def test_any_set(found: Set, light: Server, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_set(found, light, tmp_path_factory.getbasetemp() / "any")


@pytest.mark.slow
@settings(max_examples=100, **QUICK)
@given(found=sets())
def test_many_sets(found: Set, light: Server, tmp_path_factory: pytest.TempPathFactory) -> None:
    check_set(found, light, tmp_path_factory.getbasetemp() / "many")


@pytest.mark.slow
@pytest.mark.parametrize(("n", "dim", "classes"), [(200_000, 16, 3), (500, 1000, 2), (20_000, 8, 20_000)])
def test_large_sets(n: int, dim: int, classes: int, light: Server, tmp_path: Path) -> None:
    check_set(Set(n, dim, classes, "normal", 1.0, 0.0, "f4", 0, 100), light, tmp_path / "large")


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40])
def test_a_power_of_two_changes_no_choice(factor: float, light: Server, tmp_path: Path) -> None:
    rows = []
    for k, scale in enumerate((1.0, factor)):
        found = Set(300, 8, 3, "normal", scale, 0.0, "f8", 1, 40)
        h, y = found.arrays()
        with h5py.File(tmp_path / f"{k}.h5", "w") as file:
            file["features"], file["labels"] = h, y
        ends = [
            light.run(f"{verb} {k}.h5 --budget 40 -o {verb}{k}.json -q".split(), tmp_path)
            for verb in ("select", "stream")
        ]
        assert [ended.code for ended in ends] == [0, 0], ends
        rows.append([read_index(tmp_path / f"{verb}{k}.json").row.tolist() for verb in ("select", "stream")])
    assert rows[0] == rows[1]

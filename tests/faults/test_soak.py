"""A long stream takes no more memory and no more open files at its end than soon after its beginning."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pytest

from pdac_cli.files.index.index_file import read_index
from tests.faults.processes import ENVIRONMENT

ROWS, FILES = 2_000_000, 8


def sample(pid: int) -> tuple[int, int]:
    """Resident bytes and open files of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096, len(list(Path(f"/proc/{pid}/fd").iterdir()))


@pytest.mark.slow
def test_two_million_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    names = [f"day-{k}.h5" for k in range(FILES)]
    for name in names:
        with h5py.File(tmp_path / name, "w") as file:
            count = ROWS // FILES
            y = rng.integers(0, 5, count)
            file["labels"] = y
            h = rng.standard_normal((count, 8), dtype="f4") + y[:, None]
            file.create_dataset("features", data=h, chunks=(4096, 8))
    options = (
        "--budget 500 -o out.json --state s.h5 --batch 1024 --density class --step-rows 4096 --dim 3 --components 2 -q"
    )
    command = [sys.executable, "-m", "pdac_cli", "stream", *names, *options.split()]
    found: list[tuple[int, int]] = []
    with subprocess.Popen(command, cwd=tmp_path, env={**ENVIRONMENT, "PATH": ""}, stderr=subprocess.PIPE) as process:
        while process.poll() is None:
            with suppress(FileNotFoundError, ProcessLookupError, IndexError):
                found.append(sample(process.pid))
            time.sleep(0.02)
        assert process.stderr is not None
        assert (process.returncode, process.stderr.read()) == (0, b"")
    index = read_index(tmp_path / "out.json")
    assert sum(source.rows for source in index.sources) == ROWS
    assert len(index.row) == 500
    warm = found[len(found) // 4 : -2]  # the first quarter loads the libraries and reads the first files
    assert len(warm) > 50
    memory = [resident for resident, _ in warm]
    assert max(memory) <= 1.05 * np.median(memory[: len(memory) // 4])
    opened = [files for _, files in warm]
    assert max(opened) - min(opened) <= 3  # an input, the state, its temporary: what is opened is closed again
    assert max(opened[-len(opened) // 4 :]) <= max(opened[: len(opened) // 4])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names, "out.json", "s.h5"])

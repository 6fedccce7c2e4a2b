"""Several processes at once: of writers one wins whole and the others say so; readers do not disturb each other."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pdac_cli.errors import DataError
from pdac_cli.files.features import open_features
from pdac_cli.options.shared import InputOptions
from tests.faults.processes import Ended, Server, contents
from tests.faults.works import SMALL, WORKS, features


@pytest.fixture(scope="module")
def other() -> Iterator[Server]:
    """A second server, so that two commands run at the same time."""
    found = Server("fit", "select", "stream")
    yield found
    found.close()


class Beside(threading.Thread):
    """A command that runs while the test goes on."""

    def __init__(self, run: Callable[[], Ended]) -> None:
        super().__init__()
        self._run, self.ended = run, None
        self.start()

    def run(self) -> None:
        self.ended = self._run()

    def end(self) -> Ended:
        self.join()
        assert self.ended is not None
        return self.ended


def wait_for(condition: Callable[[], Any]) -> None:
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() - begun < 60
        time.sleep(0.002)


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_two_writers_of_one_output(force: tuple[str, ...], light: Server, other: Server, tmp_path: Path) -> None:
    features(tmp_path)
    alone = []
    for seed in (1, 2):
        light.run([*f"select f.h5 --budget 40 --seed {seed} -o alone.json -q".split(), "--force"], tmp_path)
        alone.append((tmp_path / "alone.json").read_bytes())
    for _ in range(8):
        (tmp_path / "out.json").unlink(missing_ok=True)
        first = ["select", "f.h5", "--budget", "40", "--seed", "1", "-o", "out.json", "-q"]
        second = ["select", "f.h5", "--budget", "40", "--seed", "2", "-o", "out.json", "-q"]
        beside = Beside(lambda first=first: other.run([*first, *force], tmp_path))  # type: ignore[misc]
        ends = [light.run([*second, *force], tmp_path), beside.end()][::-1]
        found = (tmp_path / "out.json").read_bytes()
        if force:
            assert [ended.code for ended in ends] == [0, 0]
            assert found in alone
        else:
            assert sorted(ended.code for ended in ends) == [0, 5]
            winner = 0 if ends[0].code == 0 else 1
            assert found == alone[winner]
            assert "out.json: exists; expected a new path" in ends[1 - winner].error
        assert sorted(contents(tmp_path)) == ["alone.json", "f.h5", "out.json"]


def many_rows(folder: Path) -> list[str]:
    rng = np.random.default_rng(0)
    with h5py.File(folder / "f.h5", "w") as file:
        file["features"], file["labels"] = rng.normal(size=(60_000, 16)).astype("f4"), rng.integers(0, 10, 60_000)
    return f"stream f.h5 --budget 50 -o out.json --state s.h5 --density class --step-rows 8 {SMALL}".split()


def test_two_streams_on_one_state(light: Server, other: Server, tmp_path: Path) -> None:
    command = many_rows(tmp_path)
    beside = Beside(lambda: other.run(command, tmp_path, after=30, signal=signal.SIGTERM))
    wait_for((tmp_path / "s.h5").exists)
    second = light.run(command, tmp_path)
    assert second.code == 5, second.err
    assert second.error == (
        "error: s.h5: another run is writing it; expected one at a time; wait for it, or choose another path"
    )
    (tmp_path / "link").symlink_to("s.h5")  # by another name it is the same state
    command[command.index("s.h5")] = "link"
    assert light.run(command, tmp_path).code == 5
    assert beside.end().code in (0, 6)
    assert not (tmp_path / ".s.h5.lock").exists()


def test_the_lock_of_a_dead_process_blocks_nobody(light: Server, other: Server, tmp_path: Path) -> None:
    command = many_rows(tmp_path)
    beside = Beside(lambda: other.run(command, tmp_path, after=1.5))
    wait_for((tmp_path / ".s.h5.lock").exists)
    assert beside.end().code == -9
    assert (tmp_path / ".s.h5.lock").exists()
    ended = light.run(command, tmp_path, after=0.5, signal=signal.SIGTERM)
    assert ended.code in (0, 6), ended.err
    assert not (tmp_path / ".s.h5.lock").exists()


def test_two_readers_of_one_file(light: Server, other: Server, tmp_path: Path) -> None:
    features(tmp_path)
    before = contents(tmp_path)
    for k in range(4):
        beside = Beside(lambda k=k: other.run(f"fit f.h5 -o a{k}.h5 {SMALL}".split(), tmp_path))  # type: ignore[misc]
        ends = [light.run(f"fit f.h5 -o b{k}.h5 {SMALL}".split(), tmp_path), beside.end()]
        assert [ended.code for ended in ends] == [0, 0], ends
        assert (tmp_path / f"a{k}.h5").read_bytes() == (tmp_path / f"b{k}.h5").read_bytes()
    assert contents(tmp_path)["f.h5"] == before["f.h5"]


def test_a_reader_while_extract_writes(light: Server, heavy: Server, tmp_path: Path) -> None:
    """The output is not there, and then it is all there."""
    work = WORKS["extract"]
    folder = work.prepare(tmp_path / "here")
    beside = Beside(lambda: heavy.run(work.command(), folder, patches=work.patches))
    tries = 0
    while beside.is_alive():
        with contextlib.suppress(FileNotFoundError):
            assert sorted(entry.name for entry in folder.iterdir() if entry.suffix == ".h5")[0] == "i.h5"
        said = None
        try:
            with open_features(InputOptions(paths=(str(folder / "out.h5"),))) as found:
                assert found.n == 100
                assert sum(len(chunk.y) for chunk in found.chunks(30)) == 100
        except DataError as problem:
            said = str(problem)
        assert said is None or "not found" in said
        tries += 1
        if tries % 20 == 1:
            ended = light.run(["select", "out.h5", "--budget", "5", "--method", "uniform", "-q"], folder)
            assert ended.code == 0 or (ended.code, "not found" in ended.error) == (3, True)
    assert beside.end().code == 0
    assert tries > 3


@pytest.mark.parametrize(("name", "lock"), [("extract", "out.h5.parts/lock"), ("train-cl", "run/.lock")])
def test_two_runs_that_go_on_from_one_place(name: str, lock: str, heavy: Server, tmp_path: Path) -> None:
    work = WORKS[name]
    folder = work.prepare(tmp_path / "here")
    stopped = heavy.run(work.command(), folder, patches=work.patches, die_at=30)
    assert stopped.code == -9
    before = contents(folder)
    with (folder / lock).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ended = heavy.run(work.command(again=True), folder, patches=work.patches)
    assert ended.code == 5, ended.err
    assert "another run is writing it" in ended.error
    assert contents(folder) == before
    assert heavy.run(work.command(again=True), folder, patches=work.patches).code == 0
    shutil.rmtree(folder)

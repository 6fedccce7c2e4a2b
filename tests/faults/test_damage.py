"""Files that were cut off or changed are used or refused in a line: no traceback, no crash, no flood of memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.faults.damage import KINDS, damage, template
from tests.faults.processes import Ended, Server, contents

MEMORY = 64 << 20  # what --memory grants, beyond what the same command needs on sound files
AT_ONCE = 20  # runs of one process
SEEDS = st.integers(0, 2**64)  # of bytes drawn evenly: Hypothesis itself prefers the first ones
QUICK = {"derandomize": True, "deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
LIGHT = [name for name, kind in KINDS.items() if not kind.heavy]


@pytest.fixture
def server(name: str, request: pytest.FixtureRequest) -> Server:
    return request.getfixturevalue("heavy" if KINDS[name].heavy else "light")


def check_end(name: str, ended: Ended, folder: Path) -> None:
    assert ended.code in (0, 2, 3, 4, 5), (ended.code, ended.err)
    ended.check_manners()
    if ended.code and "verify" not in KINDS[name].arguments:  # which says what it checked before it fails
        assert ended.out == ""
    elif KINDS[name].arguments.startswith("select"):
        assert len(set(ended.out.splitlines())) == len(ended.out.splitlines()) == 20
    assert not [left for left in contents(folder) if left.endswith((".tmp", "lock"))]


def check_damaged(name: str, seed: int, server: Server, where: Path) -> None:
    """Run the kind's command on files damaged in so many ways, in one process."""
    kind, sound = KINDS[name], template(name, server)
    data = (sound / kind.path).read_bytes()
    folders = [where / str(k) / "here" for k in range(AT_ONCE)]
    for k, folder in enumerate(folders):
        shutil.copytree(sound, folder, symlinks=True)
        if k:  # the first is sound, and its needs are what others are held to
            (folder / kind.path).write_bytes(damage(data, seed + k))
    ends, opened = server.run_many([(folder, kind.command()) for folder in folders], kind.patches)
    assert ends[0].code == 0, ends[0].err
    for k, (ended, folder) in enumerate(zip(ends, folders, strict=False)):
        try:
            check_end(name, ended, folder)
        except AssertionError as problem:
            raise AssertionError(f"{name}, damage {seed + k}: {problem}") from problem
    assert len(ends) == AT_ONCE, f"{name}, damage {seed + len(ends) - 1}: {ends[-1]}"
    assert max(opened) == opened[0], f"{name}, damage {seed}: files stay open: {opened}"
    assert ends[0].peak <= needs(name, server, where) + MEMORY
    shutil.rmtree(where)


_NEEDS: dict[str, int] = {}


def needs(name: str, server: Server, where: Path) -> int:
    """Return the memory that the command takes on the undamaged file."""
    if name not in _NEEDS:
        folder = where / "sound" / "here"
        shutil.copytree(template(name, server), folder, symlinks=True)
        _NEEDS[name] = server.run(KINDS[name].command(), folder, patches=KINDS[name].patches).peak
    return _NEEDS[name]


@pytest.mark.parametrize("name", LIGHT)
def test_damage(name: str, server: Server, tmp_path: Path) -> None:
    check_damaged(name, 1000 * LIGHT.index(name), server, tmp_path / "some")


@pytest.mark.parametrize("name", ["manifest", "run: checkpoint"])
def test_some_damage(name: str, server: Server, tmp_path: Path) -> None:
    check_damaged(name, 0, server, tmp_path / "some")


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_much_damage(name: str, server: Server, tmp_path: Path) -> None:
    @settings(max_examples=6 if KINDS[name].heavy else 25, **QUICK)  # type: ignore[arg-type]
    @given(seed=SEEDS)
    def many(seed: int) -> None:
        check_damaged(name, seed, server, tmp_path / "much")

    many()

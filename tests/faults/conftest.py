"""Servers for all tests of a session, started when the first one asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.processes import Server
from tests.faults.trials import Trial
from tests.faults.works import WORKS


@pytest.fixture(scope="session")
def light() -> Iterator[Server]:
    """A server of the commands that have no use for torch."""
    found = Server("compare", "fit", "merge", "select", "stream.command")
    yield found
    found.close()


@pytest.fixture(scope="session")
def heavy() -> Iterator[Server]:
    """A server of the commands that train or run a network."""
    found = Server("extract.command", "train_cl.command", "train_cl.compare")
    yield found
    found.close()


@pytest.fixture
def trial(request: pytest.FixtureRequest, tmp_path: Path) -> Trial:
    """The trial of the work that the test names."""
    work = WORKS[request.param]
    return Trial(work, request.getfixturevalue("heavy" if work.heavy else "light"), tmp_path)

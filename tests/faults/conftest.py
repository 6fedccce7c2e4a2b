"""Servers for all tests of a session, started when the first one asks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.processes import Server


@pytest.fixture(scope="session")
def light() -> Iterator[Server]:
    """A server of the commands that have no use for torch."""
    found = Server("compare", "fit", "merge", "select", "stream")
    yield found
    found.close()


@pytest.fixture(scope="session")
def heavy() -> Iterator[Server]:
    """A server of the commands that train or run a network."""
    found = Server("extract", "train_cl", "train_cl_compare")
    yield found
    found.close()

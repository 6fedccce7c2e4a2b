"""A lock is held by one at a time, is gone with its holder, and what a dead one left blocks nobody."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdac_cli.errors import StorageError
from pdac_cli.storage.locks import exclusive


def test_one_at_a_time(tmp_path: Path) -> None:
    lock, what = tmp_path / ".lock", tmp_path / "s.h5"
    with exclusive(lock, what):
        with pytest.raises(StorageError, match=r"s.h5: another run is writing it"), exclusive(lock, what):
            pass
        assert lock.exists()  # whoever was refused has not removed it
    assert list(tmp_path.iterdir()) == []
    lock.touch()
    with exclusive(lock, what):
        pass
    assert list(tmp_path.iterdir()) == []


def test_no_folder_to_lock_in(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no such folder"), exclusive(tmp_path / "no" / ".lock", tmp_path / "no"):
        pass

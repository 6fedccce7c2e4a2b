"""A folder of results: new, empty, or to be written over."""

from __future__ import annotations

from pathlib import Path

from pdac_cli.errors import StorageError
from pdac_cli.storage.atomic import storage_errors


def new_folder(path: Path, force: bool) -> None:
    """Make the folder before long work; refuse one that holds anything unless its files may be replaced."""
    with storage_errors(path):
        if path.exists() and not path.is_dir():
            raise StorageError(f"{path}: is a file; expected the path of a folder; choose another --output")
        if path.is_dir() and any(path.iterdir()) and not force:
            raise StorageError(f"{path}: exists; expected a new folder; add --force to replace its files")
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".probe.tmp"
        probe.touch()  # only trying tells whether files can be written
        probe.unlink()

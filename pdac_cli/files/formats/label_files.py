"""Files that hold the labels of rows whose features are elsewhere: text, arrays, or any container of named arrays."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pdac_cli.errors import DataError
from pdac_cli.files.formats.containers import Container, open_array_file, open_container
from pdac_cli.files.formats.ids import IdColumn, fits_ids
from pdac_cli.files.formats.keys import LABEL_NAMES, find_ids
from pdac_cli.files.formats.label_texts import SEPARATORS, read_texts_file
from pdac_cli.files.formats.labels import read_names
from pdac_cli.files.formats.row_arrays import RowArray
from pdac_cli.storage.reading import check_readable, quote

_EXPECTED = "labels (.npy, .npz, .csv, .txt, HDF5)"


@dataclass(frozen=True)
class LabelFile:
    """An open file of labels."""

    path: Path
    key: str  # what the labels are called in it
    labels: RowArray  # (n,)
    ids: IdColumn | None
    ids_key: str
    names: tuple[str, ...] | None  # that it gives to its classes
    files: tuple[Path, ...]

    @property
    def rows(self) -> int:
        """How many labels there are."""
        return self.labels.shape[0] if self.labels.shape else 0


def open_label_file(text: str, stack: ExitStack) -> LabelFile:
    """Open what ``FILE`` or ``FILE:KEY`` names."""
    path, key = _parted(text)
    if not os.path.isdir(path):  # noqa: PTH112 (see open_container)
        check_readable(path, _EXPECTED)
    if path.suffix in SEPARATORS:
        found = read_texts_file(path, key)
        ids = None if found.ids is None else IdColumn(found.ids, path, found.ids_key)
        return LabelFile(path, found.key, found.labels, ids, found.ids_key, None, (path,))
    if path.suffix == ".npy":
        if key is not None:
            raise DataError(f"{path}: a .npy file holds one array without a name; expected no {quote(key)} after it")
        return LabelFile(path, path.name, open_array_file(path), None, "", None, (path,))
    container = open_container(path, allow_external=False)
    stack.callback(container.close)
    return _inside(container, key)


def _inside(container: Container, key: str | None) -> LabelFile:
    names, path = container.names(), container.path
    if key is None:
        known = [name for name in LABEL_NAMES if name in names]
        if not known:
            raise DataError(
                f"{path}: has no array called {', '.join(LABEL_NAMES)}; expected one; name it with "
                f"--labels {path}:NAME: the file holds {container.describe()}"
            )
        key = known[0]
    labels = container.get(key)
    rows = labels.shape[0] if labels.shape else 0
    ids, ids_key = None, find_ids(names) or ""
    if ids_key not in ("", key):
        array = container.get(ids_key)
        ids = IdColumn(array, path, ids_key) if fits_ids(array, rows) else None
    given = read_names(container.get("label_names"), path, "label_names") if "label_names" in names else None
    return LabelFile(path, key, labels, ids, ids_key, given, tuple(container.files()))


def _parted(text: str) -> tuple[Path, str | None]:
    """A path and, after the last colon, a name in it; a path that is there may hold colons itself."""
    path, colon, key = text.rpartition(":")
    if not colon or Path(text).exists():
        return Path(text), None
    return Path(path), key

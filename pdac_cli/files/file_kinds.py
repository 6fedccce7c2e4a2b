"""What a data file is for: whether it holds images or features, and whether it tells train from test rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdac_cli.errors import DataError
from pdac_cli.files.formats.containers import open_container
from pdac_cli.files.formats.images import IMAGE_NAMES
from pdac_cli.files.formats.labels import LabelColumn

_SPLIT = "split"
_TEST_VALUES = ((1,), ("test",))  # of numbers, of names


def holds_images(path: Path) -> bool:
    """Return whether the file has an array of images: by its name, and by its dimensions."""
    container = open_container(path, allow_external=False)
    try:
        names = container.names()
        return any(name in names and len(container.get(name).shape) > 2 for name in IMAGE_NAMES)
    finally:
        container.close()


def rows_to_test(path: Path, rows: int | None = None) -> NDArray[np.bool_] | None:
    """Return which rows are for testing, (n,), or None where the file does not say."""
    container = open_container(path, allow_external=False)
    try:
        if _SPLIT not in container.names():
            return None
        column = LabelColumn(container.get(_SPLIT), container.path, _SPLIT, 0)
        if rows is not None and column.rows != rows:
            raise DataError(f"{path}: 'split' has {column.rows:,} rows, 'features' has {rows:,}; expected as many")
        found: NDArray[np.bool_] = np.isin(column.read(0, column.rows), _TEST_VALUES[int(column.text)])
        return found
    finally:
        container.close()

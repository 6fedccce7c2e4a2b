"""How much there is to learn from: looked up in the files that are there, else as the definition says."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pdac_cli.commands.experiment.definition import DataSet
from pdac_cli.commands.experiment.plan import FEATURES, Unit
from pdac_cli.errors import DataError, UsageError
from pdac_cli.options.extract import SCHEMES
from pdac_cli.options.shared import InputOptions

ASSUMED = "?"  # in place of a path that was not given

_TRAIN_SHARE = 0.8  # of rows, where none are set apart for testing


@dataclass(frozen=True)
class Size:
    """What a run learns from."""

    rows: int
    shape: tuple[int, ...]  # of a row: (D,) features or (channels, height, width)

    @property
    def is_images(self) -> bool:
        """Whether a network learns from them, and not a head on features."""
        return len(self.shape) > 1


def check_present(units: Iterable[Unit]) -> None:
    """Refuse paths that are not there, of any data set, before anything runs."""
    for path in dict.fromkeys(path for unit in units for path in (unit.path, unit.test)):
        if path is None or path in ("", ASSUMED):
            continue
        name = _folder(path) or path
        if not os.path.lexists(name) and not (glob.has_magic(name) and glob.glob(name, recursive=True)):  # noqa: PTH207
            raise DataError(f"{name}: not found; expected the data of this experiment; check the path")


def size_of(unit: Unit, data: DataSet, where: str) -> Size:
    """Return how much a run learns from: of the file, where it is there, else as it was declared."""
    path = Path(unit.path)
    if unit.path != ASSUMED and _folder(unit.path) is None and not path.is_dir():
        from pdac_cli.files.file_kinds import holds_images

        images = path.is_file() and path.suffix != ".npy" and holds_images(path)
        return _image_size(path, unit.test) if images else _feature_size(unit.path, unit.test)
    if data.rows is None:
        raise UsageError(
            f"{where}: has no rows, and its time cannot be estimated; expected rows (of a class), and pixels of "
            "images; add them, or say where a file is by --data"
        )
    side = data.pixels
    return Size(data.classes * data.rows, (FEATURES,) if side is None else (3, side, side))


def _image_size(path: Path, test: str | None) -> Size:
    from pdac_cli.files.file_kinds import rows_to_test
    from pdac_cli.files.formats.images import open_images

    with open_images(path, None) as found:
        n, sides = int(found.shape[0]), found.shape[1:]
    set_apart = rows_to_test(path)
    rows = n if test is not None else n * _TRAIN_SHARE if set_apart is None else int((~set_apart).sum())
    return Size(int(rows), (3, int(max(sides)), int(max(sides))))


def _feature_size(path: str, test: str | None) -> Size:
    from pdac_cli.files.features import open_features

    with open_features(InputOptions(paths=(path,))) as source:
        return Size(int(source.n if test is not None else source.n * _TRAIN_SHARE), (source.n_features,))


def _folder(path: str) -> str | None:
    """Return the folder of a data set that is named by its scheme, None of any other path."""
    scheme, colon, folder = path.partition(":")
    return (folder or ".") if colon and scheme in SCHEMES else None

"""What a path holds, by its content: features, images, a model, an index, a run folder and so on."""

from __future__ import annotations

import json
import re
import zipfile
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import h5py

from pdac_cli.errors import DataError
from pdac_cli.files.file_kinds import holds_images
from pdac_cli.files.formats.attributes import read_attribute
from pdac_cli.files.formats.containers import companions, open_container
from pdac_cli.files.formats.folders import is_folder_of_features
from pdac_cli.files.formats.hdf5 import open_hdf5
from pdac_cli.files.formats.images import IMAGE_NAMES
from pdac_cli.files.formats.keys import FEATURE_NAMES
from pdac_cli.files.formats.row_arrays import open_npy
from pdac_cli.files.index import index_schema
from pdac_cli.files.results import model, runs, state, trace
from pdac_cli.storage.reading import LIBRARY_ERRORS, check_readable, reading

_START = 4096  # bytes looked at first
_MANIFEST = "manifest.json"


class FileKind(StrEnum):
    """What a file or folder is."""

    FEATURES = "features"
    IMAGES = "images"
    MODEL = "model"
    STATE = "state of a stream"
    INDEX = "index"
    ROWS = "row numbers"
    TRACE = "trace of a stream"
    RUN = "run of train-cl"
    EXPERIMENT = "experiment"
    PARTS = "parts of an extraction"
    CHECKPOINT = "checkpoint of a network"


_HDF5_FORMATS = {model.FORMAT: FileKind.MODEL, state.FORMAT: FileKind.STATE, index_schema.FORMAT: FileKind.INDEX}
_OURS = "an index, a model, a state, features, images or a run folder"


def kind_of(path: Path) -> FileKind:
    """Return what a path holds; what nothing else claims is taken for features, whose reader knows its formats."""
    if path.is_dir():
        return _kind_of_folder(path)
    check_readable(path, _OURS)
    with reading(path, "the file"), path.open("rb") as stream:
        start = stream.read(_START)
    if start[:6] == b"\x93NUMPY":
        return _kind_of_array(path)
    if start[:2] == b"PK":
        return _kind_of_archive(path)
    if start[:8] == b"\x89HDF\r\n\x1a\n" or path.suffix in (".h5", ".hdf5") or _is_hdf5(path):
        return _kind_of_hdf5(path)
    if start.lstrip()[:1] == b"{":
        return _kind_of_json(path)
    if start.startswith((",".join(trace.COLUMNS[:3]) + ",").encode()):
        return FileKind.TRACE
    if re.match(rb"\s*-?\d+(\t\d+)?\s*(\n|$)", start):
        return FileKind.ROWS
    if path.suffix in (".pt", ".pth", ".safetensors"):
        return FileKind.CHECKPOINT
    return FileKind.FEATURES


def _kind_of_folder(path: Path) -> FileKind:
    if (path / runs.CONFIG).exists():
        return FileKind.RUN
    if (path / _MANIFEST).exists():
        return FileKind.PARTS
    if any(_is_cell(found) for found in sorted(path.glob("*.json"))):
        return FileKind.EXPERIMENT
    if is_folder_of_features(path):
        return FileKind.FEATURES
    raise DataError(f"{path}: is a folder that pdac did not make; expected {_OURS}; name a file inside")


def _is_cell(path: Path) -> bool:
    """Whether a file says what a run of an experiment is."""
    with suppress(DataError, OSError):
        found = runs.read_json(path)
        return isinstance(found.get("cell"), dict) or isinstance(found.get("cells"), list)
    return False


def _kind_of_array(path: Path) -> FileKind:
    array = open_npy(path)
    alone = not any(beside.is_file() for beside in companions(path, "labels"))
    pairs = len(array.shape) == 2 and array.shape[1] == 2 and alone
    is_rows = array.dtype.kind in "iu" and (len(array.shape) == 1 or pairs)
    return FileKind.ROWS if is_rows else FileKind.FEATURES


def _kind_of_archive(path: Path) -> FileKind:
    with suppress(*LIBRARY_ERRORS), zipfile.ZipFile(path) as archive:
        if any(name.endswith("/data.pkl") for name in archive.namelist()):
            return FileKind.CHECKPOINT
    return _kind_of_arrays(path)


def _kind_of_hdf5(path: Path) -> FileKind:
    with open_hdf5(path) as file:
        found = read_attribute(file, "format")
    kind = _HDF5_FORMATS.get(str(found))
    return kind or _kind_of_arrays(path)


def _kind_of_arrays(path: Path) -> FileKind:
    """Features may have their images beside them; images that are called x are no features."""
    if not holds_images(path):
        return FileKind.FEATURES
    container = open_container(path, allow_external=False)
    try:
        return (
            FileKind.FEATURES if (set(FEATURE_NAMES) - set(IMAGE_NAMES)) & set(container.names()) else FileKind.IMAGES
        )
    finally:
        container.close()


def _kind_of_json(path: Path) -> FileKind:
    with reading(path, "the file"), path.open("rb") as stream:
        head = stream.read(1 << 16)
    found = re.search(rb'"format"\s*:\s*("[^"]*")', head)
    try:
        name = str(json.loads(found[1])) if found else ""
    except ValueError:  # not UTF-8, or an escape that there is not
        name = ""
    if name == index_schema.FORMAT or path.suffix == ".json":
        return FileKind.INDEX
    raise DataError(f"{path}: is a JSON file that pdac did not write; expected {_OURS}; check the path")


def _is_hdf5(path: Path) -> bool:
    with suppress(*LIBRARY_ERRORS):
        return bool(h5py.is_hdf5(path))
    return False

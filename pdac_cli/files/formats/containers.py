"""Feature files of three kinds behind one face: the names of the arrays they hold, and the arrays."""

from __future__ import annotations

import os
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import h5py

from pdac_cli.errors import DataError
from pdac_cli.files.formats.hdf5 import describe_datasets, list_datasets, open_hdf5
from pdac_cli.files.formats.hdf5_datasets import get_dataset, other_files
from pdac_cli.files.formats.row_arrays import Hdf5Array, RowArray, open_member, open_npy
from pdac_cli.storage.reading import LIBRARY_ERRORS, check_readable, plain, quote, reading, shape_text

_MAX_LISTED = 12


class Container(Protocol):
    """An open file with named arrays."""

    path: Path

    def files(self) -> list[Path]:
        """Every file that the arrays got so far are read from: it must not change, nor be written to."""

    def names(self) -> list[str]:
        """Paths of the arrays inside, such as ``train/features``."""

    def describe(self) -> str:
        """What it holds, for messages."""

    def get(self, key: str) -> RowArray:
        """The array of that name."""

    def close(self) -> None:
        """Let go of the file."""


class Hdf5Container:
    """An HDF5 file."""

    def __init__(self, path: Path, allow_external: bool, memory: int | None = None) -> None:
        self.path, self._external, self._memory, self._file = path, allow_external, memory, open_hdf5(path)
        self._others: dict[Path, None] = {}

    @property
    def file(self) -> h5py.File:
        """What h5py opened."""
        return self._file

    def files(self) -> list[Path]:
        """The file itself and, where that is allowed, those it refers to."""
        return [self.path, *self._others]

    def names(self) -> list[str]:
        """Paths of the datasets and of links at the root."""
        return list_datasets(self._file)

    def describe(self) -> str:
        """What it holds, for messages."""
        return describe_datasets(self._file)

    def get(self, key: str) -> RowArray:
        """The dataset of that name."""
        dataset = get_dataset(self._file, key, self._external, self._memory)
        if self._external:
            self._others |= dict.fromkeys(other_files(dataset, self._file, key))
        return Hdf5Array(dataset, self.path, key)

    def close(self) -> None:
        """Let go of the file and its lock."""
        self._file.close()


class NpzContainer:
    """An ``.npz`` archive, whose member ``features.npy`` is called ``features``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with reading(path, "the archive"):
                self._archive = zipfile.ZipFile(path)
        except DataError as problem:
            raise DataError(
                f"{path}: is not a complete .npz archive ({plain(problem.__cause__ or problem)}); expected one; "
                "write or copy it again"
            ) from problem.__cause__

    def files(self) -> list[Path]:
        """The file itself."""
        return [self.path]

    def names(self) -> list[str]:
        """Names of the members."""
        return [name.removesuffix(".npy") for name in self._archive.namelist()]

    def describe(self) -> str:
        """What it holds, for messages."""
        parts = []
        for name in self.names()[:_MAX_LISTED]:
            shape = ""
            with suppress(DataError):
                shape = f" {shape_text(self.get(name).shape)}"
            parts.append(quote(name) + shape)
        return ", ".join(parts) or "no arrays"

    def get(self, key: str) -> RowArray:
        """The array of that name."""
        if key not in self.names():
            raise DataError(
                f"{self.path}: has no array {quote(key)}; expected one of those it holds: {self.describe()}; "
                "name it with --features-key or --labels-key"
            )
        member = f"{key}.npy" if f"{key}.npy" in self._archive.namelist() else key
        return open_member(self._archive, member, self.path)

    def close(self) -> None:
        """Let go of the file."""
        self._archive.close()


class NpyContainer:
    """``feats.npy`` with ``feats.labels.npy``, ``feats_labels.npy`` or ``labels.npy`` beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = {"features": path}
        for name in ("labels", "logits", "ids"):
            beside = [companion for companion in companions(path, name) if companion.is_file()]
            if beside:
                self._files[name] = beside[0]

    def files(self) -> list[Path]:
        """The features' file and those beside it."""
        return list(self._files.values())

    def names(self) -> list[str]:
        """``features`` and whatever lies beside it."""
        return list(self._files)

    def describe(self) -> str:
        """What it holds, for messages."""
        expected = ", ".join(str(companion.name) for companion in companions(self.path, "labels"))
        return f"one array; beside it are looked for {expected}"

    def get(self, key: str) -> RowArray:
        """The array of that name, from its own file."""
        if key not in self._files:
            raise DataError(
                f"{self.path}: has no array {quote(key)}; expected {', '.join(map(quote, self._files))}; "
                "a .npy file holds one array without a name"
            )
        return open_array_file(self._files[key])

    def close(self) -> None:
        """Nothing is held open."""


def companions(path: Path, name: str) -> tuple[Path, ...]:
    """Where the labels (or logits, ids) of ``path`` may lie, in the order they are looked for."""
    stem = path.name.removesuffix(".npy")
    return tuple(path.with_name(n) for n in (f"{stem}.{name}.npy", f"{stem}_{name}.npy", f"{name}.npy"))


def open_array_file(path: Path) -> RowArray:
    """A single ``.npy`` file."""
    check_readable(path, "a .npy file")
    return open_npy(path)


def open_container(path: Path, allow_external: bool, memory: int | None = None) -> Container:
    """Open a feature file, or a folder of them, by what is in it, whatever its name ends in."""
    if os.path.isdir(path):  # noqa: PTH112 (that of a Path raises where a name is too long)
        from pdac_cli.files.formats.folders import is_folder_of_features, open_folder

        if is_folder_of_features(path):
            return open_folder(path)
    check_readable(path, "a feature file: HDF5, .npz, .npy, Parquet, safetensors, .pt or .h5ad")
    with reading(path, "the file"), path.open("rb") as stream:
        magic = stream.read(9)
    if magic[:6] == b"\x93NUMPY":
        return NpyContainer(path)
    if magic[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _open_archive(path)
    if magic[:4] == b"PAR1" or magic[:6] == b"ARROW1":
        from pdac_cli.files.formats.parquet_files import open_parquet

        return open_parquet(path)
    if path.suffix == ".safetensors" or (magic[8:] == b"{" and magic[:4] != b"\x89HDF"):
        from pdac_cli.files.formats.safetensors_files import open_safetensors

        return open_safetensors(path)
    if path.suffix in (".pt", ".pth", ".bin") and magic[:1] == b"\x80":
        raise DataError(
            f"{path}: is in the form that torch.save had before version 1.6; expected an archive; save it again"
        )
    found = False
    with suppress(*LIBRARY_ERRORS):
        found = bool(h5py.is_hdf5(path))
    if not found and path.suffix not in (".h5", ".hdf5"):
        raise DataError(
            f"{path}: is not an HDF5, .npz, .npy, Parquet, Arrow, safetensors or torch file; expected one; check the "
            "path; raw numbers need --shape"
        )
    opened = Hdf5Container(path, allow_external, memory)
    if path.suffix == ".h5ad" or "encoding-type" in _marks(opened.file):
        from pdac_cli.files.formats.anndata_files import is_anndata, open_anndata

        if is_anndata(path, opened.file):
            return open_anndata(opened)
    return opened


def _marks(file: h5py.File) -> list[str]:
    """Names of the attributes at the root."""
    with suppress(*LIBRARY_ERRORS):
        return [str(name) for name in file.attrs]
    return []


def _open_archive(path: Path) -> Container:
    """An archive of ``.npy`` members, or of torch's."""
    archive = NpzContainer(path)
    if any(name.endswith("/data.pkl") for name in archive.names()):
        from pdac_cli.files.formats.torch_files import open_torch

        archive.close()
        return open_torch(path)
    return archive

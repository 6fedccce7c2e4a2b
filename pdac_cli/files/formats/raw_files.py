"""Raw numbers without a header, such as ``numpy.memmap`` writes: the user says their shape and type."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdac_cli.errors import DataError
from pdac_cli.files.formats.named_arrays import NamedArrays
from pdac_cli.files.formats.row_arrays import FileArray, Header
from pdac_cli.storage.reading import check_readable


def open_raw(path: Path, rows: int, columns: int, kind: str) -> NamedArrays:
    """The numbers of a file as ``features`` (rows, columns); 0 rows: as many as the file has."""
    check_readable(path, "numbers without a header, for --shape")
    dtype, size = np.dtype(kind), path.stat().st_size
    row = columns * dtype.itemsize
    with path.open("rb") as stream:
        magic = stream.read(8)
    if magic.startswith((b"\x93NUMPY", b"\x89HDF", b"PK\x03\x04", b"PAR1", b"ARROW1")):
        raise DataError(f"{path}: has a header of its own; expected raw numbers for --shape; leave it out")
    found = rows or size // row
    if found * row != size:
        raise DataError(
            f"{path}: has {size:,} bytes, and {found:,} x {columns:,} {kind} are {found * row:,}; "
            "expected as many; check the shape and the type in --shape, such as 1000x512:float16"
        )
    header = Header.of((found, columns), dtype)
    return NamedArrays(path, [path], {"features": lambda: FileArray(path, header, 0)})

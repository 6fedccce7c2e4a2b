"""Feature files that cannot be used: how each is made, the error, and what its message must say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from pdac_cli.errors import DataError, PdacError

H = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
Y = np.arange(50) % 5


def put(path: Path, h: Any = H, y: Any = Y, **more: Any) -> None:
    with h5py.File(path, "w") as file:
        for name, values in {"features": h, "labels": y, **more}.items():
            if values is not None:
                file[name] = values


def with_value(array: np.ndarray, row: int, value: float) -> np.ndarray:
    out = array.astype(np.float64) if array.ndim == 1 else array.copy()
    out[row] = value
    return out


def truncated(path: Path) -> None:
    put(path, np.zeros((1000, 32)), np.zeros(1000, int))
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def killed(path: Path, libver: str, flush: bool) -> None:
    script = (
        f"import h5py, os\nf = h5py.File({str(path)!r}, 'w', libver={libver!r})\nf['features'] = [[1.0]] * 9999\n"
        f"{'f.flush()' if flush else ''}\nos._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script], check=False)


def dataset(path: Path, create: Callable[[h5py.File], object], y: Any = Y) -> None:
    with h5py.File(path, "w") as file:
        create(file)
        file["labels"] = y


def virtual(file: h5py.File, source: str, name: str = "x", rows: int = 50) -> None:
    layout = h5py.VirtualLayout((50, 4), np.float32)
    layout[:rows] = h5py.VirtualSource(source, name, (rows, 4))
    file.create_virtual_dataset("features", layout)


def small_source(path: Path) -> None:
    with h5py.File(path.with_name("part.h5"), "w") as file:
        file["x"] = H[:10]
    dataset(path, lambda file: virtual(file, "part.h5"))


def foreign_filter(path: Path) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_chunk((10, 4))
    plist.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
    space = h5py.h5s.create_simple((50, 4))
    dataset(path, lambda file: h5py.h5d.create(file.id, b"features", h5py.h5t.NATIVE_FLOAT, space, plist))


def external_link(path: Path) -> None:
    put(path.with_name("other.h5"))
    dataset(path, lambda file: file.__setitem__("features", h5py.ExternalLink("other.h5", "features")))


def soft_to_external(path: Path) -> None:
    put(path.with_name("other.h5"))

    def create(file: h5py.File) -> None:
        file["away"] = h5py.ExternalLink("other.h5", "/")
        file["features"] = h5py.SoftLink("/away/features")

    dataset(path, create)


def vlen(file: h5py.File, name: str) -> None:
    file.create_dataset(name, (50,), h5py.vlen_dtype(np.int32))


def two_groups(path: Path) -> None:
    put(path, None, None, **{"train/features": H, "train/labels": Y, "test/features": H, "test/labels": Y})


def huge_chunks(path: Path) -> None:
    options = {"chunks": (2**20, 512), "compression": "gzip"}
    with h5py.File(path, "w") as file:
        file.create_dataset("features", (10**9, 512), "f4", **options)
        file.create_dataset("labels", (10**9,), "i8", chunks=(1000,))


def damaged_chunk(path: Path) -> None:
    with h5py.File(path, "w") as file:
        d = file.create_dataset("features", data=H, chunks=(10, 4), compression="gzip")
        offset, size = d.id.get_chunk_info(3).byte_offset, d.id.get_chunk_info(3).size
        file["labels"] = Y
    data = bytearray(path.read_bytes())
    data[offset : offset + size] = bytes(size)
    path.write_bytes(data)


def npz(path: Path, cut: int = 0, **arrays: Any) -> None:
    with path.open("wb") as stream:
        np.savez_compressed(stream, **arrays)
    path.write_bytes(path.read_bytes()[: path.stat().st_size - cut])


# name: (how the file is made, the error, what the message must say)
FILES: dict[str, tuple[Callable[[Path], object], type[PdacError], str]] = {
    "missing": (lambda p: None, DataError, "not found"),
    "folder": (lambda p: p.mkdir(), DataError, "is a folder"),
    "pipe": (lambda p: os.mkfifo(p), DataError, "not a regular file"),
    "empty": (lambda p: p.touch(), DataError, "is empty"),
    "text": (lambda p: p.write_text("hello"), DataError, "not an HDF5 file"),
    "superblock": (lambda p: (put(p), p.write_bytes(p.read_bytes()[:40])), DataError, "f.h5: .*expected"),
    "truncated": (truncated, DataError, "expected 266,048 bytes, has 133,024"),
    "killed": (lambda p: killed(p, "latest", True), DataError, "incomplete; .*that wrote it again"),
    "killed early": (lambda p: killed(p, "earliest", False), DataError, "incomplete; .*that wrote it again"),
    "no features": (lambda p: put(p, None, foo=H), DataError, r"no features.*--features-key.*'foo' \(50, 4\)"),
    "no labels": (lambda p: put(p, y=None), DataError, "no labels beside 'features'.*--labels-key"),
    "nothing": (lambda p: put(p, None, None), DataError, "no datasets"),
    "group": (lambda p: put(p, None, **{"features/a": H}), DataError, "no features.*'features/a'"),
    "two groups": (two_groups, DataError, "several groups, 'test/features', 'train/features'.*--features-key"),
    "dangling": (lambda p: put(p, h5py.SoftLink("/nothing")), DataError, "'features' is a link to nothing"),
    "circle": (lambda p: put(p, h5py.SoftLink("/features")), DataError, "circle"),
    "external link": (external_link, DataError, "another file, 'other.h5'.*--allow-external"),
    "soft to external": (soft_to_external, DataError, "another file, 'other.h5'.*--allow-external"),
    "external storage": (
        lambda p: dataset(p, lambda f: f.create_dataset("features", (5, 2), "u1", external=[("/etc/passwd", 0, 10)])),
        DataError, "another file, '/etc/passwd'.*--allow-external",
    ),
    "virtual": (lambda p: dataset(p, lambda f: virtual(f, "part.h5")), DataError, "another file, 'part.h5'"),
    "virtual self": (lambda p: dataset(p, lambda f: virtual(f, ".")), DataError, "has no dataset 'x'"),
    "virtual gap": (
        lambda p: dataset(p, lambda f: (f.__setitem__("x", H), virtual(f, ".", rows=20))),
        DataError, "sources for 80 of its 200 values",
    ),
    "filter": (foreign_filter, DataError, "'zstd'.*pip install hdf5plugin"),
    "huge chunks": (huge_chunks, DataError, "chunks of 2.15 GB"),
    "damaged chunk": (damaged_chunk, DataError, "'features' from row 28 to 35 cannot be read"),
    "vlen": (lambda p: dataset(p, lambda f: vlen(f, "features")), DataError, "'features' is of variable length"),
    "strings": (lambda p: put(p, np.full((50, 4), b"x")), DataError, r"'features' is of type \|S1"),
    "compound": (lambda p: put(p, np.zeros(50, "i4,f4")), DataError, "'features' is of type"),
    "null": (lambda p: put(p, h5py.Empty("f4")), DataError, "null dataspace"),
    "complex": (lambda p: put(p, H.astype(complex)), DataError, "complex"),
    "scalar": (lambda p: put(p, 3.0), DataError, "0 dimensions"),
    "1-D": (lambda p: put(p, H[:, 0]), DataError, r"1 dimensions \(50\); expected two"),
    "3-D": (lambda p: put(p, H.reshape(50, 2, 2)), DataError, r"3 dimensions \(50, 2, 2\).*flatten"),
    "N=0": (lambda p: put(p, H[:0], Y[:0]), DataError, "no rows"),
    "D=0": (lambda p: put(p, H[:, :0]), DataError, "no columns"),
    "NaN": (lambda p: put(p, with_value(H, 17, np.nan)), DataError, "row 17;.*--drop-nonfinite"),
    "infinity": (lambda p: put(p, with_value(H, 49, -np.inf)), DataError, "row 49;.*--drop-nonfinite"),
    "half infinity": (lambda p: put(p, with_value(H, 3, np.inf).astype("f2")), DataError, "row 3;"),
    "NaN logits": (lambda p: put(p, logits=with_value(H, 4, np.nan)), DataError, "'logits' .*row 4;"),
    "short labels": (
        lambda p: put(p, y=Y[:49]), DataError,
        "f.h5: 'labels' has 49 rows, 'features' has 50; expected as many; ",
    ),
    "short logits": (lambda p: put(p, logits=H[:9]), DataError, "'logits' has 9 rows, 'features' has 50"),
    "short ids": (lambda p: put(p, ids=Y[:9]), DataError, "'ids' has 9 rows, 'features' has 50"),
    "flat logits": (lambda p: put(p, logits=Y), DataError, "'logits' has shape"),
    "negative": (lambda p: put(p, y=with_value(Y, 8, -1)), DataError, r"'labels' is -1.* in row 8;.*--ignore-label"),
    "fraction": (lambda p: put(p, y=with_value(Y, 8, 0.5)), DataError, "'labels' is 0.5 in row 8;.*whole"),
    "NaN label": (lambda p: put(p, y=with_value(Y, 8, np.nan)), DataError, "'labels' is nan in row 8;"),
    "inf label": (lambda p: put(p, y=with_value(Y, 8, np.inf)), DataError, "'labels' is inf in row 8;"),
    "huge label": (lambda p: put(p, y=np.full(50, 2**63, np.uint64)), DataError, "9223372036854775808 in row 0;"),
    "one-hot": (lambda p: put(p, y=np.eye(5)[Y]), DataError, r"\(50, 5\).*one-hot.*argmax"),
    "3-D labels": (lambda p: put(p, y=Y.reshape(50, 1, 1)), DataError, "one label per row"),
    "vlen labels": (lambda p: put(p, y=None) or vlen(h5py.File(p, "r+"), "labels"), DataError, "'labels' is of var"),
    "complex labels": (lambda p: put(p, y=Y.astype(complex)), DataError, "'labels' is of type complex128"),
    "unnamed class": (lambda p: put(p, label_names=["a", "b"]), DataError, "'labels' is 2 in row 2; .*at most 1"),
    "names alike": (lambda p: put(p, label_names=["a", "a"]), DataError, "alike"),
    "names wrong": (lambda p: put(p, label_names=Y), DataError, "no list of strings"),
    "npz cut": (lambda p: npz(p, 30, features=H, labels=Y), DataError, "not a complete .npz"),
    "npz key": (lambda p: npz(p, foo=H, labels=Y), DataError, r"no features.*'foo' \(50, 4\)"),
    "npz pickle": (lambda p: npz(p, features=H, labels=np.array([None] * 50)), DataError, "pickled"),
    "npz columns": (lambda p: npz(p, features=np.asfortranarray(H), labels=Y), DataError, "column by column"),
    "npy labels": (lambda p: np.save(p.open("wb"), H), DataError, "no labels.*f.h5.labels.npy"),
    "npy cut": (
        lambda p: (np.save(p.open("wb"), H), np.save(p.with_name("labels.npy"), Y), os.truncate(p, 900)),
        DataError, "truncated: expected 928 bytes, has 900",
    ),
}  # fmt: skip

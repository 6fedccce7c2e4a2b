"""Rows a second of every format through pdac's reader, beside plain reading by the library that wrote it.

python -m tests.benchmarks.formats [--rows 200000] [--features 512] [--folder DIR]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pyarrow as pa
import safetensors.numpy
import torch
import zarr
from pyarrow import parquet

from pdac_cli.files.features import open_features
from pdac_cli.options.shared import InputOptions

CHUNK = 8192
Plain = Callable[[], Any]


def write(folder: Path, h: np.ndarray) -> dict[str, tuple[Path, dict[str, Any], Plain]]:
    """Write the rows in every format; return each path, how it is opened, and what reads it plainly."""
    n, d = h.shape
    with h5py.File(folder / "f.h5", "w") as file:
        file.create_dataset("features", data=h, chunks=(512, d))
    np.save(folder / "f.npy", h)
    h.tofile(folder / "f.bin")
    column = pa.FixedSizeListArray.from_arrays(pa.array(h.reshape(-1)), d)
    parquet.write_table(pa.table({"features": column}), folder / "f.parquet", row_group_size=20_000, compression="zstd")
    safetensors.numpy.save_file({"features": h}, folder / "f.safetensors")
    torch.save({"features": torch.from_numpy(h)}, folder / "f.pt")
    anndata.AnnData(X=h).write_h5ad(folder / "f.h5ad")
    group = zarr.open_group(str(folder / "f.zarr"), mode="w", zarr_format=3)
    group.create_array("features", shape=h.shape, dtype=h.dtype, chunks=(2048, d))[:] = h
    (folder / "d").mkdir()
    for k, part in enumerate(np.array_split(h, 10)):
        np.save(folder / "d" / f"img_emb_{k}.npy", part)

    def chunked(read: Callable[[int, int], Any]) -> None:
        for start in range(0, n, CHUNK):
            np.asarray(read(start, min(n, start + CHUNK))).copy()

    def hdf5() -> None:
        with h5py.File(folder / "f.h5") as file:
            chunked(lambda a, b: file["features"][a:b])

    def by_batches() -> None:
        for batch in parquet.ParquetFile(folder / "f.parquet").iter_batches(CHUNK):
            batch.column(0).flatten().to_numpy()

    def parts() -> None:
        for k in range(10):
            np.load(folder / "d" / f"img_emb_{k}.npy")

    mapped = {name: lambda name=name: np.memmap(folder / name, h.dtype, "r", shape=h.shape) for name in ("f.bin",)}
    return {
        "HDF5": (folder / "f.h5", {}, hdf5),
        ".npy": (folder / "f.npy", {}, lambda: chunked(lambda a, b: np.load(folder / "f.npy", mmap_mode="r")[a:b])),
        "folder of .npy": (folder / "d", {}, parts),
        "raw": (folder / "f.bin", {"shape": (0, d, "float32")}, lambda: chunked(lambda a, b: mapped["f.bin"]()[a:b])),
        "Parquet (zstd)": (folder / "f.parquet", {}, by_batches),
        "safetensors": (folder / "f.safetensors", {}, lambda: safetensors.numpy.load_file(folder / "f.safetensors")),
        "torch .pt": (folder / "f.pt", {}, lambda: torch.load(folder / "f.pt", weights_only=True)["features"].numpy()),
        "AnnData": (folder / "f.h5ad", {}, lambda: anndata.read_h5ad(folder / "f.h5ad")),
        "Zarr": (folder / "f.zarr", {}, lambda: zarr.open_group(str(folder / "f.zarr"), mode="r")["features"][:]),
    }


def seconds(work: Plain) -> float:
    """The best of three: other work on the machine only ever adds."""
    found = []
    for _ in range(3):
        begun = time.perf_counter()
        work()
        found.append(time.perf_counter() - begun)
    return min(found)


def main() -> None:
    """Print a table."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    h = np.random.default_rng(0).standard_normal((options.rows, options.features), "f4")
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        stored = write(Path(folder), h)
        print(f"{options.rows:,} x {options.features} float32, load {os.getloadavg()[0]:.1f}")
        for name, (path, how, plain) in stored.items():

            def ours(path: Path = path, how: dict[str, Any] = how) -> None:
                with open_features(InputOptions(paths=(str(path),), no_labels=True, **how)) as rows:
                    for _ in rows.chunks(CHUNK):
                        pass

            mine, theirs = options.rows / seconds(ours), options.rows / seconds(plain)
            print(f"| {name} | {mine:,.0f} | {theirs:,.0f} | {mine / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()

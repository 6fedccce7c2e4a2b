"""The same rows in every format, written by the library that people write it with."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import safetensors.numpy
import scipy.sparse
import torch
import zarr
from pyarrow import parquet

N, D = 300, 6
RNG = np.random.default_rng(1)
H = np.where(RNG.random((N, D)) < 0.5, 0, RNG.normal(size=(N, D))).astype(np.float32)
Y = np.random.default_rng(2).integers(0, 7, N)
NAMES = np.array(["cat", "Ärger", "dog", "a b", "z", "zz", "10"])
IDS = [f"img/{row} é.png" for row in range(N)]
CUTS = [0, 97, 98, N]


@dataclass(frozen=True)
class Stored:
    """How a file or folder is written, and how it is opened."""

    write: Callable[[Path], Path]
    options: dict[str, Any] = field(default_factory=dict)
    labels: bool = True  # inside
    ids: bool = True
    names: bool = False  # labels are names


def table(rows: slice = slice(None), fixed: bool = True, **more: Any) -> pa.Table:
    h = H[rows]
    flat = pa.array(h.reshape(-1))
    if fixed:
        column: Any = pa.FixedSizeListArray.from_arrays(flat, D)
    else:
        column = pa.ListArray.from_arrays(pa.array(np.arange(len(h) + 1, dtype=np.int32) * D), flat)
    return pa.table({"embeddings": column, "label": Y[rows], "path": IDS[rows], "other": Y[rows] * 0, **more})


def put_table(path: Path, made: pa.Table, **options: Any) -> Path:
    parquet.write_table(made, path, **options)
    return path


def arrow(path: Path) -> Path:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table().schema) as writer:
        for first, last in itertools.pairwise(CUTS):
            writer.write_table(table(slice(first, last)))
    return path


def parquet_folder(path: Path) -> Path:
    path.mkdir()
    for k, (first, last) in enumerate(itertools.pairwise(CUTS)):
        put_table(path / f"part-{k + 8}.parquet", table(slice(first, last)))
    return path


def clip_retrieval(path: Path, apart: bool) -> Path:
    folders = [path / name if apart else path for name in ("img_emb", "metadata")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    for k, (first, last) in enumerate(itertools.pairwise(CUTS)):
        np.save(folders[0] / f"img_emb_{k + 9}.npy", H[first:last])
        rows = pd.DataFrame({"image_path": IDS[first:last], "label": Y[first:last], "caption": ["x"] * (last - first)})
        rows.to_parquet(folders[1] / f"metadata_{k + 9}.parquet")
    return path


def npy_folder(path: Path) -> Path:
    path.mkdir()
    for k, (first, last) in enumerate(itertools.pairwise(CUTS)):
        np.save(path / f"feats_{k:04d}.npy", H[first:last])
        np.save(path / f"feats_{k:04d}.labels.npy", Y[first:last])
    return path


def h5ad(path: Path, x: Any = H, **obsm: Any) -> Path:
    obs = pd.DataFrame({"kind": pd.Categorical(NAMES[Y]), "label": Y, "more": Y + 0.5}, index=IDS)
    anndata.AnnData(X=x, obs=obs, obsm=obsm).write_h5ad(path)
    return path


def zarred(path: Path, version: int, **options: Any) -> Path:
    group = zarr.open_group(str(path), mode="w", zarr_format=version)
    for name, values in {"features": H, "labels": Y, "ids": np.char.encode(np.array(IDS), "utf-8")}.items():
        if name == "ids" and version == 3:
            continue
        made = group.create_array(
            name, shape=values.shape, dtype=values.dtype, chunks=(50, *values.shape[1:]), **options
        )
        made[:] = values
    return path


def torched(path: Path, content: Any) -> Path:
    torch.save(content, path)
    return path


def tensors(path: Path, **arrays: Any) -> Path:
    safetensors.numpy.save_file(arrays, path)
    return path


def raw(path: Path) -> Path:
    made = np.memmap(path, np.float32, "w+", shape=(N, D))
    made[:] = H
    made.flush()
    np.save(path.with_name("y.npy"), Y)
    return path


T = torch.from_numpy(H)
STORED: dict[str, Stored] = {
    "parquet": Stored(lambda p: put_table(p / "f.parquet", table(), row_group_size=70)),
    "parquet, lists": Stored(lambda p: put_table(p / "f.parquet", table(fixed=False), row_group_size=300)),
    "parquet, gzip": Stored(lambda p: put_table(p / "f.parquet", table(), compression="gzip", row_group_size=41)),
    "parquet, names": Stored(
        lambda p: put_table(p / "f.parquet", table(kind=pa.array(NAMES[Y]).dictionary_encode()), row_group_size=99),
        {"labels_key": "kind"},
        names=True,
    ),
    "parquet folder": Stored(lambda p: parquet_folder(p / "d")),
    "arrow": Stored(lambda p: arrow(p / "f.arrow")),
    "clip-retrieval": Stored(lambda p: clip_retrieval(p / "d", apart=True)),
    "laion": Stored(lambda p: clip_retrieval(p / "d", apart=False)),
    "npy folder": Stored(lambda p: npy_folder(p / "d"), ids=False),
    "memmap": Stored(lambda p: raw(p / "f.bin"), {"shape": (N, D, "float32"), "labels": "y.npy"}, ids=False),
    "memmap, rows counted": Stored(
        lambda p: raw(p / "f.dat"), {"shape": (0, D, "float32"), "labels": "y.npy"}, ids=False
    ),
    "safetensors": Stored(lambda p: tensors(p / "f.safetensors", features=H, labels=Y), ids=False),
    "torch": Stored(lambda p: torched(p / "f.pt", {"features": T, "labels": torch.from_numpy(Y), "paths": IDS})),
    "torch, nested views": Stored(
        lambda p: torched(p / "f.pth", {"train": {"X": torch.cat([T, T])[N:], "y": torch.from_numpy(Y)}}), ids=False
    ),
    "h5ad": Stored(lambda p: h5ad(p / "f.h5ad")),
    "h5ad, sparse": Stored(lambda p: h5ad(p / "f.h5ad", scipy.sparse.csr_matrix(H))),
    "h5ad, PCA and categories": Stored(
        lambda p: h5ad(p / "f.h5ad", H[:, :2] * 0, X_pca=H), {"features_key": "X_pca", "labels_key": "kind"}, names=True
    ),
    "zarr 2": Stored(lambda p: zarred(p / "f.zarr", 2)),
    "zarr 3": Stored(lambda p: zarred(p / "f.zarr", 3), ids=False),
    "zarr 3, shards": Stored(lambda p: zarr_sharded(p / "f.zarr"), ids=False),
}


def zarr_sharded(path: Path) -> Path:
    group = zarr.open_group(str(path), mode="w", zarr_format=3)
    made = group.create_array("features", shape=H.shape, dtype="f4", chunks=(50, D), shards=(150, D))
    made[:] = H
    labels = group.create_array("labels", shape=Y.shape, dtype="i8", chunks=(50,))
    labels[:] = Y
    return path

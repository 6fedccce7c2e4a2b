"""Files that people's libraries wrote are read as these libraries read them, whatever part of them is asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import h5py
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
import torch
from safetensors.torch import save_file

from pdac_cli.errors import DataError, PdacError
from pdac_cli.files.features import FeatureSet, open_features
from pdac_cli.options.shared import InputOptions
from tests.files.formats.stored import (
    IDS,
    NAMES,
    STORED,
    D,
    H,
    N,
    T,
    Y,
    h5ad,
    put_table,
    table,
    tensors,
    torched,
    zarred,
)
from tests.learning.malicious import Malicious


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that write
        yield


def opened(path: Path, options: dict[str, Any]) -> FeatureSet:
    given = dict(options)
    if "labels" in given:
        given["labels"] = str(path.parent / given["labels"])
    return open_features(InputOptions(paths=(str(path),), **given))


@pytest.fixture(scope="module", params=STORED)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return request.param, STORED[request.param].write(tmp_path_factory.mktemp("stored"))


def test_the_rows_are_those_that_were_written(stored: tuple[str, Path]) -> None:
    name, path = stored
    kind = STORED[name]
    with opened(path, kind.options) as features:
        assert (features.n, features.n_features, features.dtype) == (N, D, np.float32)
        for rows in (37, 1000):
            chunks = list(features.chunks(rows))
            np.testing.assert_array_equal(np.concatenate([chunk.h for chunk in chunks]), H)
            y = np.concatenate([chunk.y for chunk in chunks])
            found = np.array(features.label_names)[y] if kind.names else y
            np.testing.assert_array_equal(found, NAMES[Y] if kind.names else Y)
        some = np.array([299, 0, 98, 97, 98, 150, 12, 299, 96])
        np.testing.assert_array_equal(features.read_rows(some).h, H[some])
        assert features.has_ids == kind.ids
        if kind.ids:
            assert features.id_texts(some) == tuple(IDS[row] for row in some)
        features.check_unchanged()
        assert all(part.exists() for part in features.paths)


def test_the_selection_is_that_from_hdf5(stored: tuple[str, Path], pdac: Any, tmp_path: Path) -> None:
    name, path = stored
    kind = STORED[name]
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["features"], file["labels"] = H, np.char.encode(NAMES[Y], "utf-8") if kind.names else Y
    flags = [part for key, value in kind.options.items() for part in (f"--{key.replace('_', '-')}", text(path, value))]
    common = ["-n", "20", "--method", "herding", "-q"]
    assert pdac("select", path, *flags, *common).out == pdac("select", tmp_path / "f.h5", *common).out


def text(path: Path, value: Any) -> str:
    if isinstance(value, tuple):
        return f"{value[0]}x{value[1]}:{value[2]}" if value[0] else f"{value[1]}:{value[2]}"
    return str(path.parent / value) if value == "y.npy" else str(value)


def test_half_precision_of_every_kind(tmp_path: Path) -> None:
    save_file({"features": T.bfloat16(), "labels": torch.from_numpy(Y)}, tmp_path / "f.safetensors")
    torched(tmp_path / "f.pt", {"features": T.bfloat16(), "labels": torch.from_numpy(Y)})
    for name in ("f.safetensors", "f.pt"):
        with opened(tmp_path / name, {}) as features:
            np.testing.assert_array_equal(features.read_rows(np.arange(N)).h, T.bfloat16().float().numpy())
    torched(tmp_path / "g.pt", T.half())
    with opened(tmp_path / "g.pt", {"no_labels": True}) as features:
        assert features.dtype == np.float16
        np.testing.assert_array_equal(features.read_rows(np.arange(N)).h, T.half().numpy())


def test_labels_apart_in_every_format(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", H)
    for name in ("parquet", "torch", "h5ad", "zarr 3", "safetensors", "parquet folder"):
        (tmp_path / name).mkdir()
        path = STORED[name].write(tmp_path / name)
        with opened(tmp_path / "f.npy", {"labels": str(path)}) as features:
            np.testing.assert_array_equal(features.read_rows(np.arange(N)).y, Y)


def test_neither_torch_nor_pandas_is_loaded_to_read(tmp_path: Path) -> None:
    for name, never in {"torch": "torch,pyarrow,zarr", "h5ad": "anndata,pandas", "parquet": "torch,zarr"}.items():
        path = STORED[name].write(tmp_path)
        script = (
            "import sys; from pdac_cli.files.features import open_features as o; "
            "from pdac_cli.options.shared import InputOptions as I; import numpy as np; "
            f"o(I(paths=({str(path)!r},))).read_rows(np.arange(3)); "
            f"sys.exit(sum(name in sys.modules for name in {never.split(',')!r}))"
        )
        assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0, name


def changed(path: Path, old: bytes, new: bytes) -> Path:
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))
    return path


def cut(path: Path, share: float = 0.6) -> Path:
    os.truncate(path, int(path.stat().st_size * share))
    return path


def csc(path: Path) -> Path:
    return h5ad(path, scipy.sparse.csc_matrix(H))


def broken_rows(path: Path) -> Path:
    h5ad(path, scipy.sparse.csr_matrix(H))
    with h5py.File(path, "r+") as file:
        file["X/indptr"][5] = 10**9
    return path


def no_category(path: Path) -> Path:
    h5ad(path)
    with h5py.File(path, "r+") as file:
        file["obs/kind/codes"][7] = -1
    return path


def pickled(path: Path) -> Path:
    zarred(path, 2)
    meta = path / "features" / ".zarray"
    meta.write_text(meta.read_text().replace('"filters": null', '"filters": [{"id": "pickle"}]'))
    assert "pickle" in meta.read_text()
    return path


def gap(path: Path) -> Path:
    made = table()
    rows = made["label"].to_pylist()
    rows[9] = None
    return put_table(path, made.set_column(1, "label", pa.array(rows)))


def ragged(path: Path) -> Path:
    rows = [list(map(float, row)) for row in H]
    rows[40] = rows[40][:3]
    return put_table(path, pa.table({"features": rows, "label": Y}))


def different(path: Path) -> Path:
    path.mkdir()
    np.save(path / "feats_0.npy", H)
    np.save(path / "feats_1.npy", H[:, :3])
    return path


REFUSED: dict[str, tuple[Callable[[Path], Path], dict[str, Any], str]] = {
    "parquet: cut off": (lambda p: cut(put_table(p / "f.parquet", table())), {}, "the file cannot be read"),
    "parquet: a null": (lambda p: gap(p / "f.parquet"), {}, "'label' .*row 9 has no value"),
    "parquet: ragged": (lambda p: ragged(p / "f.parquet"), {}, "row 40 has 3 numbers; the first has 6"),
    "parquet: no features": (
        lambda p: put_table(p / "f.parquet", pa.table({"emb": [[1.0]]})),
        {},
        r"no features; .*'emb' \(1, 1\)",
    ),
    "parquet: dates": (
        lambda p: put_table(p / "f.parquet", pa.table({"features": pa.array([1], pa.timestamp("s"))})),
        {"no_labels": True},
        "'features' is of type timestamp",
    ),
    "arrow: cut off": (lambda p: cut(STORED["arrow"].write(p)), {}, "cannot be read"),
    "folder: widths": (lambda p: different(p / "d"), {"no_labels": True}, r"feats_1.npy: 'feats' .*one kind and width"),
    "folder: nothing": (lambda p: (p / "d", (p / "d").mkdir())[0], {}, "is a folder"),
    "memmap: size": (
        lambda p: STORED["memmap"].write(p),
        {"shape": (N, 7, "float32"), "no_labels": True},
        r"has 7,200 bytes, and 300 x 7 float32 are 8,400",
    ),
    "memmap: a header": (
        lambda p: put_table(p / "f.parquet", table()),
        {"shape": (0, 7, "float32")},
        "header of its own",
    ),
    "safetensors: cut off": (
        lambda p: cut(tensors(p / "f.safetensors", features=H)),
        {"no_labels": True},
        "copy it again",
    ),
    "safetensors: a lie": (
        lambda p: changed(tensors(p / "f.safetensors", features=H), b"[300,6]", b"[900,6]"),
        {"no_labels": True},
        "'features' needs 21,600 bytes",
    ),
    "safetensors: no header": (
        lambda p: (p / "f.safetensors", (p / "f.safetensors").write_bytes(b"x" * 99))[0],
        {},
        "no complete safetensors file",
    ),
    "torch: cut off": (lambda p: cut(torched(p / "f.pt", {"features": T})), {}, "not a complete|no complete"),
    "torch: transposed": (
        lambda p: torched(p / "f.pt", T.T.contiguous().T),
        {"no_labels": True},
        r"save its .contiguous",
    ),
    "torch: sparse": (lambda p: torched(p / "f.pt", T.to_sparse()), {}, "'torch._utils._rebuild_sparse_tensor'"),
    "torch: a module": (
        lambda p: torched(p / "f.pt", torch.nn.Linear(2, 2)),
        {},
        "would import 'torch.nn.*could run code",
    ),
    "h5ad: by columns": (lambda p: csc(p / "f.h5ad"), {}, r"stored by columns \(csc_matrix\)"),
    "h5ad: row starts": (lambda p: broken_rows(p / "f.h5ad"), {}, "starts of rows .* are impossible"),
    "h5ad: no category": (
        lambda p: no_category(p / "f.h5ad"),
        {"labels_key": "kind"},
        "'obs/kind' has no category in row 7",
    ),
    "h5ad: no such key": (lambda p: h5ad(p / "f.h5ad"), {"features_key": "X_umap"}, "no array 'X_umap'; .*'X'"),
    "zarr: pickle": (lambda p: pickled(p / "f.zarr"), {}, "is packed by 'pickle'; .*may run code"),
    "zarr: no labels": (
        lambda p: (zarred(p / "f.zarr", 3), shutil.rmtree(p / "f.zarr" / "labels"))[0],
        {},
        "no labels beside",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_files_that_cannot_be_used(case: str, tmp_path: Path) -> None:
    make, options, words = REFUSED[case]
    with pytest.raises(PdacError, match=words) as found, opened(make(tmp_path), options) as features:
        list(features.chunks(50))
    assert "\n" not in str(found.value)
    assert "expected" in str(found.value)


def test_a_torch_file_runs_no_code(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    torched(tmp_path / "f.pt", {"features": T, "x": Malicious(canary)})
    with pytest.raises(DataError, match=r"unpickling it would import '.*', which could run code"):
        opened(tmp_path / "f.pt", {})
    assert not canary.exists()


@pytest.mark.parametrize(
    "name", ["parquet", "arrow", "safetensors", "torch", "h5ad, sparse", "h5ad, PCA and categories"]
)
def test_damage_is_used_or_refused(name: str, tmp_path: Path) -> None:
    kind = STORED[name]
    path = kind.write(tmp_path)
    whole = path.read_bytes()
    rng, said = np.random.default_rng(0), list[str]()
    for _ in range(40):
        data = bytearray(whole)
        at = int(rng.integers(len(data))) if rng.random() < 0.5 else int(rng.integers(min(2000, len(data))))
        data[at : at + int(rng.integers(1, 9))] = rng.bytes(1)
        path.write_bytes(data[: int(rng.integers(len(data)))] if rng.random() < 0.2 else data)
        try:
            with opened(path, kind.options) as features:
                for chunk in features.chunks(100):
                    assert chunk.h.shape[1] == features.n_features
                features.id_texts(np.arange(3)) if features.has_ids else None
        except PdacError as problem:
            said.append(str(problem))
    assert said
    assert not any("\n" in line for line in said)


def test_anndata_of_other_forms(tmp_path: Path) -> None:
    made = anndata.AnnData(X=scipy.sparse.csr_matrix(H))
    made.layers["counts"] = H * 2
    made.write_h5ad(tmp_path / "f.h5ad", compression="gzip")
    with opened(tmp_path / "f.h5ad", {"no_labels": True, "features_key": "layers/counts"}) as features:
        np.testing.assert_array_equal(features.read_rows(np.arange(N)).h, H * 2)

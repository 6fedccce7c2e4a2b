"""What is converted reads back as it was, in every form, whole or in shards, and a rerun goes on."""

import h5py
import numpy as np
import pyarrow.parquet
import pytest

from pdac_cli.files.features import open_features
from pdac_cli.options.shared import InputOptions
from tests.files.formats.stored import IDS, NAMES, H, N, Y, h5ad


@pytest.fixture
def source(tmp_path):
    """Write a feature file with logits, ids and names of classes."""
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["features"], file["labels"], file["logits"] = H, np.char.encode(NAMES[Y], "utf-8"), H[:, :7] * 2
        file["ids"] = np.char.encode(np.array(IDS), "utf-8")
    return tmp_path / "f.h5"


def everything(*paths, **options):
    with open_features(InputOptions(paths=tuple(map(str, paths)), **options)) as rows:
        chunk = rows.read_rows(np.arange(rows.n), logits=rows.has_logits)
        names = None if rows.label_names is None else np.array(rows.label_names)[chunk.y]
        return chunk.h, names, chunk.logits, rows.id_texts(np.arange(rows.n)) if rows.has_ids else None


@pytest.mark.parametrize("suffix", [".h5", ".npy", ".parquet"])
@pytest.mark.parametrize("dtype", [None, "float16", "float64"])
def test_it_reads_back_as_it_was(pdac, source, tmp_path, suffix, dtype):
    out = tmp_path / f"out{suffix}"
    result = pdac("convert", source, "-o", out, "--json", *(["--dtype", dtype] if dtype else []))
    assert result.code == 0, result.err
    assert (result.json["rows"], result.json["shards"], result.json["dtype"]) == (N, 1, dtype or "float32")
    h, names, logits, ids = everything(out)
    np.testing.assert_array_equal(h, H.astype(dtype or "f4"))
    np.testing.assert_array_equal(names, NAMES[Y])
    np.testing.assert_array_equal(logits, (H[:, :7] * 2).astype(dtype or "f4"))
    assert list(ids) == IDS
    assert pdac("convert", source, "-o", out).code == 5
    assert pdac("convert", source, "-o", out, "--force").code == 0


@pytest.mark.parametrize("suffix", [".h5", ".npy", ".parquet"])
def test_shards_are_one_set_and_a_rerun_makes_what_is_missing(pdac, source, tmp_path, suffix):
    command = ("convert", source, "-o", tmp_path / f"out{suffix}", "--shard-rows", "110", "--chunk-rows", "37")
    assert pdac(*command).code == 0
    shards = [tmp_path / f"out-{k:05d}{suffix}" for k in range(3)]
    np.testing.assert_array_equal(everything(*shards)[0], H)
    before = {path: path.read_bytes() for path in shards}
    shards[1].unlink()
    if suffix == ".npy":
        for name in ("labels", "logits", "ids"):
            (tmp_path / f"out-00001.{name}.npy").unlink()
    result = pdac(*command, "--json")
    assert (result.code, result.json["resumed"], result.json["rows"]) == (0, 2, N)
    assert {path: path.read_bytes() for path in shards} == before
    other = pdac(*command[:-4], "--shard-rows", "90")
    assert other.code == 2
    assert "is of another conversion" in other.err


def test_from_anndata_without_labels(pdac, tmp_path):
    path = h5ad(tmp_path / "f.h5ad")
    assert pdac("convert", path, "--no-labels", "-o", tmp_path / "out.parquet", "-q").code == 0
    made = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert made.column_names == ["features", "id"]
    assert made["id"].to_pylist() == IDS
    np.testing.assert_array_equal(np.array(made["features"].to_pylist(), "f4"), H)


def test_rows_left_out_and_values_too_large(pdac, source, tmp_path):
    with h5py.File(source, "r+") as file:
        file["features"][7] = np.nan
    assert pdac("convert", source, "-o", tmp_path / "a.npy").code == 3
    assert not (tmp_path / "a.npy").exists()
    assert pdac("convert", source, "-o", tmp_path / "a.npy", "--drop-nonfinite").code == 0
    assert len(np.load(tmp_path / "a.npy")) == N - 1
    with h5py.File(source, "r+") as file:
        file["features"][7] = 1e6
    for suffix in (".npy", ".parquet", ".h5"):
        result = pdac("convert", source, "-o", tmp_path / f"b{suffix}", "--dtype", "float16")
        assert (result.code, (tmp_path / f"b{suffix}").exists()) == (3, False)
        assert "reach 1e+06; expected at most 65504" in result.err
    assert pdac("convert", source, "-o", tmp_path / "b.csv").code == 2

"""What is read is what plain h5py and numpy put there, however it is stored, split and chunked."""

from __future__ import annotations

import hashlib
import itertools
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pdac_cli.files.features import FeatureSet, open_features
from pdac_cli.options.shared import InputOptions

N, D = 300, 6
H = np.random.default_rng(1).normal(size=(N, D)).astype(np.float32)
Y = np.random.default_rng(2).integers(0, 7, N)
NAMES = np.array(["cat", "Ärger", "dog", "a b", "z", "zz", "10"])


def put(path: Path, h: Any = H, y: Any = Y, layout: dict[str, Any] | None = None, **more: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in {"features": h, "labels": y, **more}.items():
            file.create_dataset(name, data=values, **(layout or {} if name == "features" else {}))
    return path


def opened(*paths: Path, **options: Any) -> FeatureSet:
    return open_features(InputOptions(paths=tuple(map(str, paths)), **options))


def everything(features: FeatureSet, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chunks = list(features.chunks(rows))
    ids, h, y = (np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("ids", "h", "y"))
    return ids, h, y


def save_pair(path: Path, labels: str) -> Path:
    np.save(path, H)
    np.save(path.with_name(labels), Y)
    return path


def save_npz(path: Path, save: Callable[..., None], **arrays: Any) -> Path:
    save(path, **arrays)
    return path


STORED: dict[str, Callable[[Path], Path]] = {
    "contiguous": lambda p: put(p / "f.h5"),
    "chunks": lambda p: put(p / "f.h5", layout={"chunks": (17, D)}),
    "columns": lambda p: put(p / "f.h5", layout={"chunks": (64, 1), "compression": "gzip"}),
    "one chunk": lambda p: put(p / "f.h5", layout={"chunks": (N, D), "compression": "gzip", "shuffle": True}),
    "lzf": lambda p: put(p / "f.h5", layout={"chunks": (50, 4), "compression": "lzf"}),
    "big-endian": lambda p: put(p / "f.h5", H.astype(">f4"), Y.astype(">i4")),
    "float labels": lambda p: put(p / "f.h5", y=Y.astype(np.float32)),
    "byte labels": lambda p: put(p / "f.h5", y=Y.astype(np.uint8)),
    "column of labels": lambda p: put(p / "f.h5", y=Y[:, None]),
    "no suffix": lambda p: put(p / "feats"),
    "user block": lambda p: put_with_user_block(p / "feats.bin"),
    "npy .labels": lambda p: save_pair(p / "f.npy", "f.labels.npy"),
    "npy _labels": lambda p: save_pair(p / "f.npy", "f_labels.npy"),
    "npy labels": lambda p: save_pair(p / "f.npy", "labels.npy"),
    "npy columns": lambda p: (save_pair(p / "f.npy", "labels.npy"), np.save(p / "f.npy", np.asfortranarray(H)))[0],
    "npz": lambda p: save_npz(p / "f.npz", np.savez, features=H, labels=Y),
    "npz packed": lambda p: save_npz(p / "f.npz", np.savez_compressed, X=H, targets=Y),
    "npz columns": lambda p: save_npz(p / "f.npz", np.savez, features=np.asfortranarray(H), labels=Y),
    "soft link": lambda p: soft(p / "f.h5"),
}


def soft(path: Path) -> Path:
    with h5py.File(path, "w") as file:
        file["deep/inside/h"], file["labels"] = H, Y
        file["up"] = h5py.SoftLink("deep/inside")
        file["features"] = h5py.SoftLink("/up/h")
    return path


def put_with_user_block(path: Path) -> Path:
    with h5py.File(path, "w", userblock_size=512) as file:
        file["features"], file["labels"] = H, Y
    return path


@pytest.fixture(scope="module")
def fingerprint(tmp_path_factory: pytest.TempPathFactory) -> str:
    with opened(put(tmp_path_factory.mktemp("plain") / "f.h5")) as features:
        return features.fingerprint


@pytest.mark.parametrize("case", STORED)
def test_storage_does_not_matter(case: str, tmp_path: Path, fingerprint: str) -> None:
    with opened(STORED[case](tmp_path)) as features:
        assert (features.n, features.n_features, features.dtype) == (N, D, np.float32)
        for rows in (1, 7, 64, N, 10 * N):
            ids, h, y = everything(features, rows)
            np.testing.assert_array_equal(ids, np.arange(N))
            np.testing.assert_array_equal(h, H)
            np.testing.assert_array_equal(y, Y)
            assert h.dtype == np.float32
            assert h.dtype.isnative
            assert y.dtype == np.int64
        wanted = np.random.default_rng(3).integers(0, N, 40)
        chunk = features.read_rows(wanted)
        np.testing.assert_array_equal(chunk.ids, wanted)
        np.testing.assert_array_equal(chunk.h, H[wanted])
        np.testing.assert_array_equal(chunk.y, Y[wanted])
        assert features.fingerprint == fingerprint


@pytest.mark.parametrize("cuts", [(1,), (299,), (150,), (100, 101, 250)])
def test_split_does_not_matter(cuts: tuple[int, ...], tmp_path: Path, fingerprint: str) -> None:
    edges = (0, *cuts, N)
    paths = [put(tmp_path / f"{a}.h5", H[a:b], Y[a:b]) for a, b in itertools.pairwise(edges)]
    with opened(*paths) as features:
        assert features.files == tuple(map(str, paths))
        chunks = list(features.chunks(64))
        assert [len(chunk.ids) for chunk in chunks] == [64, 64, 64, 64, 44]  # whatever the files' borders
        np.testing.assert_array_equal(np.concatenate([chunk.h for chunk in chunks]), H)
        labels = list(features.label_chunks(90))
        np.testing.assert_array_equal(np.concatenate([y for _, y in labels]), Y)
        wanted = np.array([299, 0, 150, 150, 149])
        np.testing.assert_array_equal(features.read_rows(wanted).h, H[wanted])
        assert features.fingerprint == fingerprint


def test_fingerprint_tells_sets_apart(tmp_path: Path, fingerprint: str) -> None:
    changed = H.copy()
    changed[-1, -1] += 1
    others = [
        put(tmp_path / "a.h5", changed), put(tmp_path / "b.h5", H[:-1], Y[:-1]), put(tmp_path / "c.h5", y=(Y + 1) % 7),
        put(tmp_path / "d.h5", H.astype("f8")), put(tmp_path / "e.h5", y=NAMES[Y].astype(object)),
        put(tmp_path / "f.h5", H[::-1], Y[::-1]),
    ]  # fmt: skip
    found = {fingerprint}
    for path in others:
        with opened(path) as features:
            found.add(features.fingerprint)
    assert len(found) == 7
    assert all(len(name) == 32 for name in found)


def test_fingerprint_is_what_its_description_says(fingerprint: str) -> None:
    """Worked out by hand: it must not change between versions, machines or byte orders."""
    rows = [k * (N - 1) // 63 for k in range(64)]
    assert (rows[0], rows[-1], len(set(rows))) == (0, N - 1, 64)
    data = f"pdac-features 1 {N} {D} float32 numbers\n".encode()
    data += struct.pack(f"<{64 * D}f", *H[rows].ravel()) + struct.pack("<64q", *Y[rows])
    assert fingerprint == hashlib.blake2b(data, digest_size=16).hexdigest()


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65])
def test_fingerprint_of_few_rows(n: int, tmp_path: Path) -> None:
    with opened(put(tmp_path / "f.h5", H[:n], Y[:n])) as a, opened(put(tmp_path / "g.h5", H[:n], Y[:n])) as b:
        assert a.fingerprint == b.fingerprint


def test_order_of_files_and_patterns(tmp_path: Path) -> None:
    a, b = put(tmp_path / "a.h5", H[:100], Y[:100]), put(tmp_path / "b.h5", H[100:], Y[100:])
    with opened(tmp_path / "*.h5") as features:
        assert features.files == (str(a), str(b))
    with opened(b, a) as features:
        np.testing.assert_array_equal(everything(features, 50)[1], np.concatenate([H[100:], H[:100]]))
    put(tmp_path / "[c].h5")  # a file that is called like a pattern
    with opened(tmp_path / "[c].h5") as features:
        assert features.n == N


def test_patterns_leave_labels_files_out(tmp_path: Path) -> None:
    save_pair(tmp_path / "a.npy", "a.labels.npy")
    save_pair(tmp_path / "b.npy", "b_labels.npy")
    with opened(tmp_path / "*.npy") as features:
        assert features.n == 2 * N
        assert len(features.paths) == 4


TEXT: dict[str, Any] = {
    "variable": NAMES[Y].astype(object),
    "fixed": np.char.encode(NAMES[Y], "utf-8"),
}


@pytest.mark.parametrize("case", TEXT)
def test_names_as_labels(case: str, tmp_path: Path) -> None:
    with opened(put(tmp_path / "f.h5", y=TEXT[case])) as features:
        assert features.label_names == ("10", "a b", "cat", "dog", "z", "zz", "Ärger")
        assert [features.label_names[k] for k in everything(features, 31)[2]] == NAMES[Y].tolist()
        assert any("7 label names" in note for note in features.notes)
        stored = features.fingerprint
    np.save(tmp_path / "f.npy", H)
    np.save(tmp_path / "labels.npy", NAMES[Y])
    with opened(tmp_path / "f.npy") as features:
        assert features.label_names == tuple(sorted(set(NAMES[Y])))
        assert features.fingerprint == stored
    with opened(put(tmp_path / "f.h5", y=TEXT[case]), ignore_label=10) as features:
        assert features.label_names == ("a b", "cat", "dog", "z", "zz", "Ärger")
        ids, _, y = everything(features, 31)
        np.testing.assert_array_equal(ids, np.flatnonzero(Y != 6))
        assert [features.label_names[k] for k in y] == NAMES[Y[ids]].tolist()


def test_numbers_with_names(tmp_path: Path) -> None:
    with opened(put(tmp_path / "f.h5", label_names=NAMES.tolist())) as features:
        assert features.label_names == tuple(NAMES)
        np.testing.assert_array_equal(everything(features, 31)[2], Y)


FOUND = {
    "feats": ("feats", "y"), "embeddings": ("embeddings", "label"), "X": ("X", "targets"), "x": ("x", "labels"),
    "group": ("train/features", "train/labels"), "labels at the root": ("layer4/feats", "labels"),
    "deep": ("a/b/X", "a/b/y"),
}  # fmt: skip


@pytest.mark.parametrize("case", FOUND)
def test_common_names_are_found(case: str, tmp_path: Path) -> None:
    features_key, labels_key = FOUND[case]
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file[features_key], file[labels_key], file["other/thing"] = H, Y, Y
    with opened(tmp_path / "f.h5") as features:
        np.testing.assert_array_equal(everything(features, 100)[1], H)
        assert any(repr(features_key) in note for note in features.notes)


def test_given_names_come_first(tmp_path: Path) -> None:
    path = put(tmp_path / "f.h5", **{"test/h": H + 1, "test/labels": Y + 1, "mine": Y + 2})
    with opened(path, features_key="/test/h") as features:
        np.testing.assert_array_equal(everything(features, 100)[2], Y + 1)
    with opened(path, labels_key="mine") as features:
        np.testing.assert_array_equal(everything(features, 100)[2], Y + 2)
    np.save(tmp_path / "elsewhere.npy", Y + 3)
    with opened(path, labels_key=str(tmp_path / "elsewhere.npy")) as features:
        np.testing.assert_array_equal(everything(features, 100)[2], Y + 3)


@pytest.mark.parametrize(
    ("stored", "read"),
    [("i1", "f4"), ("u2", "f4"), ("?", "f4"), ("i4", "f8"), ("i8", "f8"), ("f2", "f2"), (">f8", "f8"), ("g", "f8")],
)
def test_number_types(stored: str, read: str, tmp_path: Path) -> None:
    h = (H > 0).astype(stored) if stored == "?" else np.abs(H * 10).astype(stored)
    with opened(put(tmp_path / "f.h5", h)) as features:
        assert features.dtype == np.dtype(read)
        np.testing.assert_array_equal(everything(features, 77)[1], h.astype(read))
        assert bool(features.notes) == (np.dtype(stored).kind in "biu")


def test_the_widest_type_of_several_files(tmp_path: Path) -> None:
    a, b = put(tmp_path / "a.h5", H.astype("f2")), put(tmp_path / "b.h5", H)
    with opened(a, b) as features:
        assert features.dtype == np.float32
        np.testing.assert_array_equal(everything(features, 77)[1], np.concatenate([H.astype("f2").astype("f4"), H]))
        assert any("float32" in note for note in features.notes)


@pytest.mark.parametrize("rows", [1, 7, 300])
def test_rows_left_out(rows: int, tmp_path: Path) -> None:
    h, y = H.copy(), Y.copy()
    h[[3, 200, 201], 2] = np.nan, np.inf, -np.inf
    y[[3, 4, 299]] = -1  # row 3 is left out by its label already
    y[5] = 255
    with opened(put(tmp_path / "f.h5", h, y), drop_nonfinite=True, ignore_label=-1) as features:
        ids, found, labels = everything(features, rows)
        np.testing.assert_array_equal(ids, np.setdiff1d(np.arange(N), [3, 4, 200, 201, 299]))
        np.testing.assert_array_equal(found, h[ids])
        np.testing.assert_array_equal(labels, y[ids])
        assert (features.dropped, features.ignored, features.n) == (2, 3, N)
        np.testing.assert_array_equal(
            np.concatenate([ids for ids, _ in features.label_chunks(rows)]), np.flatnonzero(y != -1)
        )
    with opened(put(tmp_path / "f.h5", y=y % 256), ignore_label=255) as features:
        np.testing.assert_array_equal(everything(features, rows)[0], np.flatnonzero(y % 256 != 255))


def test_large_finite_values_are_fine(tmp_path: Path) -> None:
    for dtype in ("f2", "f4", "f8"):
        h = np.full((N, D), np.finfo(dtype).max, dtype)
        with opened(put(tmp_path / "f.h5", h)) as features:
            np.testing.assert_array_equal(everything(features, 100)[1], h)


def test_logits_and_ids(tmp_path: Path) -> None:
    path = put(tmp_path / "f.h5", logits=H[:, :3], ids=np.arange(N) * 10)
    with opened(path, put(tmp_path / "g.h5", logits=H[:, :3] + 1, ids=np.arange(N))) as features:
        assert features.has_logits
        assert features.has_ids
        chunks = list(features.chunks(77, logits=True))
        got = np.concatenate([chunk.logits for chunk in chunks if chunk.logits is not None])
        np.testing.assert_array_equal(got, np.concatenate([H[:, :3], H[:, :3] + 1]))
        np.testing.assert_array_equal(features.read_ids(np.array([301, 2])), [1, 20])
    with opened(path, put(tmp_path / "g.h5")) as features:
        assert not features.has_logits
        assert not features.has_ids


def test_declared_terabytes_stream_in_bounded_memory(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file.create_dataset("features", (10**10, 512), "f4", chunks=(2**17, 512))
        file.create_dataset("labels", (10**10,), "i8", chunks=(1000,))
    assert (tmp_path / "f.h5").stat().st_size < 10_000
    script = f"""
import re, pathlib
from pdac_cli.files.features import open_features
from pdac_cli.options.shared import InputOptions
def peak():  # not ru_maxrss, which begins at the peak of the process that started this one
    return int(re.search("VmHWM:\\s*(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])
before = peak()
with open_features(InputOptions(paths=({str(tmp_path / "f.h5")!r},))) as features:
    features.fingerprint
    chunks = features.chunks(1000)
    for _ in range(20):
        assert len(next(chunks).ids) == 1000
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 100 * 1024  # kB

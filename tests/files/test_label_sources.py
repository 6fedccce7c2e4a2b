"""Labels from a file of their own are those beside the features, whatever form the file has and whatever its order."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pdac_cli.errors import DataError, UsageError
from pdac_cli.files.features import FeatureSet, open_features
from pdac_cli.options.shared import InputOptions

N = 400
RNG = np.random.default_rng(0)
H = RNG.normal(size=(N, 3)).astype("f4")
Y = RNG.integers(0, 6, N)
NAMES = np.array(["cat", "Ärger", "a b", "x,y", 'q"q', "10"])
IDS = np.array([f"img/{row:03d} é.png" for row in RNG.permutation(N)])
SHUFFLED = RNG.permutation(N)


def put(path: Path, /, **arrays: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[name] = np.char.encode(values, "utf-8") if values.dtype.kind == "U" else values
    return path


def table(path: Path, *columns: tuple[str, Any], separator: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=separator)
        writer.writerow([name for name, _ in columns])
        writer.writerows(zip(*(values for _, values in columns), strict=True))
    return path


def opened(*paths: Path, **options: Any) -> FeatureSet:
    return open_features(InputOptions(paths=tuple(map(str, paths)), **options))


def labels(features: FeatureSet, rows: int = 37) -> Any:
    found = np.concatenate([y for _, y in features.label_chunks(rows)])
    again = features.read_rows(np.arange(features.n)[::-1]).y[::-1]
    np.testing.assert_array_equal(found, again)
    return found if not features.names_are_labels else np.array(features.label_names)[found]


def save(path: Path, values: Any) -> Path:
    np.save(path, values)
    return path


def savez(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


LABELS = {
    "npy": lambda p: save(p / "y.npy", Y),
    "npz": lambda p: savez(p / "y.npz", labels=Y, other=H),
    "npz, named": lambda p: f"{savez(p / 'y.npz', labels=Y * 0, kind=Y)}:kind",
    "hdf5": lambda p: put(p / "y.h5", targets=Y),
    "csv": lambda p: table(p / "y.csv", ("other", Y * 0), ("label", Y)),
    "csv, named": lambda p: f"{table(p / 'y.csv', ('label', Y * 0), ('a:b', Y))}".replace(".csv", ".csv:a:b"),
    "csv of whole floats": lambda p: table(p / "y.csv", ("label", Y.astype(float)), ("other", Y * 0)),
    "tsv": lambda p: table(p / "y.tsv", ("y", Y), separator="\t"),
    "txt": lambda p: (p / "y.txt", (p / "y.txt").write_text("\n".join(map(str, Y))))[0],
    "txt with line ends": lambda p: (p / "y.txt", (p / "y.txt").write_text("\r\n".join(map(str, Y)) + "\r\n\n"))[0],
    "by ids": lambda p: table(p / "y.csv", ("path", IDS[SHUFFLED]), ("label", Y[SHUFFLED])),
    "by ids, more of them": lambda p: table(p / "y.csv", ("path", [*IDS[SHUFFLED], "z"]), ("label", [*Y[SHUFFLED], 3])),
    "by ids, HDF5": lambda p: put(p / "y.h5", ids=IDS[SHUFFLED], labels=Y[SHUFFLED]),
}


@pytest.mark.parametrize("form", [name for name in LABELS if name != "csv, named"])
def test_labels_of_a_file_of_their_own(form: str, tmp_path: Path) -> None:
    given = str(LABELS[form](tmp_path))
    halves = [put(tmp_path / f"{k}.h5", X=H[rows], paths=IDS[rows]) for k, rows in enumerate(np.split(np.arange(N), 2))]
    whole = put(tmp_path / "f.h5", features=H, labels=Y, ids=IDS)
    with opened(*halves, labels=given) as features, opened(whole) as plain:
        np.testing.assert_array_equal(labels(features), Y)
        assert features.fingerprint == plain.fingerprint
        assert features.id_texts(np.array([399, 0])) == (IDS[399], IDS[0])
        assert Path(given.split(":")[0]) in features.paths
        assert any("matched by" in note for note in features.notes) == form.startswith("by ids")


def test_names_in_a_table(tmp_path: Path) -> None:
    path = put(tmp_path / "f.h5", features=H)
    for given in (
        table(tmp_path / "y.csv", ("label", NAMES[Y])), table(tmp_path / "y.tsv", ("label", NAMES[Y]), separator="\t"),
        put(tmp_path / "y.h5", label=NAMES[Y]),
    ):  # fmt: skip
        with opened(path, labels=str(given)) as features:
            assert features.names_are_labels
            np.testing.assert_array_equal(labels(features), NAMES[Y])


def test_a_name_after_the_last_colon(tmp_path: Path) -> None:
    path = put(tmp_path / "f.h5", features=H)
    table(tmp_path / "y.csv", ("label", Y * 0), ("kind", Y))
    put(tmp_path / "y:kind", y=Y + 1)
    with opened(path, labels=f"{tmp_path}/y.csv:kind") as features:
        np.testing.assert_array_equal(labels(features), Y)
    with opened(path, labels=f"{tmp_path}/y:kind") as features:  # a file of that name is there
        np.testing.assert_array_equal(labels(features), Y + 1)


def test_without_labels_there_is_one_class(tmp_path: Path) -> None:
    for path in (put(tmp_path / "f.h5", features=H), put(tmp_path / "g.h5", features=H, labels=Y.astype("f4") + 0.5)):
        with opened(path, no_labels=True) as features:
            np.testing.assert_array_equal(labels(features), np.zeros(N))
            assert features.label_names is None
            np.testing.assert_array_equal(features.read_rows(np.array([3, 1])).h, H[[3, 1]])


def test_ids_are_found_by_name_if_they_can_be_ids(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str | None, Any]] = [
        ({"paths": IDS}, None, IDS), ({"id": Y}, None, Y.astype(str)), ({"url": H}, None, None),
        ({"path": IDS[:9]}, None, None), ({"mine": IDS}, None, None), ({"mine": IDS}, "mine", IDS),
        ({"paths": IDS[::-1], "ids": IDS}, None, IDS),
    ]  # fmt: skip
    for k, (more, key, expected) in enumerate(cases):
        with opened(put(tmp_path / f"{k}.h5", features=H, labels=Y, **more), ids_key=key) as features:
            assert features.has_ids == (expected is not None)
            if expected is not None:
                assert features.id_texts(np.arange(N)) == tuple(expected)


REFUSED: dict[str, tuple[Any, str]] = {
    "missing": (lambda p: p / "y.npy", "y.npy: not found"),
    "short": (lambda p: save(p / "y.npy", Y[:-1]), "has 399 rows, there are 400 rows of features; expected as many"),
    "long, without ids": (lambda p: table(p / "y.csv", ("label", [*Y, 1])), "'label' has 401 rows"),
    "no title": (lambda p: table(p / "y.csv", ("a", Y), ("b", Y)), "no column called labels, y, .* has 'a', 'b'"),
    "no such title": (lambda p: f"{table(p / 'y.csv', ('a', Y))}:b", "no column 'b'"),
    "a key of npy": (lambda p: f"{save(p / 'y.npy', Y)}:b", "one array without a name"),
    "ragged": (lambda p: text(p / "y.csv", "a,label\n1,2\n3\n"), "row 2 has 1 fields; expected 2"),
    "a gap": (lambda p: text(p / "y.txt", "1\n\n2\n"), "row 2 has no label"),
    "nothing": (lambda p: text(p / "y.txt", "\n\n"), "holds no labels"),
    "titles only": (lambda p: text(p / "y.csv", "label,a\n"), "no labels below its titles"),
    "one line": (lambda p: text(p / "y.txt", "x" * 100_000), "line 1 has 65,536 bytes or more"),
    "zeros": (lambda p: text(p / "y.txt", "a\0b\n"), "line 1 holds a zero byte"),
    "an id missing": (
        lambda p: table(p / "y.csv", ("path", [*IDS[1:], "z"]), ("label", Y)),
        f"has no row called '{IDS[0]}', as row 0 of the features is",
    ),
    "an id twice": (
        lambda p: table(p / "y.csv", ("path", [*IDS[:-1], IDS[0]]), ("label", Y)), f"two rows are called '{IDS[0]}'"
    ),
    "an id twice, in order": (
        lambda p: (put(p / "f.h5", features=H, ids=IDS[[0, *range(N - 1)]]),
                   table(p / "y.csv", ("path", IDS[[0, *range(N - 1)]]), ("label", Y)))[1],
        f"two rows are called '{IDS[0]}'",
    ),
    "negative": (lambda p: save(p / "y.npy", Y - 1), "y.npy: 'y.npy' is -1 in row"),
    "pickled": (lambda p: save(p / "y.npy", np.array([None] * N)), "pickled objects, which may run code"),
}  # fmt: skip


def text(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


@pytest.mark.parametrize("case", REFUSED)
def test_labels_that_cannot_be_used(case: str, tmp_path: Path) -> None:
    make, words = REFUSED[case]
    put(tmp_path / "f.h5", features=H, paths=IDS)
    given = str(make(tmp_path))
    with pytest.raises(DataError, match=words) as found, opened(tmp_path / "f.h5", labels=given) as features:
        labels(features)
    assert "; " in str(found.value)
    assert "\n" not in str(found.value)


def test_two_sources_of_labels_are_refused() -> None:
    for options in ({"labels": "y"}, {"labels_key": "y"}):
        with pytest.raises(UsageError, match=r"--no-labels and --labels.* are given; expected one"):
            InputOptions(no_labels=True, **options)
    with pytest.raises(UsageError, match="--labels and --labels-key are given"):
        InputOptions(labels="a", labels_key="b")
    with pytest.raises(UsageError, match="--ignore-label is given with --no-labels"):
        InputOptions(no_labels=True, ignore_label=1)

"""Model files hold what was put in, at fixed length, and nothing else is taken for one."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pdac_cli.density.model import Model
from pdac_cli.errors import DataError, ModelError
from pdac_cli.files.results.model import StoredModel, check_fits, read_model, write_model

C, D, d, L, S = 3, 5, 2, 4, 6
_RNG = np.random.default_rng(0)
STORED = StoredModel(
    Model(
        labels=np.array([0, 2, 7]),
        counts=np.array([9, 1, 30]),
        mean=_RNG.normal(size=(C, D)).astype("f4"),
        unit=np.ones(C),
        W=np.broadcast_to(np.eye(D, d, dtype="f4"), (C, D, d)).copy(),
        dims=np.array([2, 0, 1]),
        alpha=np.full((C, L), 1 / L),
        mu=_RNG.normal(size=(C, L, d)),
        chol=np.broadcast_to(np.eye(d), (C, L, d, d)).copy(),
        log_likelihood=np.full((C, S), np.nan),
    ),
    fingerprint="00ff" * 8,
    label_names=None,
    options={"dim": d, "ridge": 1e-6, "tol": None, "solver": "fast"},
    seed=2**63 - 1,
)
NAMES = ("ant", "Ärger\n", "", "d", "e", "f", "g", "\u732b")


@pytest.mark.parametrize("names", [None, NAMES, tuple(f"class {k:06d}" for k in range(30_000))])
def test_everything_comes_back(names: tuple[str, ...] | None, tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    stored = replace(STORED, label_names=names)  # the last ones are more than an attribute could hold
    write_model(stored, path, force=False)
    found = read_model(path)
    for field in fields(Model):
        expected, value = getattr(STORED.model, field.name), getattr(found.model, field.name)
        np.testing.assert_array_equal(value, expected)
        assert value.dtype == expected.dtype
    assert replace(found, model=stored.model) == stored


def test_no_text_has_variable_length(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    write_model(replace(STORED, label_names=NAMES), path, force=False)
    with h5py.File(path) as file:
        kinds = {name: file.attrs.get_id(name).dtype.kind for name in file.attrs}
        kinds |= {name: dataset.dtype.kind for name, dataset in file.items()}
        assert file.attrs["format"] == b"pdac-model"
    assert set(kinds.values()) == {"S", "i", "f"}


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    options = dict(reversed(list(STORED.options.items())))
    for name, stored in (("a.h5", STORED), ("b.h5", replace(STORED, options=options))):
        write_model(stored, tmp_path / name, force=False)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def drop(name: str) -> Any:
    return lambda file: file.attrs.__delitem__(name) if name in file.attrs else file.__delitem__(name)


def attribute(name: str, value: Any) -> Any:
    return lambda file: file.attrs.__setitem__(name, value)


def array(name: str, change: Any) -> Any:
    def put(file: h5py.File) -> None:
        old = file[name][()]
        del file[name]
        file[name] = change(old)

    return put


def entry(name: str, at: Any, value: Any) -> Any:
    return lambda file: file[name].__setitem__(at, value)


# name: (the damage, what the message must say)
DAMAGES: dict[str, tuple[Any, str]] = {
    "version": (attribute("version", 2), "model format version 2; expected 1"),
    "version text": (attribute("version", np.bytes_(b"1")), "model format version 1; expected 1"),
    "no version": (drop("version"), "model format version None; expected 1"),
    "other format": (attribute("format", np.bytes_(b"pdac-index")), "not a model file of pdac"),
    "format of variable length": (attribute("format", "pdac-model"), "not a model file of pdac"),
    "format a list": (attribute("format", [1, 2]), "not a model file of pdac"),
    "options of variable length": (attribute("options", "{}"), "attributes are damaged"),
    "options no JSON": (attribute("options", np.bytes_(b"{")), "attributes are damaged"),
    "options a list": (attribute("options", np.bytes_(b"[1]")), "attributes are damaged"),
    "options deep": (attribute("options", np.bytes_(b"[" * 60_000)), "attributes are damaged"),
    "seed text": (attribute("seed", np.bytes_(b"x")), "attributes are damaged"),
    "seed infinite": (attribute("seed", np.inf), "attributes are damaged"),
    "no seed": (drop("seed"), "attributes are damaged"),
    "no fingerprint": (drop("fingerprint"), "attributes are damaged"),
    "names of variable length": (array("label_names", lambda _: ["a", "b"]), "'label_names' is of variable length"),
    "names numbers": (array("label_names", lambda _: [1, 2]), "'label_names' is .*fixed length"),
    "no array": (drop("W"), "has no dataset 'W'"),
    "array a link": (lambda f: (drop("W")(f), f.__setitem__("W", h5py.SoftLink("/x"))), "'W' is a link to nothing"),
    "array elsewhere": (
        lambda f: (drop("W")(f), f.__setitem__("W", h5py.ExternalLink("/etc/passwd", "W"))), "'W' is a link to another",
    ),
    "array a group": (lambda f: (drop("W")(f), f.create_group("W")), "'W' is a group"),
    "array empty": (array("W", lambda _: h5py.Empty("f4")), "null dataspace"),
    "array text": (array("W", lambda a: a.astype("S9")), "'W' holds values no model has"),
    "array complex": (array("mu", lambda a: a.astype(complex)), "'mu' holds values no model has"),
    "dims": (array("W", lambda a: a[..., 0]), r"'W' has shape \(3, 5\); expected \(C, D, d\)"),
    "shapes": (array("mu", lambda a: a[:2]), r"'mu' has shape \(2, 4, 2\); expected \(C, L, d\)"),
    "no class": (lambda f: [array(name, lambda a: a[:0])(f) for name in list(f) if name != "label_names"],
                 "'labels' holds values no model has"),
    "labels alike": (entry("labels", 1, 0), "'labels' holds values no model has"),
    "labels unordered": (array("labels", lambda a: a[::-1].astype("u8")), "'labels' holds values no model has"),
    "labels negative": (entry("labels", 0, -1), "'labels' holds values no model has"),
    "labels floats": (array("labels", lambda a: a.astype("f8")), "'labels' holds values no model has"),
    "counts": (entry("counts", 1, 0), "'counts' holds values no model has"),
    "more dims than d": (entry("dims", 1, 3), "'dims' holds values no model has"),
    "unit": (entry("unit", 1, 0), "'unit' holds values no model has"),
    "unit no power of two": (entry("unit", 1, 3.0), "'unit' holds values no model has"),
    "unit tiny": (entry("unit", 1, 2.0**-200), "'unit' holds values no model has"),
    "W large": (entry("W", (1, 1, 1), 2.0), "'W' holds values no model has"),
    "mean integers": (array("mean", lambda a: a.astype("i4")), "'mean' holds values no model has"),
    "mean": (entry("mean", (0, 1), np.nan), "'mean' holds values no model has"),
    "alpha": (entry("alpha", 0, 0.3), "'alpha' holds values no model has"),
    "alpha negative": (entry("alpha", 0, [0.5, 1, -1, 0.5]), "'alpha' holds values no model has"),
    "alpha NaN": (entry("alpha", 0, np.nan), "'alpha' holds values no model has"),
    "chol infinite": (entry("chol", (0, 0, 1, 0), np.inf), "'chol' holds values no model has"),
    "chol huge": (entry("chol", (0, 0, 1, 1), 1e200), "'chol' holds values no model has"),
    "mu long": (array("mu", lambda a: a.astype(np.longdouble)), "'mu' holds values no model has"),
    "chol singular": (entry("chol", (0, 0, 1, 1), 0), "'chol' holds values no model has"),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGES)
def test_damaged_models_are_refused(case: str, tmp_path: Path) -> None:
    damage, words = DAMAGES[case]
    path = tmp_path / "m.h5"
    write_model(replace(STORED, label_names=NAMES), path, force=False)
    with h5py.File(path, "r+") as file:
        damage(file)
    with pytest.raises(ModelError, match=words) as caught:
        read_model(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_the_byte_order_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "m.h5"
    write_model(STORED, path, force=False)
    with h5py.File(path, "r+") as file:
        array("mu", lambda values: values.astype(">f8"))(file)
    mu = read_model(path).model.mu
    np.testing.assert_array_equal(mu, STORED.model.mu)
    assert mu.dtype.isnative


def test_paths_that_are_no_file_are_bad_input(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "m.h5", "not found"), (tmp_path, "is a folder")):
        with pytest.raises(DataError, match=f"{words}; expected a model file of pdac fit"):
            read_model(path)


def test_a_model_fits_the_features_and_classes_it_was_fitted_on() -> None:
    path = Path("m.h5")
    check_fits(STORED, path, D, [0, 7], None)
    for dim, labels, names, words in (
        (6, [0], None, "fitted on 5 features, the data has 6"),
        (5, [0, 1, 3], None, r"has no class 1, 3, the data has; .*\(it has 0, 2, 7\)"),
        (5, [0], NAMES, "fitted on classes called numbers, the data has ant"),
    ):
        with pytest.raises(ModelError, match=words):
            check_fits(STORED, path, dim, labels, names)

"""Every feature file that cannot be used ends in one line that says what, where and what to do."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pdac_cli.errors import DataError, StorageError, UsageError
from pdac_cli.files.features import open_features
from pdac_cli.files.formats import hdf5
from pdac_cli.options.shared import InputOptions
from tests.files.formats.bad_features import (
    FILES,
    H,
    Y,
    dataset,
    external_link,
    put,
    small_source,
    soft_to_external,
    virtual,
    with_value,
)


def read_all(path: Path) -> None:
    with open_features(InputOptions(paths=(str(path),))) as features:
        for _ in features.chunks(7, logits=features.has_logits):
            pass
        assert features.fingerprint


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("case", FILES)
def test_refused(case: str, tmp_path: Path) -> None:
    make, error, words = FILES[case]
    path = tmp_path / "f.h5"
    make(path)
    with pytest.raises(error, match=words) as caught:
        read_all(path)
    assert "\n" not in str(caught.value)


KEYS: dict[str, tuple[dict[str, Any], str]] = {
    "absent": ({"features_key": "foo"}, r"no dataset 'foo'.*'features' \(50, 4\), 'labels' \(50\)"),
    "absent labels": ({"labels_key": "train/foo"}, "no dataset 'train/foo'"),
    "group": ({"features_key": "train"}, "'train' is a group.*'train/x'"),
    "below a dataset": ({"features_key": "features/x"}, "no dataset 'features/x'"),
    "odd name": ({"features_key": "\x1b[31m" + "a" * 500}, re.escape(r"'\x1b[31maaa")),
    "null byte": ({"features_key": "a\0b"}, "cannot be read|no dataset"),
}


@pytest.mark.parametrize("case", KEYS)
def test_key_refused(case: str, tmp_path: Path) -> None:
    put(tmp_path / "f.h5", **{"train/x": Y})
    options, words = KEYS[case]
    with pytest.raises(DataError, match=words) as caught:
        open_features(InputOptions(paths=(str(tmp_path / "f.h5"),), **options))
    assert len(str(caught.value)) < 600


def test_virtual_sources_are_looked_for_even_when_allowed(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    options = InputOptions(paths=(str(path),), allow_external=True)
    dataset(path, lambda file: virtual(file, "part.h5"))
    with pytest.raises(DataError, match=r"source 'part.h5' is missing.*zeros"):
        open_features(options)
    small_source(path)
    with pytest.raises(DataError, match=r"source 'x' has only \(10, 4\)"):
        open_features(options)
    with h5py.File(tmp_path / "part.h5", "w") as file:
        file["x"] = H
    with open_features(options) as features:
        np.testing.assert_array_equal(next(features.chunks(50)).h, H)


@pytest.mark.parametrize("make", [external_link, soft_to_external])
def test_external_links_are_followed_if_allowed(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "f.h5")
    with open_features(InputOptions(paths=(str(tmp_path / "f.h5"),), allow_external=True)) as features:
        np.testing.assert_array_equal(next(features.chunks(50)).h, H)
    (tmp_path / "other.h5").unlink()
    with pytest.raises(DataError, match="link to nothing"):
        open_features(InputOptions(paths=(str(tmp_path / "f.h5"),), allow_external=True))


def test_locked_by_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    put(path)
    script = f"import h5py\nf = h5py.File({str(path)!r}, 'r+')\nprint('open', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=-1) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        with pytest.raises(StorageError, match="another process is writing"):
            open_features(InputOptions(paths=(str(path),)))
        writer.communicate(b"\n")


def test_file_systems_without_locks_are_read_anyway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "f.h5")
    real = h5py.File

    def without_locks(path: Path, mode: str, locking: bool | None = None) -> h5py.File:
        if locking is not False:
            raise OSError(37, "Unable to synchronously open file (unable to lock file, errno = 37)")
        return real(path, mode, locking=locking)

    monkeypatch.setattr(hdf5.h5py, "File", without_locks)
    with hdf5.open_hdf5(tmp_path / "f.h5") as file:
        assert file["features"].shape == (50, 4)


def test_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "f.h5")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Unable to synchronously open file (errno = 13)")

    monkeypatch.setattr(hdf5.h5py, "File", refuse)
    with pytest.raises(StorageError, match="permission denied"):
        hdf5.open_hdf5(tmp_path / "f.h5")


def test_several_files_must_fit(tmp_path: Path) -> None:
    a, b = tmp_path / "a.h5", tmp_path / "b.h5"
    put(a)
    put(b, H[:, :3])
    with pytest.raises(DataError, match=r"b.h5: 'features' has 3 columns, .*a.h5 has 4"):
        open_features(InputOptions(paths=(str(a), str(b))))
    put(b, y=Y.astype("S3"))
    with pytest.raises(DataError, match=r"b.h5: labels are names, those of .*a.h5 are numbers"):
        open_features(InputOptions(paths=(str(a), str(b))))
    put(b, with_value(H, 6, np.nan))
    with (
        open_features(InputOptions(paths=(str(a), str(b)))) as features,
        pytest.raises(DataError, match=r"b.h5.* row 56 \(row 6 of this file\)"),
    ):
        list(features.chunks(13))
    (tmp_path / "link.h5").symlink_to(a)
    with pytest.raises(DataError, match=r"link.h5: given twice \(as .*a.h5\)"):
        open_features(InputOptions(paths=(str(a), str(tmp_path / "link.h5"))))


def test_patterns_that_match_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file matches"):
        open_features(InputOptions(paths=(str(tmp_path / "*.h5"),)))
    with pytest.raises(UsageError, match="at least one path"):
        open_features(InputOptions())


def test_file_replaced_during_the_run(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    put(path)
    with open_features(InputOptions(paths=(str(path),))) as features:
        features.check_unchanged()
        put(tmp_path / "new.h5", H + 1)
        (tmp_path / "new.h5").replace(path)
        with pytest.raises(DataError, match="changed during the run"):
            features.check_unchanged()
        path.unlink()
        with pytest.raises(DataError, match="changed during the run"):
            features.check_unchanged()


def test_rows_out_of_range(tmp_path: Path) -> None:
    put(tmp_path / "f.h5")
    with open_features(InputOptions(paths=(str(tmp_path / "f.h5"),))) as features:
        for row in (-1, 50):
            with pytest.raises(DataError, match=f"row {row} .*expected 0 to 49"):
                features.read_rows(np.array([3, row]))
        with pytest.raises(DataError, match="no 'logits'"):
            features.read_rows(np.array([3]), logits=True)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_archives_are_read_or_refused(save: Callable[..., None], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    save(tmp_path / "f.npz", features=H, labels=Y)
    whole = (tmp_path / "f.npz").read_bytes()
    for _ in range(200):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), 3):
            data[at] = rng.integers(0, 256)
        (tmp_path / "f.npz").write_bytes(data)
        with contextlib.suppress(DataError):
            read_all(tmp_path / "f.npz")

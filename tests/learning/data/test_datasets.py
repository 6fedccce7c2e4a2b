"""Datasets on disk: order and labels against torchvision's readers, and pickles that must not be read."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import datasets as theirs

from pdac_cli.errors import DataError, UsageError
from pdac_cli.learning.data import downloads
from pdac_cli.learning.data.datasets import open_dataset, open_folder, scheme_of
from pdac_cli.learning.data.images import ArrayImages
from pdac_cli.learning.data.preprocessing import IMAGENET, own_size, settle
from pdac_cli.options.extract import PreprocessingOptions, Split
from tests.learning.malicious import Malicious

HOW = settle(PreprocessingOptions(), {}, own_size(IMAGENET), 3)


def picture(path: Path, number: int = 0, size: int = 8) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(number)
    Image.fromarray(rng.integers(0, 256, (size, size, 3), dtype=np.uint8)).save(path)


def tree(root: Path) -> Path:
    names = ["b/2.png", "b/10.png", "b/deep/1.png", "a/x.PNG", "c d/é.png", "a/Z.jpg"]
    for number, name in enumerate(names):
        picture(root / name, number)
    (root / "b" / "notes.txt").write_text("no image")
    (root / ".cache").mkdir()
    picture(root / ".cache" / "thumb.png")
    return root


def test_folders_are_listed_as_torchvision_lists_them(tmp_path: Path) -> None:
    images = open_folder(tree(tmp_path), None)
    (tmp_path / ".cache" / "thumb.png").unlink()
    (tmp_path / ".cache").rmdir()
    oracle = theirs.ImageFolder(str(tmp_path))
    assert images.label_names == tuple(oracle.classes)
    assert [str(tmp_path / name.decode()) for name in images.ids] == [path for path, _ in oracle.samples]
    assert images.labels.tolist() == oracle.targets
    loaded = images.load(0, len(images.ids), HOW, (8, 8))
    assert not loaded.bad
    for x, (image, _) in zip(loaded.x, oracle, strict=True):
        assert np.array_equal(x.permute(1, 2, 0).numpy(), np.asarray(image))


def test_the_list_decides_the_digest(tmp_path: Path) -> None:
    before = open_folder(tree(tmp_path / "x"), None).digest
    assert open_folder(tree(tmp_path / "y"), None).digest == before
    (tmp_path / "x" / "b" / "2.png").rename(tmp_path / "x" / "b" / "3.png")
    assert open_folder(tmp_path / "x", None).digest != before


@pytest.mark.parametrize(("split", "folder"), [(Split.TRAIN, "train"), (Split.TEST, "val")])
def test_split_folders(tmp_path: Path, split: Split, folder: str) -> None:
    tree(tmp_path / "train")
    picture(tmp_path / "val" / "a" / "only.png")
    images = open_folder(tmp_path, split)
    assert len(images.ids) == len(open_folder(tmp_path / folder, None).ids)
    with pytest.raises(DataError, match=r"its folders are train, val; expected one folder per class.*--split"):
        open_folder(tmp_path, None)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _: None, "not found; expected a folder of images"),
        (lambda root: root.mkdir(), "holds no images in folders"),
        (lambda root: picture(root / "loose.png"), "holds no images in folders"),
        (lambda root: (root / "a").mkdir(parents=True), "holds no images in folders"),
    ],
)
def test_folders_without_images_are_refused(tmp_path: Path, make: Callable[[Path], None], words: str) -> None:
    make(tmp_path / "data")
    with pytest.raises(DataError, match=words):
        open_folder(tmp_path / "data", None)
    with pytest.raises(DataError, match=r"has no folder train or training|not found"):
        open_folder(tmp_path / "data", Split.TRAIN)


def tiny_imagenet(root: Path) -> Path:
    base = root / "tiny-imagenet-200"
    for number, label in enumerate(("n02", "n01")):
        picture(base / "train" / label / "images" / f"{label}_0.JPEG", number)
        picture(base / "val" / "images" / f"val_{number}.JPEG", 10 + number)
    (base / "wnids.txt").write_text("n02\nn01\n")
    (base / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn02\t0\t0\t1\t1\nval_1.JPEG\tn01\t0\t0\t1\t1\n")
    return base


def test_tiny_imagenet(tmp_path: Path) -> None:
    base = tiny_imagenet(tmp_path)
    for path in (tmp_path, base):
        train = open_dataset("tinyimagenet", path, None, download=False)
        assert train.label_names == ("n01", "n02")
        assert [name.decode() for name in train.ids] == ["train/n01/images/n01_0.JPEG", "train/n02/images/n02_0.JPEG"]
        assert train.labels.tolist() == [0, 1]
        val = open_dataset("tinyimagenet", path, Split.TEST, download=False)
        assert [name.decode() for name in val.ids] == ["val/images/val_0.JPEG", "val/images/val_1.JPEG"]
        assert val.labels.tolist() == [1, 0]
    picture(base / "val" / "images" / "val_9.JPEG")
    with pytest.raises(DataError, match=r"no known class for val/images/val_9\.JPEG"):
        open_dataset("tinyimagenet", base, Split.TEST, download=False)


def test_tiny_imagenet_with_a_short_list_of_classes(tmp_path: Path) -> None:
    base = tiny_imagenet(tmp_path)
    (base / "wnids.txt").write_text("n02\n")
    words = r"wnids.txt: lists 1 classes and train has 2 folders, of which 1 would be ignored \('n01'.*--classes listed"
    with pytest.raises(DataError, match=words):
        open_dataset("tinyimagenet", base, None, download=False)
    for split in (None, Split.TEST):
        found = open_dataset("tinyimagenet", base, split, False, ("listed",))
        assert (found.label_names, found.labels.tolist()) == (("n02",), [0])
    (base / "wnids.txt").write_text("n02\nn01\n")
    assert open_dataset("tinyimagenet", base, None, False, ("n02",)).label_names == ("n02",)
    with pytest.raises(UsageError, match=r"--classes names 'n03'; expected folders of .*did you mean"):
        open_dataset("tinyimagenet", base, None, False, ("n03",))
    with pytest.raises(UsageError, match="--classes is given with cifar10"):
        open_dataset("cifar10", base, None, False, ("n03",))


def test_tiny_imagenet_is_fetched_only_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def refuse(*arguments: object, **_: object) -> None:
        asked.append(arguments[0])
        raise OSError("no route to host")

    monkeypatch.setattr(downloads, "download_and_extract_archive", refuse)
    with pytest.raises(DataError, match=r"holds no Tiny-ImageNet.*--download"):
        open_dataset("tinyimagenet", tmp_path, None, download=False)
    assert not asked
    with pytest.raises(DataError, match=r"cannot be fetched.*no route to host"):
        open_dataset("tinyimagenet", tmp_path, None, download=True)
    assert len(asked) == 1


def records(n: int, classes: int, label_bytes: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    data = rng.integers(0, 256, (n, label_bytes + 3072), dtype=np.uint8)
    data[:, :label_bytes] %= classes
    return data


def binary_cifar10(root: Path) -> list[np.ndarray]:
    folder = root / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    parts = [records(n, 10, 1) for n in range(2, 7)]
    for number, part in enumerate(parts, 1):
        part.tofile(folder / f"data_batch_{number}.bin")
    records(4, 10, 1).tofile(folder / "test_batch.bin")
    (folder / "batches.meta.txt").write_text("\n".join(f"name{k}" for k in range(10)) + "\n\n")
    return parts


def python_cifar10(root: Path, parts: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same images as pickles, with torchvision's list of checksums made to fit them."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir(parents=True)

    def write(name: str, content: object) -> list[str]:
        raw = pickle.dumps(content)
        (folder / name).write_bytes(raw)
        return [name, hashlib.md5(raw, usedforsecurity=False).hexdigest()]

    train = [
        write(f"data_batch_{number}", {"data": part[:, 1:], "labels": part[:, 0].tolist()})
        for number, part in enumerate(parts, 1)
    ]
    test = records(4, 10, 1)
    monkeypatch.setattr(theirs.CIFAR10, "train_list", train)
    monkeypatch.setattr(
        theirs.CIFAR10, "test_list", [write("test_batch", {"data": test[:, 1:], "labels": test[:, 0].tolist()})]
    )
    name, md5 = write("batches.meta", {"label_names": [f"name{k}" for k in range(10)]})
    monkeypatch.setattr(theirs.CIFAR10, "meta", {"filename": name, "key": "label_names", "md5": md5})


@pytest.mark.parametrize("split", [None, Split.TEST])
def test_both_forms_of_cifar10_are_the_same_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: Split | None
) -> None:
    parts = binary_cifar10(tmp_path / "bin")
    python_cifar10(tmp_path / "py", parts, monkeypatch)
    opened = [open_dataset("cifar10", tmp_path / form, split, download=False) for form in ("bin", "py")]
    inside = open_dataset("cifar10", tmp_path / "bin" / "cifar-10-batches-bin", split, download=False)
    assert isinstance(opened[0], ArrayImages)
    assert opened[0].label_names == opened[1].label_names == tuple(f"name{k}" for k in range(10))
    assert opened[0].labels.tolist() == opened[1].labels.tolist() == inside.labels.tolist()
    n = len(opened[0].labels)
    assert n == (20 if split is None else 4)
    x = [images.load(0, n, HOW, (32, 32)).x for images in opened]
    assert torch.equal(x[0], x[1])
    expected = np.concatenate(parts) if split is None else records(4, 10, 1)
    assert np.array_equal(x[0].numpy(), expected[:, 1:].reshape(-1, 3, 32, 32))
    assert opened[0].ids[0].decode() == ("train-00000" if split is None else "test-00000")


def test_cifar100_takes_the_fine_labels(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    data = records(5, 100, 2)
    data.tofile(folder / "train.bin")
    images = open_dataset("cifar100", tmp_path, Split.TRAIN, download=False)
    assert images.labels.tolist() == data[:, 1].tolist()
    assert images.label_names is None
    with pytest.raises(DataError, match="holds no cifar100"):
        open_dataset("cifar100", tmp_path, Split.TEST, download=False)


def test_pickles_with_other_checksums_are_not_opened(tmp_path: Path, canary: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch", "batches.meta"]:
        (folder / name).write_bytes(pickle.dumps(Malicious(canary)))
    with pytest.raises(DataError, match=r"checksums differ.*none was read"):
        open_dataset("cifar10", tmp_path, None, download=False)
    assert not canary.exists()


def test_damaged_and_missing_cifar(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds no cifar10 .*--download"):
        open_dataset("cifar10", tmp_path, None, download=False)
    binary_cifar10(tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").write_bytes(b"x" * 5000)
    with pytest.raises(DataError, match=r"data_batch_3.bin: has 5,000 bytes; expected a multiple of 3,073"):
        open_dataset("cifar10", tmp_path, None, download=False)
    shifted = records(4, 10, 1).tobytes()[1:] + b"\xff"  # of the right size, but a byte was lost
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").write_bytes(shifted)
    with pytest.raises(DataError, match=r"data_batch_3.bin: has the label \d+; expected 0 to 9; copy the file again"):
        open_dataset("cifar10", tmp_path, None, download=False)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"data_batch_3.bin: cannot be read"):
        open_dataset("cifar10", tmp_path, None, download=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cifar10:data", ("cifar10", Path("data"))),
        ("tinyimagenet:", ("tinyimagenet", Path())),
        ("images/", (None, Path("images"))),
        ("odd:name", (None, Path("odd:name"))),
    ],
)
def test_schemes(text: str, expected: tuple) -> None:
    assert scheme_of(text) == expected

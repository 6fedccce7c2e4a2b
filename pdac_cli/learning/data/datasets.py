"""Where images come from on disk: class-per-folder trees, CIFAR in both its forms, Tiny-ImageNet's own layout."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from torchvision.datasets.folder import IMG_EXTENSIONS

from pdac_cli.errors import DataError, UsageError
from pdac_cli.learning.data.cifar import open_cifar
from pdac_cli.learning.data.downloads import fetched
from pdac_cli.learning.data.images import FileImages, Images
from pdac_cli.options.checks import did_you_mean
from pdac_cli.options.extract import SCHEMES, Split
from pdac_cli.storage.reading import quote

_PARTS = {Split.TRAIN: ("train", "training"), Split.TEST: ("test", "val", "valid", "validation")}
_PART_NAMES = {name for names in _PARTS.values() for name in names}
_TINY_FOLDER = "tiny-imagenet-200"
_TINY_URL = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"
_TINY_MD5 = "90528d7ca1a48142e341f4ef8d21d0de"
LISTED = "listed"


def scheme_of(data: str) -> tuple[str | None, Path]:
    """Split ``cifar10:PATH`` into its parts; anything else is a path."""
    scheme, colon, path = data.partition(":")
    return (scheme, Path(path or ".")) if colon and scheme in SCHEMES else (None, Path(data))


def open_dataset(scheme: str, path: Path, split: Split | None, download: bool, wanted: tuple[str, ...] = ()) -> Images:
    """Open a dataset named by its scheme; the training part unless another is asked for."""
    split = split or Split.TRAIN
    if scheme == "tinyimagenet":
        return open_tiny_imagenet(path, split, download, wanted)
    if wanted:
        raise UsageError(
            f"--classes is given with {scheme}, whose classes are not folders; expected a folder of images or "
            "tinyimagenet:PATH; leave it out"
        )
    return open_cifar(scheme, path, split, download)


def open_folder(root: Path, split: Split | None, wanted: tuple[str, ...] = ()) -> FileImages:
    """A tree with one folder per class; classes and files in sorted order, as torchvision's ImageFolder has them."""
    root = _part(root, split)
    classes = [entry.name for entry in _sorted(root) if entry.is_dir()]
    if wanted:
        classes = _chosen(wanted, classes, root)
    files = [(name, size, k) for k, label in enumerate(classes) for name, size in _images(root, label)]
    if not files:
        raise DataError(
            f"{root}: holds no images in folders; expected one folder per class with {', '.join(IMG_EXTENSIONS[:4])} … "
            "files; check the path"
        )
    names, sizes, labels = zip(*files, strict=True)
    return FileImages("folder", root, names, sizes, labels, classes)


def open_tiny_imagenet(path: Path, split: Split, download: bool, wanted: tuple[str, ...] = ()) -> FileImages:
    """Tiny-ImageNet-200; its own test part has no labels, so the validation part is what tests are made on."""
    root = path if (path / "wnids.txt").is_file() else path / _TINY_FOLDER
    if not (root / "wnids.txt").is_file() and download:
        fetched(_TINY_URL, path, _TINY_MD5)
    if not (root / "wnids.txt").is_file():
        raise DataError(
            f"{path}: holds no Tiny-ImageNet (no {_TINY_FOLDER}/wnids.txt); expected it unpacked there; add --download "
            f"or fetch {_TINY_URL}"
        )
    classes = _tiny_classes(root, wanted)
    listed = _tiny_train(root, classes) if split is Split.TRAIN else _tiny_val(root, classes, bool(wanted))
    if not listed:
        raise DataError(f"{root}: its {split.value} part has no images; expected Tiny-ImageNet's own layout")
    names, sizes, labels = zip(*listed, strict=True)
    return FileImages("tinyimagenet", root, names, sizes, labels, classes)


def _tiny_classes(root: Path, wanted: tuple[str, ...]) -> list[str]:
    """The classes wanted, else those of wnids.txt, which must be all that there are."""
    classes = sorted(line.strip() for line in _lines(root / "wnids.txt") if line.strip())
    if wanted not in ((), (LISTED,)):
        return _chosen(wanted, classes, root)
    folders = [entry.name for entry in _sorted(root / "train") if entry.is_dir()] if (root / "train").is_dir() else []
    ignored = sorted(set(folders) - set(classes))
    if ignored and not wanted:
        raise DataError(
            f"{root / 'wnids.txt'}: lists {len(classes):,} classes and train has {len(folders):,} folders, of which "
            f"{len(ignored):,} would be ignored ({', '.join(map(quote, ignored[:3]))} …); expected all of them; "
            f"restore the file, or add --classes {LISTED}"
        )
    return classes


def _chosen(wanted: tuple[str, ...], classes: list[str], root: Path) -> list[str]:
    unknown = [name for name in wanted if name not in classes]
    if unknown:
        near = did_you_mean(unknown[0], classes)
        raise UsageError(f"--classes names {quote(unknown[0])}; expected folders of {root}, such as "
                         f"{', '.join(map(quote, classes[:3]))}{near}")  # fmt: skip
    return sorted(set(wanted))


def _tiny_train(root: Path, classes: list[str]) -> list[tuple[str, int, int]]:
    return [
        (name, size, k)
        for k, label in enumerate(classes)
        for name, size in _images(root, f"train/{label}")
    ]  # fmt: skip


def _tiny_val(root: Path, classes: list[str], some: bool) -> list[tuple[str, int, int]]:
    """``val/val_annotations.txt`` gives each file's class in its second column."""
    annotations = root / "val" / "val_annotations.txt"
    label_of = dict(line.split("\t")[:2] for line in _lines(annotations) if "\t" in line)
    number = {label: k for k, label in enumerate(classes)}
    listed = []
    for name, size in _images(root, "val/images"):
        label = label_of.get(Path(name).name)
        if label not in number and some:
            continue
        if label not in number:
            raise DataError(f"{annotations}: has no known class for {name}; expected one of wnids.txt for every image")
        listed.append((name, size, number[label]))
    return listed


def _part(root: Path, split: Split | None) -> Path:
    """The folder of the split asked for; without one, refuse a tree whose folders are splits and not classes."""
    if not root.is_dir():
        raise DataError(f"{root}: not found; expected a folder of images, an array file or one of cifar10:PATH …")
    if split is not None:
        found = [root / name for name in _PARTS[split] if (root / name).is_dir()]
        if not found:
            raise DataError(
                f"{root}: has no folder {' or '.join(_PARTS[split])} for --split {split.value}; "
                "expected one; leave --split out to take all images"
            )
        return found[0]
    names = {entry.name for entry in _sorted(root) if entry.is_dir()}
    if names and names <= _PART_NAMES:
        raise DataError(
            f"{root}: its folders are {', '.join(sorted(names))}; expected one folder per class; "
            "choose a part with --split train or --split test"
        )
    return root


def _images(root: Path, folder: str) -> Iterator[tuple[str, int]]:
    """Image files below a folder, as paths from the root with their sizes, folder by folder in sorted order."""
    try:
        entries = _sorted(root / folder)
        images = [entry for entry in entries if entry.name.lower().endswith(IMG_EXTENSIONS) and entry.is_file()]
        files = [(f"{folder}/{entry.name}", entry.stat().st_size) for entry in images]
        folders = [f"{folder}/{entry.name}" for entry in entries if entry.is_dir()]
    except OSError as problem:  # also links that lead in a circle
        reason = (problem.strerror or "unknown reason").lower()
        raise DataError(f"{root / folder}: cannot be read ({reason}); expected a folder of images") from problem
    yield from files
    for name in folders:
        yield from _images(root, name)


def _sorted(folder: Path) -> list[os.DirEntry[str]]:
    """Entries by name, without hidden ones (caches and thumbnails of file managers)."""
    with os.scandir(folder) as entries:
        return sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        raise DataError(f"{path}: cannot be read; expected Tiny-ImageNet's own layout") from None

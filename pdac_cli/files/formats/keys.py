"""Which of a file's arrays are the features, labels, logits and ids."""

from __future__ import annotations

from dataclasses import dataclass

from pdac_cli.errors import DataError
from pdac_cli.files.formats.containers import Container
from pdac_cli.options.shared import InputOptions
from pdac_cli.storage.reading import quote

_IMAGES = "images"
FEATURE_NAMES = ("features", "feats", "embeddings", "embedding", "X", "x", "img_emb", "image_embeddings")
LABEL_NAMES = ("labels", "y", "label", "targets")
ID_NAMES = (
    "ids", "id", "paths", "path", "obs_names", "image_path", "image_paths", "filename", "filenames", "file_name", "key",
    "url",
)  # fmt: skip


@dataclass(frozen=True)
class Keys:
    """Names of the arrays inside one file."""

    features: str
    labels: str | None  # None: not asked for
    logits: str | None
    ids: str | None
    label_names: str | None


def find_keys(container: Container, options: InputOptions, with_labels: bool = True) -> Keys:
    """The names given, else the common names at the root, else those in the one group that has them."""
    names = container.names()
    features = options.features_key.strip("/") if options.features_key else _find_features(container, names)
    folder = _folder(features)
    labels = label_names = None
    if with_labels:
        labels = options.labels_key.strip("/") if options.labels_key else find_labels(container, names, features)
        named = _folder(labels) + "label_names"
        label_names = named if named in names else None
    logits = folder + "logits" if folder + "logits" in names else None
    ids = options.ids_key.strip("/") if options.ids_key else find_ids(names, features)
    return Keys(features, labels, logits, ids if ids not in (features, labels) else None, label_names)


def _find_features(container: Container, names: list[str]) -> str:
    for name in FEATURE_NAMES:
        if name in names:
            return name
    found = [name for name in names if name.rsplit("/", 1)[-1] in FEATURE_NAMES]
    groups = sorted({_folder(name) for name in found})
    if not groups and _IMAGES in names:
        raise DataError(
            f"{container.path}: holds {quote(_IMAGES)} and no features; expected those of a network; run pdac "
            f"extract --data {container.path} --checkpoint PATH -o feats.h5 first"
        )
    if not groups:
        raise DataError(
            f"{container.path}: has no features; expected a dataset called {_either(FEATURE_NAMES)}; "
            f"name yours with --features-key: the file holds {container.describe()}"
        )
    if len(groups) > 1:
        raise DataError(
            f"{container.path}: has features in several groups, {', '.join(map(quote, found[:12]))}; "
            f"expected one; choose with --features-key {found[0]}"
        )
    return min(found, key=lambda name: FEATURE_NAMES.index(name.rsplit("/", 1)[-1]))


def find_labels(container: Container, names: list[str], features: str) -> str:
    """The name of the labels beside the features, else at the root."""
    found = _beside(names, features, LABEL_NAMES)
    if found is None:
        raise DataError(
            f"{container.path}: has no labels beside {quote(features)}; expected a dataset called "
            f"{_either(LABEL_NAMES)}; name yours with --labels-key, give them with --labels FILE, or add --no-labels: "
            f"the file holds {container.describe()}"
        )
    return found


def find_ids(names: list[str], features: str = "") -> str | None:
    """The name of what rows are called by, if there is one."""
    return _beside(names, features, ID_NAMES)


def _beside(names: list[str], features: str, known: tuple[str, ...]) -> str | None:
    for folder in dict.fromkeys((_folder(features), "")):
        for name in known:
            if folder + name in names:
                return folder + name
    return None


def _folder(key: str) -> str:
    """``train/`` of ``train/features``; empty at the root."""
    return key.rsplit("/", 1)[0] + "/" if "/" in key else ""


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"

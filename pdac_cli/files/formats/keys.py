"""Which of a file's arrays are the features, labels, logits and ids."""

from __future__ import annotations

from dataclasses import dataclass

from pdac_cli.errors import DataError
from pdac_cli.files.formats.containers import Container
from pdac_cli.storage.reading import quote

FEATURE_NAMES = ("features", "feats", "embeddings", "X", "x")
LABEL_NAMES = ("labels", "y", "label", "targets")


@dataclass(frozen=True)
class Keys:
    """Names of the arrays inside one file."""

    features: str
    labels: str
    logits: str | None
    ids: str | None
    label_names: str | None


def find_keys(container: Container, features_key: str | None, labels_key: str | None) -> Keys:
    """The names given, else the common names at the root, else those in the one group that has them."""
    names = container.names()
    features = features_key.strip("/") if features_key else _find_features(container, names)
    folder = _folder(features)
    labels = labels_key.strip("/") if labels_key else _find_labels(container, names, features)
    logits, ids = (folder + name if folder + name in names else None for name in ("logits", "ids"))
    named = _folder(labels) + "label_names"
    return Keys(features, labels, logits, ids, named if named in names else None)


def _find_features(container: Container, names: list[str]) -> str:
    for name in FEATURE_NAMES:
        if name in names:
            return name
    found = [name for name in names if name.rsplit("/", 1)[-1] in FEATURE_NAMES]
    groups = sorted({_folder(name) for name in found})
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


def _find_labels(container: Container, names: list[str], features: str) -> str:
    for folder in dict.fromkeys((_folder(features), "")):  # beside the features, else at the root
        for name in LABEL_NAMES:
            if folder + name in names:
                return folder + name
    raise DataError(
        f"{container.path}: has no labels beside {quote(features)}; expected a dataset called "
        f"{_either(LABEL_NAMES)}; name yours with --labels-key: the file holds {container.describe()}"
    )


def _folder(key: str) -> str:
    """``train/`` of ``train/features``; empty at the root."""
    return key.rsplit("/", 1)[0] + "/" if "/" in key else ""


def _either(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"

"""Published weights: from the cache, or a clear refusal."""

from __future__ import annotations

import urllib.error
from pathlib import Path

import pytest
import torch
from torchvision import models

from pdac_cli.errors import ModelError, UsageError
from pdac_cli.learning.networks.weights import published


def test_cached_weights_are_used_with_their_own_preprocessing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    name = models.EfficientNet_B0_Weights.DEFAULT.url.rsplit("/", 1)[-1]
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / name).write_bytes(b"weights")
    path, usual = published("efficientnet_b0", "DEFAULT")
    assert path.read_bytes() == b"weights"
    assert (usual.resize, usual.crop, usual.interpolation) == ((256,), (224,), "bicubic")
    assert usual.mean == (0.485, 0.456, 0.406)


def test_weights_out_of_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr(torch.hub, "download_url_to_file", refuse)
    with pytest.raises(
        ModelError, match=r"resnet18-.*\.pth: not in the cache and cannot be fetched \(no route to host\)"
    ):
        published("resnet18", "DEFAULT")
    assert not list((tmp_path / "checkpoints").iterdir())


def test_weights_that_do_not_exist() -> None:
    with pytest.raises(UsageError, match="resnet18 has no such weights; expected one of IMAGENET1K_V1, DEFAULT"):
        published("resnet18", "BEST")
    with pytest.raises(UsageError, match="no such network"):
        published("resnet17", "DEFAULT")

"""torchvision's published weights: from its cache, else from the network, with the preprocessing they go with."""

from __future__ import annotations

import urllib.error
from pathlib import Path
from typing import Any

import torch
from torchvision import models

from pdac_cli.errors import ModelError, UsageError
from pdac_cli.learning.data.preprocessing import Convention
from pdac_cli.learning.networks.networks import check_arch


def published(arch: str, name: str) -> tuple[Path, Convention]:
    """Return the weights' file, fetched if it is not in the cache, and how their images are prepared."""
    check_arch(arch)
    known: Any = models.get_model_weights(arch)
    if name not in known.__members__:
        raise UsageError(
            f"--weights {name}: {arch} has no such weights; expected one of {', '.join(known.__members__)}"
        )
    weights = known[name]
    preset = weights.transforms()
    convention = Convention(
        tuple(preset.mean),
        tuple(preset.std),
        tuple(preset.resize_size),
        tuple(preset.crop_size),
        preset.interpolation.value,
    )
    return _cached(weights.url), convention


def _cached(url: str) -> Path:
    """The file in torch's cache; a download takes its name there only when its hash is right."""
    name = url.rsplit("/", 1)[-1]
    path = Path(torch.hub.get_dir()) / "checkpoints" / name
    if path.is_file():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        expected = name.rsplit("-", 1)[-1].split(".")[0]  # the names end in the beginning of their SHA-256
        torch.hub.download_url_to_file(url, str(path), hash_prefix=expected, progress=False)
    except (urllib.error.URLError, OSError, RuntimeError, ValueError) as problem:
        reason = " ".join(str(getattr(problem, "reason", problem)).split())[:100]
        raise ModelError(
            f"{url}: not in the cache and cannot be fetched ({reason}); expected either; "
            f"fetch it elsewhere and put it in {path.parent}, or give --checkpoint"
        ) from None
    return path

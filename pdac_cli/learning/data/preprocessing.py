"""What is done to an image before the network sees it: resize, centre crop, standardise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import IO, Any

import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as transform

from pdac_cli.errors import ModelError, UsageError
from pdac_cli.options.extract import STATISTICS, PreprocessingOptions

_MAX_PIXELS = 1 << 26  # of one image, as it is or resized
MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # what files are decoded to, by the network's channels
# Of the formats that Pillow knows, some are read by programs that it starts (EPS by gs) or by code that few ever use.
FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP", "GIF")
Size = tuple[int, ...]


class UnfitImage(ValueError):  # noqa: N818 -- what is wrong is the image
    """An image of a size that cannot be used."""


@dataclass(frozen=True)
class Preprocessing:
    """Bytes (channels, h, w) → resized, cropped, divided by 255, minus ``mean``, over ``std``."""

    channels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    resize: Size | None = None  # one number: the shorter side; two: height and width
    crop: Size | None = None
    interpolation: str = "bilinear"

    def geometry(self, image: Any) -> Any:
        """Resize and crop a PIL image or a tensor (…, h, w), both as torchvision's own presets do."""
        height, width = image.shape[-2:] if isinstance(image, Tensor) else (image.height, image.width)
        if self.resize is not None:
            if len(self.resize) == 1 and self.resize[0] ** 2 * max(height, width) > _MAX_PIXELS * min(height, width):
                raise UnfitImage(f"{height}x{width} pixels are too many once the shorter side has {self.resize[0]}")
            mode = InterpolationMode(self.interpolation)
            image = transform.resize(image, list(self.resize), interpolation=mode, antialias=True)
        if self.crop is not None:
            height, width = image.shape[-2:] if isinstance(image, Tensor) else (image.height, image.width)
            rows, columns = (self.crop * 2)[:2]
            if height < rows or width < columns:  # torchvision would fill up with black
                raise UnfitImage(f"{height}x{width} pixels are fewer than the crop of {rows}x{columns}; add --resize")
            image = transform.center_crop(image, [rows, columns])
        return image

    def decode(self, image: Image.Image) -> Tensor:
        """Return a PIL image as bytes (channels, h, w), resized and cropped."""
        mode = MODES[self.channels]
        image = image if image.mode == mode else image.convert(mode)
        tensor: Tensor = transform.pil_to_tensor(self.geometry(image))
        return tensor

    def read(self, stream: IO[bytes]) -> Image.Image:
        """Return an image file's first picture, in the network's channels; this raises whatever Pillow does."""
        with Image.open(stream, formats=FORMATS) as image:
            if image.height * image.width > _MAX_PIXELS:
                raise UnfitImage(f"{image.height}x{image.width} pixels are more than {_MAX_PIXELS:,}")
            return image.convert(MODES[self.channels])

    def standardise(self, x: Tensor) -> Tensor:
        """Return what the network takes: x (n, channels, h, w), bytes or floats in [0, 1], standardised in float32."""
        mean = torch.tensor(self.mean, device=x.device).view(1, -1, 1, 1)
        std = torch.tensor(self.std, device=x.device).view(1, -1, 1, 1)
        if x.dtype != torch.uint8:
            return (x.float() - mean) / std
        return x.float().div_(255).sub_(mean).div_(std)  # in place: making new tensors takes longer than the arithmetic

    def attributes(self) -> dict[str, str]:
        """Return it as text for a file's attributes."""
        return {
            "resize": size_text(self.resize),
            "crop": size_text(self.crop),
            "interpolation": self.interpolation if self.resize else "none",
            "mean": ",".join(repr(value) for value in self.mean),
            "std": ",".join(repr(value) for value in self.std),
            "channels": str(self.channels),
        }


@dataclass(frozen=True)
class Convention:
    """What is usual; None where nothing is."""

    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    resize: Size | None = None
    crop: Size | None = None
    interpolation: str = "bilinear"


IMAGENET = Convention(*STATISTICS["imagenet"], (256,), (224,))
CONVENTIONS = {
    **{name: Convention(*STATISTICS[name]) for name in ("cifar10", "cifar100", "tinyimagenet")},
    "folder": IMAGENET,
}


def settle(options: PreprocessingOptions, meta: Mapping[str, Any], usual: Convention, channels: int) -> Preprocessing:
    """Settle each step by the options, else by the checkpoint's metadata, else by what is usual."""
    if channels not in MODES:
        raise ModelError(f"the network takes images of {channels} channels; expected 1, 3 or 4")
    told = _told(meta)
    mean, std = options.mean or told.mean or usual.mean, options.std or told.std or usual.std
    if (mean is None) != (std is None):
        there, missing = ("mean", "std") if std is None else ("std", "mean")
        raise UsageError(
            f"--{missing} is missing: there is a {there} and nothing says the {missing}; expected both; add "
            f"--{missing} ({'1' if missing == 'std' else '0'} for none)"
        )
    if mean is None or std is None:
        raise UsageError(
            "nothing says how the images were standardised when the network was trained; expected 'mean' and 'std' in "
            "the checkpoint's metadata; add --mean and --std (0 and 1 for none)"
        )
    if options.resize or options.crop:
        resize, crop = options.resize, options.crop
    elif told.resize or told.crop:
        resize, crop = told.resize, told.crop
    else:
        resize, crop = usual.resize, usual.crop
    mean, std = _per_channel("mean", mean, channels), _per_channel("std", std, channels)
    return Preprocessing(channels, mean, std, resize, crop, usual.interpolation)


def contradiction(how: Preprocessing, small_images: bool, told: Mapping[str, Any], usual: Convention | None) -> str:
    """Return what speaks against the means and deviations, empty if nothing does: the network's training, or its form.

    `usual` is what belongs to published weights; small_images: the network is of the form for images as CIFAR has.
    """
    used = (how.mean, how.std)
    name = next((name for name, values in STATISTICS.items() if used == values), "")
    known = _told(told) if usual is None else usual
    where = "the checkpoint's metadata" if usual is None else "these weights"
    if known.mean is not None and known.std is not None:
        trained = tuple(_per_channel(kind, values, how.channels) for kind, values in
                        (("mean", known.mean), ("std", known.std)))  # fmt: skip
        return "" if used == trained else f"{where} were made with mean {_text(trained[0])} and std {_text(trained[1])}"
    if name.startswith(("cifar", "tiny")) and not small_images:
        return f"the network is of the form for ImageNet, the mean and std are those of {name}"
    if name in ("imagenet", "clip") and small_images:
        return f"the network is of the form for CIFAR, the mean and std are those of {name}"
    return ""


def _text(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:g}" for value in values)


def own_size(usual: Convention) -> Convention:
    """The convention without its sizes, for networks trained on images as they are."""
    return replace(usual, resize=None, crop=None)


def size_text(size: Size | None) -> str:
    """A size as the options take it."""
    return "none" if size is None else "x".join(map(str, size))


def _told(meta: Mapping[str, Any]) -> Convention:
    """What a checkpoint's metadata says; an image size without a crop is the size to resize to."""
    mean, std = _numbers(meta, "mean"), _numbers(meta, "std")
    resize, crop = (_whole(meta, name) for name in ("resize", "crop"))
    if resize is None and crop is None:
        size = _whole(meta, "image_size") or _whole(meta, "input_size")
        resize = None if size is None else (size * 2)[:2] if len(size) < 3 else size[-2:]
    return Convention(mean, std, resize, crop)


def _numbers(meta: Mapping[str, Any], name: str) -> tuple[float, ...] | None:
    value = meta.get(name)
    if value is None:
        return None
    items = value.flatten().tolist() if isinstance(value, Tensor) else value
    items = list(items) if isinstance(items, list | tuple) else [items]
    bad = not items or any(isinstance(x, bool) or not isinstance(x, int | float) for x in items)
    if bad or (name == "std" and min(items) <= 0):
        raise ModelError(f"the checkpoint's metadata has '{name}' = {str(value)[:60]}; expected numbers; give --{name}")
    return tuple(float(x) for x in items)


def _whole(meta: Mapping[str, Any], name: str) -> Size | None:
    numbers = _numbers(meta, name)
    if numbers is None:
        return None
    if len(numbers) > 3 or any(x != int(x) or not 1 <= x <= 2**15 for x in numbers):
        raise ModelError(
            f"the checkpoint's metadata has '{name}' = {numbers}; expected a size in pixels; give --resize"
        )
    return tuple(int(x) for x in numbers)


def _per_channel(name: str, numbers: tuple[float, ...], channels: int) -> tuple[float, ...]:
    if len(numbers) not in (1, channels):
        raise UsageError(
            f"{name} has {len(numbers)} numbers and the network takes {channels} channels; "
            f"expected 1 or {channels}; give --{name}"
        )
    return numbers * channels if len(numbers) == 1 else numbers

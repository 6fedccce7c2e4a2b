"""`pdac extract` and `pdac merge`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pdac_cli.options.checks import require
from pdac_cli.options.shared import RunOptions


class Split(StrEnum):
    """Which part of a dataset."""

    TRAIN = "train"
    TEST = "test"


class Amp(StrEnum):
    """Number type of a GPU's matrix products."""

    OFF = "off"
    BF16 = "bf16"
    FP16 = "fp16"


class StoredType(StrEnum):
    """Number type of features and logits on disk."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"


@dataclass(frozen=True)
class PreprocessingOptions:
    """What is done to images; None: as the checkpoint's metadata says, else as is usual for the dataset."""

    mean: tuple[float, ...] | None = None  # on the scale 0 to 1, one per channel
    std: tuple[float, ...] | None = None
    resize: tuple[int, ...] | None = None  # one number: the shorter side; two: height and width
    crop: tuple[int, ...] | None = None  # of the centre, likewise

    def __post_init__(self) -> None:
        """Refuse sizes and scales that no image could have."""
        for name, size in (("resize", self.resize), ("crop", self.crop)):
            valid = size is None or (len(size) in (1, 2) and all(1 <= side <= 2**15 for side in size))
            require(valid, f"--{name} is {size}; expected one size in pixels, such as 224, or two, such as 224x288")
        for numbers in (self.mean, self.std):
            finite = numbers is None or (len(numbers) > 0 and all(abs(x) < float("inf") for x in numbers))
            require(finite, "--mean or --std is not finite; expected one number per channel, such as 0.49,0.48,0.45")
        require(self.std is None or min(self.std) > 0, f"--std is {self.std}; expected numbers above 0")


@dataclass(frozen=True)
class ExtractOptions:
    """``pdac extract``."""

    data: str  # a folder, an array file, or cifar10:PATH, cifar100:PATH, tinyimagenet:PATH
    output: Path
    checkpoint: Path | None = None
    weights: str | None = None  # torchvision's published ones, instead of a checkpoint
    arch: str | None = None  # None: a ResNet18, whose form the checkpoint tells
    split: Split | None = None  # None: train where the dataset has parts, else all images
    preprocessing: PreprocessingOptions = field(default_factory=PreprocessingOptions)
    device: str = "auto"
    amp: Amp = Amp.OFF
    dtype: StoredType = StoredType.FLOAT32
    batch_size: int = 128
    shard: tuple[int, int] | None = None  # i of n, counted from 0
    skip_bad: bool = False  # leave unreadable images out and list them
    download: bool = False
    run: RunOptions = field(default_factory=RunOptions)

    def __post_init__(self) -> None:
        """Refuse combinations that cannot be meant."""
        one = (self.checkpoint is None) != (self.weights is None)
        require(one, "expected either --checkpoint PATH or --weights DEFAULT, and not both")
        require(self.weights is None or self.arch is not None, "--weights is given without --arch; add --arch resnet18")
        require(self.batch_size >= 1, f"--batch-size is {self.batch_size}; expected at least 1")
        if self.shard is not None:
            i, n = self.shard
            require(n >= 1 and 0 <= i < n, f"--shard is {i}/{n}; expected i/n with i from 0 to n - 1")


@dataclass(frozen=True)
class MergeOptions:
    """``pdac merge``."""

    paths: tuple[Path, ...]
    output: Path
    link: bool = False  # a virtual file that refers to the shards, instead of a copy
    run: RunOptions = field(default_factory=RunOptions)

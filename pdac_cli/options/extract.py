"""`pdac extract` and `pdac merge`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from pdac_cli.errors import UsageError
from pdac_cli.options.checks import Options, did_you_mean, require
from pdac_cli.options.declare import Applies, Panel, group, option
from pdac_cli.options.shared import RunOptions, VerbOptions
from pdac_cli.options.text import parse_names, parse_numbers, parse_shard, parse_size


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


def device_option(help: str = "auto, cpu, cuda, cuda:N or mps.") -> Any:  # noqa: A002
    """Declare --device of a network."""
    return option("auto", help=help, panel=Panel.RESOURCES, metavar="NAME")


def amp_option() -> Any:
    """Declare --amp."""
    return option(Amp.OFF, help="Mixed precision on a GPU.", panel=Panel.RESOURCES)


SCHEMES = ("cifar10", "cifar100", "tinyimagenet")  # of data sets by name, which know where they come from


def download_option(sources: Callable[[Any], Iterable[str | None]]) -> Any:
    """Declare --download; `sources` are the texts that say where the data is."""

    def is_named(options: Any) -> bool:
        return any(source is not None and source.partition(":")[0] in SCHEMES for source in sources(options))

    named = Applies(f"a data set by its name, such as {SCHEMES[0]}:PATH", is_named)
    return option(False, help="Fetch a dataset that is not there.", panel=Panel.INPUT, applies=(named,))


# Means and deviations of the training images, as commonly used with each set.
STATISTICS: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "tinyimagenet": ((0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "inception": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
_NOT_HDF5 = (".npz", ".npy", ".parquet", ".csv", ".txt", ".json", ".zarr", ".pt", ".pth", ".safetensors")


def _statistics(which: int) -> Callable[[str, str], tuple[float, ...]]:
    """How --mean (0) or --std (1) is read: numbers, or the name of a set of images that they are of."""

    def parse(option: str, text: str) -> tuple[float, ...]:
        if text.lower() in STATISTICS:
            return STATISTICS[text.lower()][which]
        try:
            return parse_numbers(option, text)
        except UsageError:
            raise UsageError(
                f"{option} is {text!r}; expected numbers with commas, such as 0.49,0.48,0.45, or one of: "
                f"{', '.join(STATISTICS)}{did_you_mean(text, STATISTICS)}"
            ) from None

    return parse


def _check_scale(name: str, values: tuple[float, ...] | None) -> None:
    """Refuse numbers on the scale 0 to 255."""
    if values is not None and max(values) > 1:
        given, divided = (",".join(f"{value * by:.6g}" for value in values) for by in (1, 1 / 255))
        raise UsageError(
            f"--{name} is {given}; expected numbers on the scale 0 to 1; divide by 255: --{name} {divided}"
        )


@dataclass(frozen=True, kw_only=True)
class PreprocessingOptions(Options):
    """What is done to images; None: as the checkpoint's metadata says, else as is usual for the dataset."""

    mean: tuple[float, ...] | None = option(
        None, help="Mean per channel on the scale 0 to 1; or imagenet, cifar10, clip …, for both.",
        panel=Panel.NETWORK, metavar="X,X,X|NAME", parse=_statistics(0),
        otherwise="the checkpoint's, else the dataset's",
        expected="one finite number per channel, such as 0.49,0.48,0.45",
    )  # fmt: skip
    std: tuple[float, ...] | None = option(
        None, help="Deviation per channel, likewise.", panel=Panel.NETWORK, metavar="X,X,X|NAME", parse=_statistics(1),
        above=0, expected="numbers above 0, one per channel",
    )  # fmt: skip
    resize: tuple[int, ...] | None = option(
        None, help="Shorter side, or height x width.", panel=Panel.NETWORK, metavar="N|HxW", parse=parse_size
    )
    crop: tuple[int, ...] | None = option(
        None, help="Centre to keep after resizing.", panel=Panel.NETWORK, metavar="N|HxW", parse=parse_size
    )

    def __post_init__(self) -> None:
        """Refuse sizes and scales that no image could have."""
        for name, size in (("resize", self.resize), ("crop", self.crop)):
            valid = size is None or (len(size) in (1, 2) and all(1 <= side <= 2**15 for side in size))
            require(valid, f"--{name} is {size}; expected one size in pixels, such as 224, or two, such as 224x288")
        super().__post_init__()
        _check_scale("mean", self.mean)
        _check_scale("std", self.std)


@dataclass(frozen=True, kw_only=True)
class ExtractOptions(VerbOptions):
    """``pdac extract``."""

    data: str = option(
        help="Images: a folder per class, an HDF5 or npz file, cifar10:PATH, cifar100:PATH or tinyimagenet:PATH.",
        panel=Panel.INPUT, metavar="DATA", once=True,
    )  # fmt: skip
    output: Path = option(help="Feature file to write.", panel=Panel.OUTPUT, flags=("--output", "-o"))
    checkpoint: Path | None = option(
        None, help="State dict (.pt, .ckpt, .safetensors); read without running code.", panel=Panel.NETWORK
    )
    weights: str | None = option(
        None, help="torchvision's published weights, such as DEFAULT, with --arch.", panel=Panel.NETWORK,
        metavar="NAME",
    )  # fmt: skip
    arch: str | None = option(
        None, help="A torchvision classifier.", panel=Panel.NETWORK, metavar="NAME",
        otherwise="a ResNet18 of the checkpoint's form",
    )  # fmt: skip
    classes: tuple[str, ...] = option(
        (), help="Only these folders of classes; listed: those that wnids.txt lists.", panel=Panel.INPUT,
        metavar="NAME,NAME", parse=parse_names, otherwise="all",
    )  # fmt: skip
    split: Split | None = option(
        None, help="Part of the dataset.", panel=Panel.INPUT, otherwise="train, or all where there are no parts"
    )
    preprocessing: PreprocessingOptions = group(PreprocessingOptions)
    device: str = device_option("auto (cuda, then mps, then cpu), cpu, cuda, cuda:N or mps.")
    amp: Amp = amp_option()
    dtype: StoredType = option(StoredType.FLOAT32, help="Number type on disk.", panel=Panel.OUTPUT)
    batch_size: int = option(128, help="Images per pass of the network.", panel=Panel.RESOURCES, minimum=1)
    shard: tuple[int, int] | None = option(
        None, help="Extract part I of N, from 0; `slurm`: the job array's task.", panel=Panel.INPUT, metavar="I/N",
        parse=parse_shard,
    )  # fmt: skip
    logits: bool = option(
        True, help="Store logits beside the features.", panel=Panel.OUTPUT, flags=("--logits/--no-logits",)
    )
    skip_bad: bool = option(False, help="Leave out images that cannot be read, and list them.", panel=Panel.INPUT)
    download: bool = download_option(lambda options: (options.data,))
    run: RunOptions = group(RunOptions, leave_out=("memory", "device"))

    def __post_init__(self) -> None:
        """Refuse combinations that cannot be meant."""
        super().__post_init__()
        wrong = self.output.suffix.lower() in _NOT_HDF5
        require(
            not wrong,
            f"--output is {self.output}, and extract writes HDF5; expected a name ending in .h5; use "
            f"{self.output.with_suffix('.h5')}",
        )
        one = (self.checkpoint is None) != (self.weights is None)
        require(one, "expected either --checkpoint PATH or --weights DEFAULT, and not both")
        require(self.weights is None or self.arch is not None, "--weights is given without --arch; add --arch resnet18")
        if self.shard is not None:
            i, n = self.shard
            require(n >= 1 and 0 <= i < n, f"--shard is {i}/{n}; expected i/n with i from 0 to n - 1")

    @classmethod
    def implied(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the deviations that belong to means given by a name."""
        found = [std for mean, std in STATISTICS.values() if given.get("mean") == mean]
        return {"std": found[0]} if found else {}


@dataclass(frozen=True, kw_only=True)
class MergeOptions(VerbOptions):
    """``pdac merge``."""

    paths: tuple[Path, ...] = option(
        help="All shards of one extraction.", panel=Panel.INPUT, argument=True, metavar="PART"
    )
    output: Path = option(help="Feature file to write.", panel=Panel.OUTPUT, flags=("--output", "-o"))
    link: bool = option(
        False, help="Write a virtual file that refers to the shards, instead of a copy.", panel=Panel.OUTPUT
    )
    run: RunOptions = group(RunOptions, leave_out=("memory", "jobs", "device"))

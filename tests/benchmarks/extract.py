"""Images per second of ``pdac extract`` beside a bare torch loop, in one run.

    python -m tests.benchmarks.extract [--device cpu] [--images 192] [--trials 5]

The bare loop has its one batch standardised and on the device already and does nothing but ``network(batch)``, in the
memory format that a first trial found the faster.  ``extract`` is the command's whole loop: reading or decoding,
standardising, copying, checking for overflow, and writing parts to disk.  Trials alternate; each is compared with the
bare loop just before it, for other work on the machine comes and goes, and the middle one of these ratios is given,
with the lowest and the highest.  The last column is the same for processor time, which suffers less from other work,
and is of use on a CPU only.  For images in files the bare loop is also given with torchvision's ImageFolder and a
DataLoader before it, as a training script would.  Small images are four times as many, as each takes less.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path

import h5py
import numpy as np
import torch
from PIL import Image
from torch import nn
from torchvision import datasets, transforms

from pdac_cli.commands.extract import command
from pdac_cli.commands.extract.plan import open_job
from pdac_cli.console import Console
from pdac_cli.files.results.parts import open_parts
from pdac_cli.learning.networks.backbones import resnet18
from pdac_cli.options.extract import ExtractOptions, PreprocessingOptions
from pdac_cli.options.shared import RunOptions

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
Trial = Callable[[], tuple[float, float]]  # images per second, and per second of processor time


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--images", type=int, default=192)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--trials", type=int, default=5)
    options = parser.parse_args()
    device = torch.device(options.device)
    print(f"torch {torch.__version__} on {options.device}, {torch.get_num_threads()} threads, {os.cpu_count()} cores")
    print(f"batches of {options.batch_size}, {options.trials} alternating trials, medians, images/s\n")
    print("| images | bare loop | DataLoader + loop | pdac extract | of the bare loop | the same, processor time |")
    print("|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, stem, size, files in (
            ("32x32 in HDF5, ResNet18 CIFAR form", "cifar", 32, False),
            ("224x224 in HDF5, ResNet18", "imagenet", 224, False),
            ("JPEG 256x256 to 224x224, ResNet18", "imagenet", 224, True),
        ):
            images = options.images * (4 if size == 32 else 1)
            network = resnet18(10, stem=stem).eval()  # type: ignore[arg-type]
            torch.save(network.state_dict(), folder / "net.pt")
            data = make_files(folder / "tree", images) if files else make_array(folder, images, size)
            trials: dict[str, Trial] = {
                "bare": bare_loop(network, size, options.batch_size, images, device),
                "extract": extraction(folder, data, files, options.batch_size, options.device),
            }
            if files:
                trials["loader"] = loader_loop(network, data, options.batch_size, device)
            print(row(f"{images} of {title}", measured(trials, options.trials)), flush=True)


def measured(trials: dict[str, Trial], count: int) -> dict[str, np.ndarray]:
    """The rates of alternating trials, (count, 2) each, after one of each to warm up."""
    rounds = [{name: trial() for name, trial in trials.items()} for _ in range(count + 1)]
    return {name: np.array([one[name] for one in rounds[1:]]) for name in trials}


def row(title: str, rates: dict[str, np.ndarray]) -> str:
    """One line of the table."""
    middle = {name: f"{np.median(found[:, 0]):,.1f}" for name, found in rates.items()}
    cells = [title, middle["bare"], middle.get("loader", ""), middle["extract"]]
    cells += [
        f"{np.median(share):.2f} ({share.min():.2f} to {share.max():.2f})"
        for share in (rates["extract"] / rates["bare"]).T
    ]
    return f"| {' | '.join(cells)} |"


def bare_loop(network: nn.Module, size: int, batch: int, images: int, device: torch.device) -> Trial:
    """The network alone, on one batch again and again, in the memory format that suits it better."""
    network, x = network.to(device), torch.randn(batch, 3, size, size, device=device)
    last = torch.channels_last
    choices = [(network, x), (deepcopy(network).to(memory_format=last), x.contiguous(memory_format=last))]
    passes = max(1, images // batch)

    def timed(network: nn.Module, x: torch.Tensor) -> tuple[float, float]:
        with torch.inference_mode():
            begun, spent = time.perf_counter(), time.process_time()
            for _ in range(passes):
                network(x)
            if device.type == "cuda":
                torch.cuda.synchronize()
            count = passes * batch
            return count / (time.perf_counter() - begun), count / (time.process_time() - spent)

    def trial() -> tuple[float, float]:
        if len(choices) == 2:  # the first trial, which is to warm up
            for choice in choices:
                timed(*choice)
            choices.sort(key=lambda choice: timed(*choice), reverse=True)
            choices.pop()
        return timed(*choices[0])

    return trial


def loader_loop(network: nn.Module, data: Path, batch: int, device: torch.device) -> Trial:
    """torchvision's folder reader and a DataLoader with a worker per core before the network."""
    steps = [transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    images = datasets.ImageFolder(str(data), transforms.Compose(steps))

    def trial() -> tuple[float, float]:
        loader = torch.utils.data.DataLoader(images, batch, num_workers=os.cpu_count() or 1)
        begun = time.perf_counter()
        with torch.inference_mode():
            for x, _ in loader:
                network(x.to(device))
        return len(images) / (time.perf_counter() - begun), 0.0

    return trial


def extraction(folder: Path, data: Path, files: bool, batch: int, device: str) -> Trial:
    """The command's own loop, from images on disk to parts on disk; what comes before and after is left out."""
    options = ExtractOptions(
        data=str(data),
        output=folder / "out.h5",
        checkpoint=folder / "net.pt",
        preprocessing=PreprocessingOptions(
            mean=MEAN, std=STD, resize=(256,) if files else None, crop=(224,) if files else None
        ),
        device=device,
        batch_size=batch,
        run=RunOptions(quiet=True),
    )

    def trial() -> tuple[float, float]:
        with ExitStack() as stack:
            job = open_job(options, stack, Console(quiet=True))
            count = job.place.stop
            parts = stack.enter_context(open_parts(options.output, job.manifest, 0, count, restart=True))
            spent = time.process_time()
            seconds = command._extract(job, parts, options, Console(quiet=True), lambda: False)
            spent = time.process_time() - spent
            parts.remove()
        return count / seconds, count / spent

    return trial


def make_array(folder: Path, images: int, size: int) -> Path:
    """Noise as an image array."""
    path = folder / f"images-{size}.h5"
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file["images"] = rng.integers(0, 256, (images, size, size, 3), dtype=np.uint8)
        file["labels"] = np.arange(images) % 10
    return path


def make_files(folder: Path, images: int) -> Path:
    """Smooth noise as JPEG files, which decode about as fast as photographs of their size."""
    rng = np.random.default_rng(0)
    for number in range(images):
        coarse = Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8))
        path = folder / f"class-{number % 10}" / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse.resize((256, 256), Image.Resampling.BICUBIC).save(path, quality=90)
    return folder


if __name__ == "__main__":
    main()

"""Rows of the table about checkpoints, images and shards."""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from pdac_cli.learning.data.preprocessing import Preprocessing
from tests.bad_inputs import Case, Make
from tests.faults.works import SAMPLE, shards

EXTRACT, MERGE = ("extract",), ("merge",)


def content() -> dict[str, Any]:
    """What the sample's checkpoint holds."""
    found: dict[str, Any] = torch.load(SAMPLE / "digits-resnet18.pt", weights_only=True)
    return found


def network(change: Callable[[dict[str, Any]], Any] = lambda found: found) -> Make:
    """The sample's checkpoint, changed, and thirty of its images."""

    def make(folder: Path) -> None:
        torch.save(change(content()), folder / "c.pt")
        some_images(folder)

    return make


def some_images(folder: Path) -> None:
    with h5py.File(SAMPLE / "digits-images.h5") as file, h5py.File(folder / "i.h5", "w") as out:
        out["images"], out["labels"] = file["images"][:30], file["labels"][:30]


def named(prefix: str) -> Callable[[dict[str, Any]], Any]:
    return lambda found: {**found, "state_dict": {f"{prefix}{k}": v for k, v in found["state_dict"].items()}}


def seven_classes(found: dict[str, Any]) -> Any:
    state = {name: value[:7] if name.startswith("fc.") else value for name, value in found["state_dict"].items()}
    return {**found, "state_dict": state}


def enormous(found: dict[str, Any]) -> Any:
    found["state_dict"]["layer4.1.bn2.weight"] *= 1e7
    return found


class Command:
    """Leaves a file behind if it is unpickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch canary",)


def written(data: bytes) -> Make:
    return lambda folder: (some_images(folder), (folder / "c.pt").write_bytes(data))


def cut_checkpoint(folder: Path) -> None:
    network()(folder)
    os.truncate(folder / "c.pt", 100_000)


def safetensors(folder: Path) -> None:
    some_images(folder)
    save_file({name: value.contiguous() for name, value in content()["state_dict"].items()}, folder / "c.safetensors")


def tree(folder: Path) -> None:
    """A folder of images by class, one of them cut off."""
    network()(folder)
    rng = np.random.default_rng(0)
    for label in ("cat", "dog"):
        (folder / "tree" / label).mkdir(parents=True)
        for k in range(3):
            Image.fromarray(rng.integers(0, 255, (8, 8), np.uint8)).save(folder / "tree" / label / f"{k}.png")
    os.truncate(folder / "tree" / "dog" / "1.png", 40)


def no_memory(_: Path, patch: pytest.MonkeyPatch) -> AbstractContextManager[None]:
    def refuse(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    patch.setattr(Preprocessing, "standardise", refuse)
    return nullcontext()


def no_cuda(_: Path, patch: pytest.MonkeyPatch) -> AbstractContextManager[None]:
    patch.setattr(torch.cuda, "is_available", lambda: False)
    return nullcontext()


NETWORKS = [
    Case(f"network: {name}", code, words, make, arguments, EXTRACT)
    for name, code, words, make, arguments in (
        ("fits", 0, "rows, features, logits  30, 64, 10", network(), ""),
        ("plain state dict", 0, "30, 64, 10", network(lambda found: found["state_dict"]),
         "--mean 0.3 --std 0.35"),
        ("safetensors", 0, "30, 64, 10", safetensors, "--checkpoint c.safetensors --mean 0.3 --std 0.35"),
        *((f"prefix {prefix}", 0, f"note: prefix '{prefix}' taken off the parameter names", network(named(prefix)), "")
          for prefix in ("module.", "_orig_mod.", "backbone.", "model.")),
        ("other number of classes", 0, "30, 64, 7", network(seven_classes), ""),
        ("other architecture", 4, "not a resnet34 of torchvision: .*layer", network(), "--arch resnet34"),
        ("missing", 3, "c.pt: not found; expected a checkpoint", some_images, ""),
        ("truncated", 4, "c.pt: truncated, damaged or not a checkpoint", cut_checkpoint, ""),
        ("text", 4, "c.pt: truncated, damaged or not a checkpoint", written(b"a poem"), ""),
        ("a pickled Namespace", 4, "c.pt: unpickling it would import 'argparse.Namespace'", network(
            lambda found: {**found, "args": argparse.Namespace(lr=1)}), ""),
        ("a pickled module", 4, "c.pt: unpickling it would import .*torch.nn", network(
            lambda found: torch.nn.Linear(2, 2)), ""),
        ("a command", 4, "c.pt: unpickling it would import 'posix.system'", written(pickle.dumps(Command())), ""),
        ("no tensors", 4, "c.pt: holds no tensors by name, only 'a'", network(lambda found: {"a": 1}), ""),
        ("features beyond half precision", 3, "features reach .*; expected at most 65,504, the largest float16",
         network(enormous), "--dtype float16"),
        ("shard out of range", 2, "expected i from 0 to 2", network(), "--shard 3/3"),
        ("more shards than images", 2, "there are 30 images; expected at least one", network(), "--shard 0/31"),
        ("output: a checkpoint", 2, "c.pt, and extract writes HDF5", network(), "-o c.pt --force"),
        ("output: the images", 2, "are the same file", network(), "-o i.h5 --force"),
        ("images: not an image file", 3, "has no images; expected an array called images", lambda p: (
            network()(p), shutil.copy(SAMPLE / "digits.h5", p / "i.h5")), ""),
        ("images: cut off", 3, "dog/1.png: cannot be read as an image .*--skip-bad", tree, "--data tree"),
        ("images: cut off, skipped", 0, "warning: tree/dog/1.png: skipped", tree, "--data tree --skip-bad"),
    )
] + [
    Case("network: no CUDA", 4, "CUDA", network(), "--device cuda", EXTRACT, no_cuda),
    Case("network: out of memory", 5, "does not hold a batch of 10; .*try --batch-size 5", network(), "", EXTRACT,
         no_memory),
]  # fmt: skip


def changed_shard(change: Callable[[h5py.File], object]) -> Make:
    def make(folder: Path) -> None:
        shards(folder)
        with h5py.File(folder / "part-1.h5", "r+") as file:
            change(file)

    return make


def attribute(name: str, value: object) -> Make:
    return changed_shard(lambda file: file.attrs.__setitem__(name, value))


def other(name: str, change: Callable[[Any], Any]) -> Make:
    def put_in(file: h5py.File) -> None:
        values = change(file[name][:])
        del file[name]
        file[name] = values

    return changed_shard(put_in)


SHARDS = [
    Case(f"shards: {name}", code, words, make, arguments, MERGE)
    for name, code, words, make, arguments in (
        ("fit", 0, "600, 16, 2", shards, ""),
        ("missing", 3, "1 of 3 shards missing: 2; expected every shard once; extract with --shard 2/3", lambda p: [
            shards(p), *(h5py.File(p / f"part-{k}.h5", "r+").attrs.__setitem__("shard_count", 3) for k in (0, 1))], ""),
        ("twice", 3, "is shard 0, as .*expected every shard once", lambda p: (
            shards(p), shutil.copy(p / "part-0.h5", p / "part-1.h5")), ""),
        ("other D", 3, "the shape of 'features' is", other("features", lambda h: h[:, :9]), ""),
        ("other dtype", 3, "the type of 'features' is float64", other("features", lambda h: h.astype("f8")), ""),
        ("other extraction", 3, "part-1.h5: extraction is ffff", attribute("extraction", np.bytes_("f" * 64)), ""),
        ("rows lost", 3, "'labels' has shape \\(200\\); expected 300 rows", other("labels", lambda y: y[:200]), ""),
        ("no shard", 3, "part-1.h5: is no shard", lambda p: (
            shards(p), shutil.copy(SAMPLE / "digits.h5", p / "part-1.h5")), ""),
        ("truncated", 3, "part-1.h5: truncated: expected", lambda p: (
            shards(p), os.truncate(p / "part-1.h5", 9000)), ""),
        ("not there", 3, "part-1.h5: not found", lambda p: (shards(p), (p / "part-1.h5").unlink()), ""),
        ("output: a shard", 2, "are the same file", shards, "-o part-1.h5 --force"),
        ("output: exists", 5, "out.h5: exists", lambda p: (shards(p), (p / "out.h5").write_text("precious")), ""),
    )
]  # fmt: skip

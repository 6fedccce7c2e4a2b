"""Make the sample data from scikit-learn's handwritten digits: images, a small trained network, its features.

    python sample_data/make_digits.py

One thread, deterministic algorithms and a fixed seed: the same machine and versions give the same bytes.
It takes about a quarter of a minute.
"""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from pdac_cli.learning.networks.backbones import ResNet18, resnet18

TEST_ROWS = 297  # leaves 1,500 to train on
GREY_SCALE = 15  # scikit-learn's levels 0..16 become 0..240 of a byte, without rounding
WIDTH = 8
EPOCHS = 10  # enough for 97 %; the features of longer runs draw together around their class means
BATCH = 50
LEARNING_RATE = 0.01
WEIGHT_DECAY = 0.05
SHIFTS = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))
SHIFT_CHANCES = (0.6, 0.1, 0.1, 0.1, 0.1)  # a pixel is an eighth of the picture, so most images stay in place
ROWS_PER_CHUNK = 512
MIN_TEST_ACCURACY = 0.97
MIN_CLASS_RANK = 10  # what `pdac fit` projects a class onto by default

SOURCE = (
    "scikit-learn load_digits: the test part of 'Optical Recognition of Handwritten Digits' "
    "(E. Alpaydin and C. Kaynak, UCI Machine Learning Repository, 1998, doi:10.24432/C50P49)"
)
LICENCE = "images: CC BY 4.0 (UCI), distributed with scikit-learn (BSD-3-Clause)"


def main() -> None:
    """Make the three files beside this script, or in ``--out``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="folder to write to")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    images, labels, split = load(options.seed)
    write_images(options.out / "digits-images.h5", images, labels, split)

    train = split == 0
    mean, std = float((images[train] / 255).mean()), float((images[train] / 255).std())
    x = as_input(images, mean, std)
    network = trained(x[train], torch.from_numpy(labels[train]), blank=-mean / std, seed=options.seed)
    h, logits = outputs(network, x)

    accuracy = float((logits.argmax(1) == labels)[~train].mean())
    meta = {
        "arch": "resnet18", "stem": "cifar", "width": WIDTH, "num_classes": 10, "in_channels": 1,
        "image_size": [8, 8], "mean": [mean], "std": [std], "classes": [str(digit) for digit in range(10)],
        "epochs": EPOCHS, "seed": options.seed, "train_rows": int(train.sum()), "test_accuracy": accuracy,
    }  # fmt: skip
    checkpoint = options.out / "digits-resnet18.pt"
    torch.save({"state_dict": network.state_dict(), "meta": meta}, checkpoint)
    write_features(options.out / "digits.h5", h, logits, labels, checkpoint)

    report(h, labels, accuracy)
    if accuracy < MIN_TEST_ACCURACY:
        raise SystemExit(f"error: test accuracy is {accuracy:.4f}, expected {MIN_TEST_ACCURACY}; try another --seed")


def load(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
    """Return images (n, 8, 8, 1), labels (n,) and split (n,), 0 train and 1 test, in scikit-learn's order."""
    digits = load_digits()
    images = (digits.images * GREY_SCALE).astype(np.uint8)[..., None]
    labels = digits.target.astype(np.int64)
    _, test = train_test_split(np.arange(len(labels)), test_size=TEST_ROWS, stratify=labels, random_state=seed)
    split = np.zeros(len(labels), np.uint8)
    split[test] = 1
    return images, labels, split


def as_input(images: NDArray[np.uint8], mean: float, std: float) -> Tensor:
    """Return the network's input (n, 1, 8, 8): bytes to [0, 1], then standardised."""
    return (torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255 - mean) / std


def trained(x: Tensor, y: Tensor, blank: float, seed: int) -> ResNet18:
    """Train on images x (n, 1, 8, 8) and labels y (n,); a shifted image is filled up with ``blank``."""
    torch.manual_seed(seed)
    network = resnet18(10, width=WIDTH, stem="cifar", in_channels=1).train()
    steps = EPOCHS * -(-len(x) // BATCH)
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=steps)
    framed = pad(x, (1, 1, 1, 1), value=blank)
    shifted = torch.stack([framed[:, :, 1 + dy : 9 + dy, 1 + dx : 9 + dx] for dy, dx in SHIFTS])  # (5, n, 1, 8, 8)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH):
            shift = torch.multinomial(torch.tensor(SHIFT_CHANCES), len(rows), replacement=True)
            loss = cross_entropy(network(shifted[shift, rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return network.eval()


@torch.no_grad()
def outputs(network: ResNet18, x: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the penultimate features (n, 64) and the logits (n, 10)."""
    h = network.features(x)
    return h.numpy(), network.fc(h).numpy()


def write_images(path: Path, images: NDArray[np.uint8], labels: NDArray[np.int64], split: NDArray[np.uint8]) -> None:
    """Write the images as bytes, with their labels and the split the network was trained by."""
    with h5py.File(path, "w") as file:
        file.attrs["source"] = SOURCE
        file.attrs["licence"] = LICENCE
        file.attrs["scaling"] = f"grey levels 0..16 of scikit-learn times {GREY_SCALE}"
        file.attrs["split_values"] = "0 = train, 1 = test"
        write_rows(file, images=images, labels=labels, split=split)


def write_features(
    path: Path,
    h: NDArray[np.float32],
    logits: NDArray[np.float32],
    labels: NDArray[np.int64],
    checkpoint: Path,
) -> None:
    """Write features, logits, labels and ids of every row, in scikit-learn's order."""
    ids = np.array([f"digits-{row:05d}" for row in range(len(labels))], "S")
    with h5py.File(path, "w") as file:
        file.attrs["source"] = SOURCE
        file.attrs["licence"] = LICENCE
        file.attrs["checkpoint"] = checkpoint.name
        file.attrs["checkpoint_sha256"] = hashlib.sha256(checkpoint.read_bytes()).hexdigest()
        file.attrs["layer"] = "input of fc: after the last ReLU and the average pool"
        file.attrs["split"] = "all rows; the network was trained on those with split = 0 in digits-images.h5"
        write_rows(file, features=h, labels=labels, logits=logits, ids=ids)


def write_rows(file: h5py.File, **datasets: NDArray[Any]) -> None:
    """Write each array in chunks of whole rows, without times, so that equal data give equal bytes."""
    for name, values in datasets.items():
        chunks = (ROWS_PER_CHUNK, *values.shape[1:])
        file.create_dataset(name, data=values, chunks=chunks, track_times=False)


def report(h: NDArray[np.float32], labels: NDArray[np.int64], accuracy: float) -> None:
    """Print the accuracy, and whether every class keeps enough directions for a density to be fitted."""
    print(f"test accuracy {accuracy:.4f} on {TEST_ROWS} rows")
    print(f"features {h.shape}, {(h == 0).mean():.0%} zeros, {(h.std(0) < 1e-6).sum()} constant")
    for label in np.unique(labels):
        covariance = np.cov(h[labels == label].T.astype(np.float64))
        variances = np.linalg.eigvalsh(covariance)[::-1]
        rank = int(np.linalg.matrix_rank(covariance))
        if rank < MIN_CLASS_RANK:
            raise SystemExit(f"error: class {label} has rank {rank}, expected {MIN_CLASS_RANK}; train for less")
        print(
            f"class {label}: {(labels == label).sum()} rows, rank {rank}, first {MIN_CLASS_RANK} directions "
            f"carry {variances[:MIN_CLASS_RANK].sum() / variances.sum():.1%}, "
            f"tenth is {variances[9] / variances[0]:.1e} of the first"
        )


if __name__ == "__main__":
    main()

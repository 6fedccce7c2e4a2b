"""The loop against a plain forward pass; an image's features depend on the image alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pdac_cli.errors import DataError, UsageError
from pdac_cli.learning.data.datasets import open_folder
from pdac_cli.learning.data.images import ArrayImages, Images, encoded
from pdac_cli.learning.data.preprocessing import Preprocessing
from pdac_cli.learning.extraction import ExtractedBatch, Extractor
from pdac_cli.learning.networks.backbones import ResNet18
from pdac_cli.learning.networks.networks import FeatureNetwork
from pdac_cli.options.extract import Amp, StoredType

CPU = torch.device("cpu")
HOW = Preprocessing(3, (0.5, 0.4, 0.3), (0.2, 0.3, 0.25))


def array_images(x: np.ndarray) -> ArrayImages:
    rows = np.arange(len(x))
    ids = encoded([f"image-{row}" for row in rows])
    return ArrayImages("arrays", Path("x.h5"), x.__getitem__, x.shape, x.dtype, rows, ids, rows % 3, None)


def noise(n: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, *shape), dtype=np.uint8)


def extractor(network: ResNet18, **changes: object) -> Extractor:
    arguments = {"size": (8, 8), "device": CPU, "batch_size": 4, "how": HOW, "workers": 2, **changes}
    return Extractor(FeatureNetwork(network, network.fc), **arguments)


def joined(batches: list[ExtractedBatch]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return tuple(np.concatenate([getattr(batch, name) for batch in batches]) for name in ("rows", "h", "logits"))


def whole(tool: Extractor, images: Images) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return joined(list(tool.batches(images, 0, len(images.labels))))


def plain_forward(network: ResNet18, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One image at a time, (n, h, w, 3) bytes, in the plainest way."""
    mean, std = torch.tensor(HOW.mean).view(3, 1, 1), torch.tensor(HOW.std).view(3, 1, 1)
    with torch.no_grad():
        inputs = [(torch.from_numpy(image).permute(2, 0, 1) / 255 - mean) / std for image in x]
        h = torch.cat([network.features(image[None]) for image in inputs])
        return h.numpy(), network.fc(h).numpy()


@pytest.mark.parametrize("layout", ["nhwc", "nchw", "floats"])
def test_equals_a_plain_forward_pass(tiny: ResNet18, layout: str) -> None:
    x = noise(11, 8, 8, 3)
    expected = plain_forward(tiny, x)
    stored = {"nhwc": x, "nchw": x.transpose(0, 3, 1, 2), "floats": (x / 255).astype(np.float64)}[layout]
    rows, h, logits = whole(extractor(tiny), array_images(stored))
    assert rows.tolist() == list(range(11))
    assert h.dtype == logits.dtype == np.float32
    np.testing.assert_allclose(h, expected[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(logits, expected[1], rtol=1e-4, atol=1e-5)


def test_grey_images_fill_the_channels_of_a_network_for_colours(tiny: ResNet18) -> None:
    x = noise(5, 8, 8)
    expected = plain_forward(tiny, np.repeat(x[..., None], 3, axis=-1))
    np.testing.assert_allclose(whole(extractor(tiny), array_images(x))[1], expected[0], rtol=1e-4, atol=1e-5)


def test_workers_change_nothing(tiny: ResNet18) -> None:
    images = array_images(noise(30, 8, 8, 3))
    one, many = (whole(extractor(tiny, workers=workers), images) for workers in (1, 5))
    assert all(np.array_equal(a, b) for a, b in zip(one, many, strict=True))


def test_a_run_from_the_middle_gives_the_same_bits(tiny: ResNet18) -> None:
    images = array_images(noise(10, 8, 8, 3))
    tool = extractor(tiny)
    h = whole(tool, images)[1]
    pieces = [joined(list(tool.batches(images, *ends)))[1] for ends in ((0, 4), (4, 8), (8, 10))]
    assert np.array_equal(np.concatenate(pieces), h)


def test_an_image_has_the_same_bits_in_a_short_batch(tiny: ResNet18) -> None:
    x = noise(4, 8, 8, 3)
    alone = whole(extractor(tiny), array_images(x[:1]))[1]
    assert np.array_equal(alone[0], whole(extractor(tiny), array_images(x))[1][0])


def test_stopping_early_ends_the_workers(tiny: ResNet18) -> None:
    batches = extractor(tiny).batches(array_images(noise(40, 8, 8, 3)), 0, 40)
    assert next(batches).stop == 4
    batches.close()
    assert next(batches, None) is None


def folder(root: Path, bad: Callable[[Path], None] | None) -> Path:
    for number, image in enumerate(noise(6, 8, 8, 3)):
        path = root / "a" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    if bad:
        bad(root / "a" / "2.png")
    return root


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("no image"),
    "half": lambda path: path.write_bytes(path.read_bytes()[:120]),
    "flipped": lambda path: path.write_bytes(path.read_bytes()[:60] + b"\0" * 40 + path.read_bytes()[100:]),
    "gone": lambda path: path.unlink(),
    "folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_bad_image_is_named_and_leaves_its_neighbours_alone(tiny: ResNet18, tmp_path: Path, damage: str) -> None:
    whole_tree = open_folder(folder(tmp_path / "x", None), None)
    images = open_folder(folder(tmp_path / "y", None), None)
    DAMAGES[damage](tmp_path / "y" / "a" / "2.png")
    expected = whole(extractor(tiny), whole_tree)[1]
    batches = list(extractor(tiny).batches(images, 0, 6))
    (bad,) = [bad for batch in batches for bad in batch.bad]
    assert (bad.row, bad.name) == (2, str(tmp_path / "y" / "a" / "2.png"))
    assert bad.reason
    assert "\n" not in bad.reason
    rows, h, _ = joined(batches)
    assert rows.tolist() == [0, 1, 3, 4, 5]
    assert np.array_equal(h, expected[rows])


def test_files_of_several_sizes_are_refused(tiny: ResNet18, tmp_path: Path) -> None:
    root = folder(tmp_path, None)
    Image.fromarray(noise(1, 9, 7, 3)[0]).save(root / "a" / "5.png")
    with pytest.raises(
        DataError, match=r"5\.png: 9x7 pixels, the first image has 8x8; expected one size; add --resize"
    ):
        whole(extractor(tiny), open_folder(root, None))


def test_half_precision_overflow_is_refused_by_name(tiny: ResNet18) -> None:
    tiny.fc.bias.data[2] = 70_000
    images = array_images(noise(3, 8, 8, 3))
    with pytest.raises(DataError, match=r"image-0: logits reach (69,999|70,000).*at most 65,504.*--dtype float32"):
        whole(extractor(tiny, dtype=StoredType.FLOAT16), images)
    assert whole(extractor(tiny), images)[2].max() >= 69_000
    tiny.fc.bias.data[2] = 0
    h = whole(extractor(tiny, dtype=StoredType.FLOAT16), images)[1]
    assert np.array_equal(h, whole(extractor(tiny), images)[1].astype(np.float16))


def test_features_that_are_not_finite_are_refused(tiny: ResNet18) -> None:
    tiny.bn1.weight.data[0] = float("nan")
    with pytest.raises(DataError, match="image-0: features are not finite"):
        whole(extractor(tiny), array_images(noise(3, 8, 8, 3)))


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (noise(3, 8, 8, 3).astype(np.float32), r"image 0 ranges from 0 to 249; expected floats from 0 to 1"),
        (np.full((3, 8, 8, 3), np.nan), "ranges from nan"),
        (noise(3, 8, 8, 5), r"shape \(3, 8, 8, 5\), the network takes 3 channels"),
        (noise(3, 8, 8, 3).astype(np.int32), "images of type int32"),
        (noise(3, 8), r"images of shape \(3, 8\)"),
    ],
)
def test_arrays_that_are_no_images_are_refused(tiny: ResNet18, x: np.ndarray, words: str) -> None:
    with pytest.raises(DataError, match=words):
        whole(extractor(tiny), array_images(x))


def test_sizes_that_the_network_cannot_take_are_refused_at_once(tiny: ResNet18) -> None:
    tiny.conv1.padding = (0, 0)
    with pytest.raises(UsageError, match=r"cannot take images of 2x2 pixels.*--resize"):
        extractor(tiny, size=(2, 2)).check()
    with pytest.raises(UsageError, match="--amp fp16 on the CPU"):
        extractor(tiny, amp=Amp.FP16).check()

"""Checkpoints and images that claim what is not so: refused before anything is allocated or started for them."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.faults.processes import Server

SAMPLE = Path(__file__).parents[2] / "sample_data"
MEMORY = 160 << 20


def state() -> dict[str, torch.Tensor]:
    found = torch.load(SAMPLE / "digits-resnet18.pt", weights_only=True)
    return dict(found["state_dict"])


def saved(change: Callable[[torch.Tensor], torch.Tensor], legacy: bool = False) -> bytes:
    """The sample's weights with one changed."""
    weights, memory = state(), io.BytesIO()
    weights["conv1.weight"] = change(weights["conv1.weight"])
    torch.save({"state_dict": weights}, memory, _use_new_zipfile_serialization=not legacy)
    return memory.getvalue()


def repacked(change: Callable[[zipfile.ZipInfo, bytes], tuple[zipfile.ZipInfo, bytes] | None]) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(SAMPLE / "digits-resnet18.pt") as old, zipfile.ZipFile(memory, "w") as new:
        for info in old.infolist():
            found = change(info, old.read(info))
            if found is not None:
                new.writestr(*found)
    return memory.getvalue()


def larger(data: bytes) -> bytes:
    """A pickle whose first storage says that it has 2^31 - 1 numbers."""
    at = data.index(b"cpu") + 3
    while data[at : at + 1] not in b"KMJ":
        at += 1
    width = {b"K": 2, b"M": 3, b"J": 5}[data[at : at + 1]]
    return data[:at] + b"J" + struct.pack("<i", 2**31 - 1) + data[at + width :]


def forged_numel(info: zipfile.ZipInfo, data: bytes) -> tuple[zipfile.ZipInfo, bytes]:
    return info, larger(data) if info.filename.endswith("data.pkl") else data


def zeros(info: zipfile.ZipInfo, data: bytes) -> tuple[zipfile.ZipInfo, bytes]:
    if "/data/" in info.filename:
        info.compress_type, data = zipfile.ZIP_DEFLATED, bytes(32 << 20)
    return info, data


def encrypted(data: bytes) -> bytes:
    """The last member's directory entry says that it is encrypted."""
    at = data.rindex(b"PK\x01\x02")
    return data[: at + 8] + struct.pack("<H", struct.unpack_from("<H", data, at + 8)[0] | 1) + data[at + 10 :]


def corrupt(data: bytes) -> bytes:
    """A byte of the second tensor is another one."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        info = [info for info in archive.infolist() if "/data/" in info.filename][1]
        at = info.header_offset + 30 + sum(struct.unpack_from("<2H", data, info.header_offset + 26))
    return data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :]


def second(data: bytes) -> bytes:
    memory = io.BytesIO(data)
    with warnings.catch_warnings(), zipfile.ZipFile(memory, "a") as archive:
        warnings.simplefilter("ignore")
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        archive.writestr(name, b"not a pickle")
    return memory.getvalue()


def quantised(w: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(w, 0.1, 0, torch.qint8)


def by_rows(w: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return w.flatten(1).to_sparse_csr()


CHECKPOINTS: dict[str, Callable[[], bytes]] = {
    "sparse": lambda: saved(lambda w: w.flatten(1).to_sparse()),
    "sparse by rows": lambda: saved(by_rows),
    "meta": lambda: saved(lambda w: torch.empty((10**6, 10**6), device="meta")),
    "quantised": lambda: saved(quantised),
    "complex": lambda: saved(lambda w: w.to(torch.complex64)),
    "one number for all": lambda: saved(lambda w: torch.zeros(1).expand(10**5, 10**5)),
    "one number for all, as of old": lambda: saved(lambda w: torch.zeros(1).expand(10**5, 10**5), legacy=True),
    "more numbers than there are": lambda: repacked(forged_numel),
    "more numbers than there are, as of old": lambda: larger(saved(lambda w: w, legacy=True)),
    "zeros packed": lambda: repacked(zeros),
    "encrypted": lambda: encrypted((SAMPLE / "digits-resnet18.pt").read_bytes()),
    "a tensor of another checksum": lambda: corrupt((SAMPLE / "digits-resnet18.pt").read_bytes()),
    "two of one name": lambda: second((SAMPLE / "digits-resnet18.pt").read_bytes()),
    "a member is missing": lambda: repacked(lambda i, d: None if i.filename.endswith("/data/0") else (i, d)),
    "a memo without end": lambda: b"\x80\x02Nr" + struct.pack("<I", 2**31 - 1) + b".",
    "bytes that are not there": lambda: b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b".",
    "deep": lambda: b"\x80\x02" + b"(" * 10**6 + b"." ,
    "a tar of old": lambda: b"data" + bytes(253) + b"ustar" + bytes(300),
}  # fmt: skip


@pytest.fixture(scope="module")
def usual(heavy: Server, tmp_path_factory: pytest.TempPathFactory) -> int:
    folder = tmp_path_factory.mktemp("sound")
    pictures(folder, {"good.png": picture()})
    shutil.copy(SAMPLE / "digits-resnet18.pt", folder / "c.pt")
    ended = heavy.run(EXTRACT, folder)
    assert ended.code == 0, ended.err
    return ended.peak


EXTRACT = "extract --checkpoint c.pt --data images -o out.h5 --resize 32x32 --jobs 1 -q".split()  # noqa: SIM905


def picture(size: tuple[int, int] = (40, 40), form: str = "PNG", **how: object) -> bytes:
    memory = io.BytesIO()
    pixels = np.arange(size[0] * size[1] * 3) % 251
    Image.fromarray(pixels.reshape(size[1], size[0], 3).astype("u1")).save(memory, form, **how)
    return memory.getvalue()


def pictures(folder: Path, files: dict[str, bytes]) -> None:
    (folder / "images" / "a").mkdir(parents=True)
    for name, data in files.items():
        (folder / "images" / "a" / name).write_bytes(data)


@pytest.mark.parametrize("case", CHECKPOINTS)
def test_checkpoints(case: str, usual: int, heavy: Server, tmp_path: Path) -> None:
    pictures(tmp_path, {"good.png": picture()})
    (tmp_path / "c.pt").write_bytes(CHECKPOINTS[case]())
    ended = heavy.run(EXTRACT, tmp_path)
    ended.check_manners()
    assert ended.code == 4, ended.err
    assert ended.peak <= usual + MEMORY
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize("legacy", [False, True])
def test_sound_checkpoints_of_both_forms(legacy: bool, heavy: Server, tmp_path: Path) -> None:
    pictures(tmp_path, {"good.png": picture()})
    (tmp_path / "c.pt").write_bytes(saved(lambda w: w.clone().requires_grad_(), legacy))
    ended = heavy.run([*EXTRACT, "--mean", "0.3", "--std", "0.3"], tmp_path)
    assert ended.code == 0, ended.err


def test_a_sound_checkpoint_without_checksums(heavy: Server, tmp_path: Path) -> None:
    """torch can be told to leave them out."""
    pictures(tmp_path, {"good.png": picture()})
    torch.serialization.set_crc32_options(False)
    try:
        (tmp_path / "c.pt").write_bytes(saved(lambda w: w))
    finally:
        torch.serialization.set_crc32_options(True)
    ended = heavy.run([*EXTRACT, "--mean", "0.3", "--std", "0.3"], tmp_path)
    assert ended.code == 0, ended.err


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def with_profile() -> bytes:
    """A PNG whose colour profile unpacks to 300 MB."""
    stream = zlib.compressobj(9)
    packed = b"".join([*(stream.compress(bytes(1 << 20)) for _ in range(300)), stream.flush()])
    good = picture()
    return good[:33] + chunk(b"iCCP", b"p\0\0" + packed) + good[33:]


IMAGES: dict[str, bytes] = {
    "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n",
    "SVG": b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>",
    "BLP": b"BLP2" + struct.pack("<i4b2I16I16I", 9, 9, 9, 9, 9, 9, 9, *[9] * 32),
    "a texture": b"DDS " + struct.pack("<7I", 124, 0x1007, 9, 9, 0, 0, 0) + bytes(100),
    "FITS": b"SIMPLE  =                    T".ljust(2880),
    "nothing": b"",
    "text": b"no image at all",
    "cut": picture()[:60],
    "a flat one of 300 million pixels": b"P6 1 300000000 255\n",
    "a long one": picture((1, 60_000)),
    "many pixels": b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 9000, 9000, 8, 2, 0, 0, 0)),
    "a TIFF in circles": b"II*\0\x08\0\0\0\0\0\x08\0\0\0",
}


@pytest.mark.parametrize("case", IMAGES)
def test_bad_images(case: str, usual: int, heavy: Server, tmp_path: Path) -> None:
    """Refused by their path, or left out: no program is started for them and none ends us."""
    pictures(tmp_path, {"good.png": picture(), "odd.png": IMAGES[case]})
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    (tools / "gs").chmod(0o755)
    shutil.copy(SAMPLE / "digits-resnet18.pt", tmp_path / "c.pt")
    paths = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    resize = ["--resize", "256", "--crop", "32"]  # the shorter side
    for more, code in ([], 3), (["--skip-bad"], 0):
        ended = heavy.run([*EXTRACT, *resize, *more], tmp_path, environment=paths)
        ended.check_manners()
        assert ended.code == code, ended.err
        assert "images/a/odd.png" in ended.err
        assert ended.peak <= usual + MEMORY
    assert not (tmp_path / "started").exists()


GOOD: dict[str, bytes] = {
    "with orientation": picture(form="JPEG", exif=Image.Exif().tobytes() + b""),
    "animated": picture(form="GIF", save_all=True, append_images=[Image.new("RGB", (40, 40))] * 3),
    "two pages": picture(form="TIFF", save_all=True, append_images=[Image.new("RGB", (40, 40))]),
    "WebP": picture(form="WEBP"),
    "bitmap": picture(form="BMP"),
    "portable": picture(form="PPM"),
}


@pytest.mark.parametrize("case", [*GOOD, "a large profile"])
def test_images_of_every_form(case: str, usual: int, heavy: Server, tmp_path: Path) -> None:
    pictures(tmp_path, {"odd.png": with_profile() if case == "a large profile" else GOOD[case]})
    shutil.copy(SAMPLE / "digits-resnet18.pt", tmp_path / "c.pt")
    ended = heavy.run(EXTRACT, tmp_path)
    ended.check_manners()
    assert ended.code == (3 if case == "a large profile" else 0), ended.err
    assert ended.peak <= usual + MEMORY


def test_links_to_elsewhere_are_read_as_images_only(heavy: Server, tmp_path: Path) -> None:
    """A link in a folder of images may lead anywhere the user may read; what is no image stays unread."""
    pictures(tmp_path, {"good.png": picture()})
    folder = tmp_path / "images" / "a"
    (tmp_path / "secret").write_text("root:x:0:0")
    os.mkfifo(tmp_path / "pipe")
    for k, target in enumerate(["../../secret", "../../pipe", "/dev/zero", "/dev/stdin", "nowhere", "../a", "."]):
        (folder / f"link{k}.png").symlink_to(target)
    shutil.copy(SAMPLE / "digits-resnet18.pt", tmp_path / "c.pt")
    ended = heavy.run([*EXTRACT, "--skip-bad"], tmp_path)
    ended.check_manners()
    assert ended.code in (0, 3), ended.err
    assert "root:x" not in ended.err


def test_the_claims_of_a_pickle_are_read_without_running_it(tmp_path: Path) -> None:
    from pdac_cli.learning.networks.tensor_claims import find_false_claim

    class Command:
        def __reduce__(self) -> tuple[object, ...]:
            return os.system, (f"touch {tmp_path}/ran",)

    for protocol in range(6):
        assert find_false_claim(io.BytesIO(pickle.dumps({"a": Command()}, protocol))) is None
    assert not (tmp_path / "ran").exists()
    assert find_false_claim(io.BytesIO((SAMPLE / "digits-resnet18.pt").read_bytes())) is None

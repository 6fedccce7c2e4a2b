"""``pdac extract`` from the command line: the shipped sample, folders, refusals, stops and reruns."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from pdac_cli.commands.extract import command as extract
from pdac_cli.errors import UsageError
from pdac_cli.files.features import open_features
from pdac_cli.learning.data.images import Images
from pdac_cli.learning.extraction import ExtractedBatch, Extractor
from pdac_cli.learning.networks.backbones import describe_state
from pdac_cli.options.declare import build
from pdac_cli.options.extract import STATISTICS, ExtractOptions
from pdac_cli.options.shared import InputOptions
from pdac_cli.options.text import parse_shard
from tests.commands.extract.extracted import (
    CHECKPOINT,
    FEATURES,
    IMAGES,
    SAMPLE,
    attributes,
    folder_of_digits,
    left_beside,
    read,
)

DIGITS = ("extract", "--checkpoint", CHECKPOINT, "--data", IMAGES)

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> bytes:
    """The bytes of the sample's feature file in batches of 100, made in one go."""
    path = tmp_path_factory.mktemp("undisturbed") / "feats.h5"
    options = extract.ExtractOptions(data=str(IMAGES), output=path, checkpoint=CHECKPOINT, batch_size=100)
    extract.run(options)
    return path.read_bytes()


def test_the_sample_equals_a_plain_forward_pass(pdac, tmp_path):
    out = tmp_path / "feats.h5"
    result = pdac(*DIGITS, "-o", out, "--json")
    assert (result.code, result.err) == (0, "")
    assert (result.json["rows"], result.json["n_features"], result.json["n_logits"]) == (1797, 64, 10)
    found, images = read(out), read(IMAGES)
    checkpoint = torch.load(CHECKPOINT, weights_only=True)
    network = describe_state(checkpoint["state_dict"]).build().eval()
    network.load_state_dict(checkpoint["state_dict"])
    meta = checkpoint["meta"]
    with torch.no_grad():
        x = (torch.from_numpy(images["images"]).permute(0, 3, 1, 2) / 255 - meta["mean"][0]) / meta["std"][0]
        h = network.features(x)
        logits = network.fc(h)
    np.testing.assert_allclose(found["features"], h.numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["logits"], logits.numpy(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found["features"], read(FEATURES)["features"], rtol=1e-4, atol=1e-5)
    assert np.array_equal(found["labels"], images["labels"])
    assert found["ids"][[0, -1]].tolist() == [b"digits-images-00000", b"digits-images-01796"]
    assert left_beside(out) == []


def test_the_file_says_how_it_was_made(pdac, tmp_path):
    out = tmp_path / "feats.h5"
    assert pdac(*DIGITS, "-o", out, "--mean", "0.25", "--resize", "9x10", "--crop", 8).code == 0
    found = attributes(out)
    expected = {"mean": "0.25", "resize": "9x10", "crop": "8", "interpolation": "bilinear", "image_size": "8x8"}
    assert {name: found[name] for name in expected} == expected
    assert found["checkpoint_sha256"] == attributes(FEATURES)["checkpoint_sha256"]
    assert (found["arch"], found["layer"], found["device"]) == ("resnet18-cifar", "input of fc", "cpu")
    assert not any(str(tmp_path) in str(value) or str(SAMPLE) in str(value) for value in found.values())


def test_the_same_bytes_twice(pdac, tmp_path, undisturbed):
    out = tmp_path / "feats.h5"
    assert pdac(*DIGITS, "-o", out, "--batch-size", 100, "--jobs", 3).code == 0
    assert out.read_bytes() == undisturbed


@pytest.mark.parametrize(("split", "value"), [("train", 0), ("test", 1)])
def test_split_of_an_array_file(pdac, tmp_path, split, value):
    out = tmp_path / "feats.h5"
    assert pdac(*DIGITS, "-o", out, "--split", split).code == 0
    wanted = read(IMAGES)["split"] == value
    np.testing.assert_allclose(read(out)["features"], read(FEATURES)["features"][wanted], rtol=1e-4, atol=1e-5)


def test_npz_and_half_precision(pdac, tmp_path):
    images, out = read(IMAGES), tmp_path / "feats.h5"
    names = np.array([f"digit {label}" for label in images["labels"][:40]])
    np.savez(tmp_path / "x.npz", images=images["images"][:40], labels=names)
    result = pdac("extract", "--checkpoint", CHECKPOINT, "--data", tmp_path / "x.npz", "-o", out, "--dtype", "float16")
    assert result.code == 0
    found = read(out)
    assert found["features"].dtype == found["logits"].dtype == np.float16
    np.testing.assert_allclose(found["features"], read(FEATURES)["features"][:40], rtol=2e-3, atol=2e-3)
    assert [found["label_names"][k].decode() for k in found["labels"]] == names.tolist()


def test_safetensors_with_a_prefix_gives_the_same_features(pdac, tmp_path):
    checkpoint = torch.load(CHECKPOINT, weights_only=True)
    state = {f"module.{key}": value for key, value in checkpoint["state_dict"].items()}
    save_file(state, tmp_path / "net.safetensors")
    arguments = ("--mean", checkpoint["meta"]["mean"][0], "--std", checkpoint["meta"]["std"][0])
    out = tmp_path / "feats.h5"
    result = pdac("extract", "--checkpoint", tmp_path / "net.safetensors", "--data", IMAGES, "-o", out, *arguments)
    assert result.code == 0
    assert "note: prefix 'module.' taken off" in result.err
    np.testing.assert_allclose(read(out)["features"], read(FEATURES)["features"], rtol=1e-4, atol=1e-5)


def test_a_folder_of_images_with_class_names(pdac, tmp_path):
    root, out = folder_of_digits(tmp_path / "tree"), tmp_path / "feats.h5"
    assert pdac("extract", "--checkpoint", CHECKPOINT, "--data", root, "-o", out).code == 0
    found, sample = read(out), read(FEATURES)
    rows = [int(Path(name.decode()).stem) for name in found["ids"]]
    assert sorted(rows) == list(range(30))
    np.testing.assert_allclose(found["features"], sample["features"][rows], rtol=1e-4, atol=1e-5)
    with open_features(InputOptions(paths=(str(out),))) as source:
        names = source.label_names
    assert names == tuple(f"digit-{k}" for k in range(10))
    assert [names[k] for k in found["labels"]] == [f"digit-{k}" for k in sample["labels"][rows]]


def test_a_corrupt_image_stops_the_run_or_is_skipped_and_listed(pdac, tmp_path):
    root, out = folder_of_digits(tmp_path / "tree"), tmp_path / "feats.h5"
    bad = root / "digit-3" / "3.png"
    bad.write_bytes(bad.read_bytes()[:40])
    arguments = ("extract", "--checkpoint", CHECKPOINT, "--data", root, "-o", out, "--batch-size", 4)
    result = pdac(*arguments)
    assert result.code == 3
    assert result.err.splitlines()[-1].startswith(f"error: {bad}: cannot be read as an image")
    assert not out.exists()
    result = pdac(*arguments, "--skip-bad", "--json")
    assert result.code == 0
    assert [item["path"] for item in result.json["skipped_images"]] == [str(bad)]
    assert f"warning: {bad}: skipped" in result.err
    found = read(out)
    assert len(found["features"]) == 29
    assert b"digit-3/3.png" not in found["ids"]
    assert attributes(out)["skipped"] == 1
    assert left_beside(out) == []


def malicious(path: Path, canary: Path) -> None:
    class Command:
        def __reduce__(self):
            return os.system, (f"touch {canary}",)

    path.write_bytes(pickle.dumps({"state_dict": Command()}))


def test_a_malicious_checkpoint_runs_nothing(pdac, tmp_path):
    path, canary = tmp_path / "evil.pt", tmp_path / "canary"
    malicious(path, canary)
    result = pdac("extract", "--checkpoint", path, "--data", IMAGES, "-o", tmp_path / "feats.h5")
    assert result.code == 4
    assert "posix.system" in result.err
    assert "Traceback" not in result.err
    assert not canary.exists()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["evil.pt"]


REFUSALS = [
    (["--data", "nowhere"], 3, "nowhere: not found; expected a folder of images"),
    (["--data", CHECKPOINT], 3, "digits-resnet18.pt"),
    (["--data", FEATURES], 3, "has no images; expected an array called images"),
    (["--data", "cifar10:nowhere"], 3, "holds no cifar10"),
    (["--data", "tinyimagenet:nowhere"], 3, "holds no Tiny-ImageNet"),
    (["--checkpoint", "nowhere.pt"], 3, "nowhere.pt: not found; expected a checkpoint"),
    (["--checkpoint", SAMPLE], 3, "is a folder; expected a checkpoint"),
    (["--checkpoint", IMAGES], 4, "not a checkpoint"),
    (["--arch", "resnet34"], 4, "not a resnet34 of torchvision: "),
    (["--arch", "resnet1"], 2, "no such network"),
    (["--device", "cuda"], 4, "CUDA devices"),
    (["--device", "toaster"], 2, "--device is toaster"),
    (["--amp", "bf16"], 2, "--amp bf16 on the CPU"),
    (["--dtype", "float8"], 2, "--dtype"),
    (["--batch-size", "0"], 2, "--batch-size is 0"),
    (["--mean", "a,b"], 2, "--mean is 'a,b'"),
    (["--mean", "nan"], 2, "--mean has nan; expected one finite number per channel"),
    (["--mean", "0.1,0.2"], 2, "mean has 2 numbers and the network takes 1 channels"),
    (["--std", "0"], 2, "expected numbers above 0"),
    (["--resize", "big"], 2, "--resize is 'big'"),
    (["--crop", "0"], 2, "--crop is (0,)"),
    (["--crop", "9"], 3, "8x8 pixels are fewer than the crop of 9x9"),
    (["--shard", "4/4"], 2, "expected i from 0 to 3"),
    (["--shard", "1"], 2, "--shard is '1'"),
    (["--mean", "123.7"], 2, "expected numbers on the scale 0 to 1; divide by 255: --mean 0.485098"),
    (["--std", "58.4,1"], 2, "divide by 255: --std 0.22902,0.00392157"),
    (["--mean", "imagenett"], 2, "tinyimagenet, clip, inception; did you mean imagenet?"),
    (["--classes", "a"], 2, "digits-images.h5 is an array file; expected a folder of images"),
    (["--shard", "0/2000"], 2, "there are 1,797 images; expected at least one for each shard"),
    (["-o", "k.npz"], 2, "--output is k.npz, and extract writes HDF5; expected a name ending in .h5; use k.h5"),
    (["--shard", "slurm"], 2, "SLURM_ARRAY_TASK_ID is not set"),
    (["--weights", "DEFAULT"], 2, "either --checkpoint PATH or --weights"),
    (["-o", "nowhere/feats.h5"], 5, "is not there"),
    (["-o", CHECKPOINT], 2, "extract writes HDF5"),
    (["-o", IMAGES], 2, "are the same file"),
    (["-o", "/dev/null"], 2, "no regular file"),
]


@pytest.mark.parametrize(("changes", "code", "words"), REFUSALS, ids=[" ".join(map(str, r[0])) for r in REFUSALS])
def test_refusals(pdac, tmp_path, monkeypatch, changes, code, words):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLURM_ARRAY_TASK_ID", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    options = {"--checkpoint": CHECKPOINT, "--data": IMAGES, "-o": "feats.h5"} | dict([changes])
    before = CHECKPOINT.read_bytes()
    result = pdac("extract", *(part for pair in options.items() for part in pair))
    *notes, error = result.err.splitlines()
    assert (result.code, error[:7]) == (code, "error: ")
    assert words in error
    assert all(note.startswith("note: ") for note in notes)
    assert list(tmp_path.iterdir()) == []
    assert CHECKPOINT.read_bytes() == before


def test_data_given_twice_is_refused(pdac, tmp_path):
    result = pdac(*DIGITS, "--data", IMAGES, "-o", tmp_path / "f.h5")
    assert result.code == 2
    assert "--data is given 2 times; expected it once" in result.err


def test_a_head_of_equal_logits_is_warned_of_and_logits_can_be_left_out(pdac, tmp_path):
    content = torch.load(CHECKPOINT, weights_only=True)
    state = next((content[key] for key in ("state_dict", "model") if key in content), content)
    state["fc.weight"], state["fc.bias"] = state["fc.weight"] * 0, state["fc.bias"] * 0 + 0.5
    torch.save(content, tmp_path / "c.pt")
    command = ("extract", "--checkpoint", tmp_path / "c.pt", "--data", IMAGES, "--batch-size", "600")
    result = pdac(*command, "-o", tmp_path / "f.h5")
    assert "warning: the head 'fc' gives all classes equal logits" in result.err
    refused = pdac("select", tmp_path / "f.h5", "-n", "20", "--method", "hardest")
    assert refused.code == 3
    assert "'logits' are alike in every row" in refused.err
    result = pdac(*command, "-o", tmp_path / "g.h5", "--no-logits", "--json")
    assert (result.code, result.json["n_logits"], result.json["warnings"]) == (0, 0, [])
    found = read(tmp_path / "g.h5")
    assert sorted(found) == ["features", "ids", "labels"]
    np.testing.assert_array_equal(found["features"], read(tmp_path / "f.h5")["features"])
    assert attributes(tmp_path / "g.h5")["source"] == "digits-images.h5"


def test_names_of_statistics(pdac, tmp_path):
    root = folder_of_digits(tmp_path / "images")
    assert pdac("extract", "--checkpoint", CHECKPOINT, "--data", root, "--mean", "0.5", "--std", "0.5",
                "--classes", "digit-3,digit-1", "--resize", "8", "-o", tmp_path / "f.h5").code == 0  # fmt: skip
    with h5py.File(tmp_path / "f.h5") as file:
        assert [name.decode() for name in file["label_names"]] == ["digit-1", "digit-3"]
    options = build(ExtractOptions, {"data": "d", "output": Path("f.h5"), "checkpoint": CHECKPOINT,
                                     "mean": STATISTICS["clip"][0]})  # fmt: skip
    assert options.preprocessing.std == STATISTICS["clip"][1]
    both = build(ExtractOptions, {"data": "d", "output": Path("f.h5"), "checkpoint": CHECKPOINT,
                                  "mean": STATISTICS["clip"][0], "std": (0.5,)})  # fmt: skip
    assert both.preprocessing.std == (0.5,)


def test_an_output_that_exists_is_kept_unless_forced(pdac, tmp_path):
    out = tmp_path / "feats.h5"
    out.write_text("precious")
    assert pdac(*DIGITS, "-o", out).code == 5
    assert out.read_text() == "precious"
    assert pdac(*DIGITS, "-o", out, "--force").code == 0
    assert len(read(out)["features"]) == 1797


def test_a_full_disk_is_seen_before_the_work(pdac, tmp_path, monkeypatch):
    monkeypatch.setattr(extract, "free_space", lambda _: 1000)
    result = pdac(*DIGITS, "-o", tmp_path / "feats.h5")
    assert result.code == 5
    assert "1 kB are free; expected 1.16 MB for parts and output" in result.err
    assert left_beside(tmp_path / "feats.h5") == []


def interrupted_after(monkeypatch: pytest.MonkeyPatch, count: int, number: int) -> None:
    """Send this process a signal when ``count`` batches are done."""
    batches = Extractor.batches

    def interrupted(self: Extractor, images: Images, start: int, stop: int) -> Iterator[ExtractedBatch]:
        for done, batch in enumerate(batches(self, images, start, stop), 1):
            if done == count:
                signal.raise_signal(number)
            yield batch

    monkeypatch.setattr(Extractor, "batches", interrupted)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_the_batch_and_a_rerun_goes_on(pdac, tmp_path, undisturbed, number):
    out = tmp_path / "feats.h5"
    with pytest.MonkeyPatch.context() as patch:
        interrupted_after(patch, 7, number)
        result = pdac(*DIGITS, "-o", out, "--batch-size", 100, "-q")
    assert result.code == 6
    assert result.err == (
        "error: stopped after 700 of 1,797 images; they are kept; run the same command again to go on\n"
    )
    assert not out.exists()
    assert left_beside(out) == ["feats.h5.parts"]
    result = pdac(*DIGITS, "-o", out, "--batch-size", 100, "--json")
    assert (result.code, result.json["resumed"]) == (0, 700)
    assert out.read_bytes() == undisturbed
    assert left_beside(out) == []


@pytest.fixture
def stopped(pdac, tmp_path):
    """An extraction stopped after 300 images."""
    out = tmp_path / "feats.h5"
    with pytest.MonkeyPatch.context() as patch:
        interrupted_after(patch, 3, signal.SIGTERM)
        assert pdac(*DIGITS, "-o", out, "--batch-size", 100).code == 6
    return out


def test_parts_of_another_checkpoint_list_or_setting_are_refused(pdac, tmp_path, stopped, undisturbed):
    other = tmp_path / "other.pt"
    content = torch.load(CHECKPOINT, weights_only=True)
    torch.save({**content, "epoch": 1}, other)
    base = {"--checkpoint": CHECKPOINT, "--data": IMAGES, "-o": stopped, "--batch-size": 100}
    for changes, code, words in (
        ({"--checkpoint": other}, 4, "checkpoint_sha256"),
        ({"--split": "train"}, 3, "images"),
        ({"--batch-size": 50}, 2, "batch_size 100 and not 50"),
        ({"--dtype": "float16"}, 2, "dtype float32 and not float16"),
        ({"--shard": "0/2"}, 2, "shard 0/1 and not 0/2"),
    ):
        result = pdac("extract", *(part for pair in (base | changes).items() for part in pair))
        assert result.code == code
        assert words in result.err
        assert "holds parts of another run" in result.err
    result = pdac("extract", *(part for pair in base.items() for part in pair), "--json")
    assert (result.code, result.json["resumed"]) == (0, 300)
    assert stopped.read_bytes() == undisturbed


def test_force_starts_again(pdac, stopped):
    result = pdac(*DIGITS, "-o", stopped, "--batch-size", 50, "--force", "--json")
    assert (result.code, result.json["resumed"]) == (0, 0)
    assert left_beside(stopped) == []


def test_a_damaged_part_is_named(pdac, stopped):
    (part,) = (stopped.parent / "feats.h5.parts").glob("*.npz")
    raw = bytearray(part.read_bytes())
    raw[5000] ^= 255
    part.write_bytes(raw)
    result = pdac(*DIGITS, "-o", stopped, "--batch-size", 100)
    assert result.code == 3
    assert f"{part}: damaged" in result.err
    part.unlink()
    assert pdac(*DIGITS, "-o", stopped, "--batch-size", 100).code == 0


def test_two_runs_at_once_are_refused(pdac, tmp_path, stopped):
    import fcntl

    with (tmp_path / "feats.h5.parts" / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = pdac(*DIGITS, "-o", stopped, "--batch-size", 100)
    assert result.code == 5
    assert "another run is writing it" in result.err


# Runs the command with a part per batch, so that a kill finds parts on disk.
DRIVER = (
    "import torch; torch.set_num_threads(1); from pdac_cli.commands.extract import command; "
    "command._PART_SECONDS = 0.0; "
    "from pdac_cli.cli import main; main()"
)


def killed(out: Path, parts: int) -> None:
    """Start an extraction and kill it, as the kernel would, when so many more parts are there."""
    arguments = [*map(str, DIGITS), "-o", str(out), "--batch-size", "20", "-q"]
    folder = out.with_name(f"{out.name}.parts")
    before = len(list(folder.glob("*.npz"))) if folder.exists() else 0
    process = subprocess.Popen([sys.executable, "-c", DRIVER, *arguments])
    while process.poll() is None and len(list(folder.glob("*.npz"))) < before + parts:
        time.sleep(0.005)
    process.kill()
    process.wait()


def test_killed_and_run_again_gives_the_same_bytes(pdac, tmp_path):
    whole, out = tmp_path / "whole.h5", tmp_path / "feats.h5"
    assert pdac(*DIGITS, "-o", whole, "--batch-size", 20).code == 0
    killed(out, 5)
    assert not out.exists()
    result = pdac(*DIGITS, "-o", out, "--batch-size", 20, "--json")
    assert result.code == 0
    assert 100 <= result.json["resumed"] < 1797
    assert out.read_bytes() == whole.read_bytes()
    assert left_beside(out) == []


@pytest.mark.slow
def test_killed_again_and_again(pdac, tmp_path):
    whole, out = tmp_path / "whole.h5", tmp_path / "feats.h5"
    assert pdac(*DIGITS, "-o", whole, "--batch-size", 20).code == 0
    for parts in (1, 17, 3, 29, 8):
        killed(out, parts)
        assert not out.exists()
    assert pdac(*DIGITS, "-o", out, "--batch-size", 20).code == 0
    assert out.read_bytes() == whole.read_bytes()
    assert left_beside(out) == []


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"ID": "3", "COUNT": "8", "MIN": "0", "MAX": "7"}, (3, 8)),
        ({"ID": "1", "COUNT": "8", "MIN": "1", "MAX": "8"}, (0, 8)),
        ({"ID": "30", "COUNT": "4", "MIN": "10", "MAX": "40", "STEP": "10"}, (2, 4)),
        ({"ID": "2", "COUNT": "4"}, (2, 4)),
    ],
)
def test_shards_of_a_job_array(variables, expected):
    assert (
        parse_shard("--shard", "slurm", {f"SLURM_ARRAY_TASK_{name}": value for name, value in variables.items()})
        == expected
    )


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"ID": "x", "COUNT": "4"}, "SLURM_ARRAY_TASK_ID is 'x'"),
        ({"ID": "3"}, "SLURM_ARRAY_TASK_COUNT is not set"),
        ({"ID": "9", "COUNT": "3", "MIN": "1", "MAX": "9"}, "expected evenly spaced ids"),
        ({"ID": "1", "COUNT": "3", "MIN": "1", "MAX": "9"}, "expected evenly spaced ids"),
    ],
)
def test_job_arrays_that_are_no_shards(variables, words):
    with pytest.raises(UsageError, match=words):
        parse_shard("--shard", "slurm", {f"SLURM_ARRAY_TASK_{name}": value for name, value in variables.items()})


def test_a_job_arrays_task_is_told_of_shards(pdac, tmp_path, monkeypatch):
    for name, value in {"ID": "2", "COUNT": "3", "MIN": "1", "MAX": "3"}.items():
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)
    result = pdac(*DIGITS, "-o", tmp_path / "whole.h5")
    assert "note: SLURM_ARRAY_TASK_ID is set and all images are extracted" in result.err
    result = pdac(*DIGITS, "-o", tmp_path / "part.h5", "--shard", "slurm", "--json")
    assert (result.code, result.json["shard"]) == (0, "1 of 3 (rows 599 to 1,198)")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": np.full(9, -1)}, "'labels' is -1 in row 0; expected 0 or more"),
        ({"labels": np.zeros(8, int)}, "'labels' has 8 rows, there are 9 images"),
        ({"ids": np.array(["a", "b"])}, "'ids' has 2 rows, there are 9 images"),
        ({"split": np.zeros(9, int)}, "'split' has no test rows"),
        ({"split": np.zeros(4, int)}, "'split' has 4 rows, there are 9 images"),
        ({"label_names": np.array(["one"]), "labels": np.arange(9)}, "expected at most 0, for 1 classes have names"),
    ],
)
def test_image_files_that_do_not_fit_together(pdac, tmp_path, change, words):
    arrays = {"images": read(IMAGES)["images"][:9], "labels": np.zeros(9, int), **change}
    np.savez(tmp_path / "x.npz", **arrays)
    split = ("--split", "test") if "split" in change else ()
    result = pdac("extract", "--checkpoint", CHECKPOINT, "--data", tmp_path / "x.npz", "-o", tmp_path / "f.h5", *split)
    assert result.code == 3
    assert words in result.err


def test_published_weights_need_a_name_and_a_way(pdac, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "cache"))
    monkeypatch.setattr(torch.hub, "download_url_to_file", refuse)
    arguments = ("extract", "--weights", "DEFAULT", "--data", IMAGES, "-o", tmp_path / "feats.h5")
    result = pdac(*arguments)
    assert result.code == 2
    assert "--weights is given without --arch" in result.err
    result = pdac(*arguments, "--arch", "resnet18")
    assert result.code == 4
    assert "not in the cache and cannot be fetched (no route to host)" in result.err


def test_the_help_is_light():
    code = "import sys; sys.argv = ['pdac', 'extract', '--help']; from pdac_cli.cli import main\ntry: main()\nfinally: "
    heavy = "print([m for m in ('numpy', 'h5py', 'torch', 'torchvision', 'PIL') if m in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code + heavy], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "--shard" in done.stdout


def test_sample_files_are_untouched_copies(tmp_path):
    """Inputs that may not be written are read all the same."""
    for path in (CHECKPOINT, IMAGES):
        copy = tmp_path / path.name
        shutil.copy(path, copy)
        copy.chmod(0o444)
    options = extract.ExtractOptions(
        data=str(tmp_path / IMAGES.name), output=tmp_path / "f.h5", checkpoint=tmp_path / CHECKPOINT.name
    )
    assert extract.run(options).rows == 1797
    assert (tmp_path / IMAGES.name).read_bytes() == IMAGES.read_bytes()

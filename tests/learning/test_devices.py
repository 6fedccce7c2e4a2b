"""Devices that are not there, and memory that is not enough."""

from __future__ import annotations

import pytest
import torch

from pdac_cli.errors import ModelError, StorageError, UsageError
from pdac_cli.learning.devices import autocast, choose_device, device_errors
from pdac_cli.options.extract import Amp


def test_auto_takes_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for cuda, mps, expected in ((False, False, "cpu"), (False, True, "mps"), (True, True, "cuda")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
        assert choose_device("auto").type == expected


def test_a_device_asked_for_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for name, words in (("cuda", "finds 0 CUDA devices"), ("mps", "no Apple GPU")):
        with pytest.raises(ModelError, match=words):
            choose_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert choose_device("cuda:0") == torch.device("cuda:0")
    with pytest.raises(ModelError, match="finds 1 CUDA devices; expected number 3"):
        choose_device("cuda:3")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cpu:1", ""])
def test_names_that_are_no_devices(name: str) -> None:
    with pytest.raises(UsageError, match="expected auto, cpu, cuda"):
        choose_device(name)


def test_mixed_precision_needs_a_gpu() -> None:
    with pytest.raises(UsageError, match="--amp bf16 on the CPU"):
        autocast(torch.device("cpu"), Amp.BF16)


def test_too_little_memory_suggests_a_batch_size() -> None:
    with pytest.raises(StorageError, match=r"batch of 128.*--batch-size 64"), device_errors(128):
        raise torch.OutOfMemoryError("CUDA out of memory")

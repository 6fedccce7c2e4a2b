"""Checkpoints of every form, and files that would run code: nothing of them runs."""

from __future__ import annotations

import argparse
import hashlib
import json
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from pdac_cli.errors import ModelError
from pdac_cli.learning.networks.backbones import ResNet18
from pdac_cli.learning.networks.checkpoints import load_checkpoint, strip_prefixes
from pdac_cli.learning.networks.pickles import foreign_globals
from tests.learning.malicious import Malicious

State = dict[str, torch.Tensor]


def prefixed(state: State, prefix: str) -> State:
    return {f"{prefix}{key}": value for key, value in state.items()}


def lightning(state: State) -> dict[str, Any]:
    return {
        "epoch": 3,
        "global_step": 12,
        "pytorch-lightning_version": "2.5.0",
        "state_dict": prefixed(state, "model."),
        "optimizer_states": [{"state": {}, "param_groups": [{"lr": 0.1}]}],
        "hyper_parameters": {"mean": [0.5], "std": [0.25]},
    }


FORMS: dict[str, Callable[[State], Any]] = {
    "raw": lambda state: state,
    "state_dict": lambda state: {"state_dict": state, "epoch": 7},
    "model": lambda state: {"model": state, "optimizer": {"lr": 0.1}},
    "model_state_dict": lambda state: {"model_state_dict": state},
    "lightning": lightning,
    "ddp": lambda state: prefixed(state, "module."),
    "compiled ddp": lambda state: {"state_dict": prefixed(state, "module._orig_mod.")},
    "wrapped": lambda state: prefixed(state, "model.backbone."),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("zipped", [True, False])
def test_every_form_gives_the_same_state(tiny: ResNet18, tmp_path: Path, form: str, zipped: bool) -> None:
    path = tmp_path / "net.pt"
    state = tiny.state_dict()
    torch.save(FORMS[form](dict(state)), path, _use_new_zipfile_serialization=zipped)
    loaded = load_checkpoint(path)
    assert list(loaded.state) == list(state)
    assert all(torch.equal(loaded.state[key], state[key]) for key in state)
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_safetensors_with_metadata(tiny: ResNet18, tmp_path: Path) -> None:
    path = tmp_path / "net.bin"  # told by its content
    save_file(prefixed(dict(tiny.state_dict()), "module."), path, {"mean": json.dumps([0.5]), "arch": "resnet18"})
    loaded = load_checkpoint(path)
    assert all(torch.equal(loaded.state[key], value) for key, value in tiny.state_dict().items())
    assert loaded.meta == {"mean": [0.5], "arch": "resnet18"}
    assert loaded.notes == ("prefix 'module.' taken off the parameter names",)


def test_lightning_hyper_parameters_are_the_metadata(tiny: ResNet18, tmp_path: Path) -> None:
    path = tmp_path / "net.ckpt"
    torch.save(lightning(tiny.state_dict()), path)
    loaded = load_checkpoint(path)
    assert (loaded.meta["mean"], loaded.meta["std"], loaded.meta["epoch"]) == ([0.5], [0.25], 3)


def test_what_lies_beside_the_network_is_left_out_and_said(tiny: ResNet18) -> None:
    state = {**prefixed(dict(tiny.state_dict()), "model."), "loss.weight": torch.ones(5)}
    found, notes = strip_prefixes(state)
    assert list(found) == list(tiny.state_dict())
    assert notes == ("prefix 'model.' taken off the parameter names", "left out of the checkpoint: 'loss.weight'")


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("how", ["torch", "legacy", "pickle"])
def test_malicious_pickles_run_nothing(tiny: ResNet18, tmp_path: Path, canary: Path, how: str, protocol: int) -> None:
    path = tmp_path / "net.pt"
    content = {"state_dict": tiny.state_dict(), "extra": Malicious(canary)}
    if how == "pickle":
        path.write_bytes(pickle.dumps(content, protocol))
    else:
        torch.save(content, path, pickle_protocol=protocol, _use_new_zipfile_serialization=how == "torch")
    with pytest.raises(ModelError, match=r"builtin.*\.exec.*nothing was loaded"):
        load_checkpoint(path)
    assert not canary.exists()
    if how == "pickle":  # the canary sings if the file is loaded carelessly
        pickle.loads(path.read_bytes())
    else:
        torch.load(path, weights_only=False)
    assert canary.exists()


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (torch.nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        ({"args": argparse.Namespace(lr=1)}, "argparse.Namespace"),
    ],
)
def test_pickled_objects_are_refused_by_name(tmp_path: Path, content: object, name: str) -> None:
    path = tmp_path / "net.pt"
    torch.save(content, path)
    with pytest.raises(ModelError, match=name):
        load_checkpoint(path)
    assert set(torch.serialization.get_unsafe_globals_in_checkpoint(path)) <= set(foreign_globals(path))


def test_a_script_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(torch.nn.ReLU(), torch.zeros(1)), path)
    with pytest.raises(ModelError, match="TorchScript"):
        load_checkpoint(path)


@pytest.mark.parametrize("form", ["zip", "legacy", "safetensors"])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.999])
def test_truncated_files_are_refused(tiny: ResNet18, tmp_path: Path, form: str, share: float) -> None:
    path = tmp_path / "net"
    if form == "safetensors":
        save_file(dict(tiny.state_dict()), path)
    else:
        torch.save(tiny.state_dict(), path, _use_new_zipfile_serialization=form == "zip")
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(ModelError, match="write or copy it again") as caught:
        load_checkpoint(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (torch.zeros(3), "holds one Tensor; expected a state dict"),
        ({"epoch": 3, "lr": 0.1}, "holds no tensors by name, only 'epoch', 'lr'"),
        ([torch.zeros(2)], "holds one list"),
    ],
)
def test_other_contents_are_refused(tmp_path: Path, content: object, words: str) -> None:
    path = tmp_path / "net.pt"
    torch.save(content, path)
    with pytest.raises(ModelError, match=words):
        load_checkpoint(path)


def test_no_checkpoint_at_all(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("this is a shopping list\n")
    with pytest.raises(ModelError, match="not a checkpoint"):
        load_checkpoint(path)

"""Checkpoints of every common form, read without running anything they hold.

``torch.load(weights_only=True)`` builds tensors and plain containers and refuses all else.  What it refuses is named
from the pickle's opcodes, which are read and never executed.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import struct
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdac_cli.errors import ModelError
from pdac_cli.learning.networks.pickles import foreign_globals
from pdac_cli.learning.networks.tensor_claims import find_false_claim

STATE_KEYS = ("state_dict", "model_state_dict", "model", "network", "net")
META_KEYS = ("meta", "metadata", "hyper_parameters", "config")
PREFIXES = ("module.", "_orig_mod.", "backbone.", "model.", "network.", "net.")
_SHOWN = 5
_LOAD_ERRORS = (
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    EOFError,
    OSError,
    AssertionError,
    OverflowError,
    MemoryError,
    struct.error,
)


@dataclass(frozen=True)
class Checkpoint:
    """A state dict with bare parameter names, what the file says beside it, and the file's hash."""

    path: Path
    state: dict[str, Tensor]
    meta: dict[str, Any]
    sha256: str
    notes: tuple[str, ...]


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a raw state dict, ``{"state_dict": …}``, ``{"model": …}``, a Lightning file or safetensors."""
    content, meta = _load_safetensors(path) if _is_safetensors(path) else (_load_pickled(path), {})
    state, meta = _find_state(path, content, meta)
    state, notes = strip_prefixes(state)
    return Checkpoint(path, state, meta, sha256_of(path), notes)


def sha256_of(path: Path) -> str:
    """The file's SHA-256, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def strip_prefixes(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Take off the prefixes that wrappers put before parameter names, and say so.

    A prefix goes if more than half of the names have it; the others then belong to something beside the network (a
    loss, a second head) and are left out.
    """
    found, notes = dict(state), []
    while prefix := next((p for p in PREFIXES if 2 * sum(key.startswith(p) for key in found) > len(found)), None):
        others = [key for key in found if not key.startswith(prefix)]
        notes.append(f"prefix '{prefix}' taken off the parameter names")
        if others:
            notes.append(f"left out of the checkpoint: {_some(others)}")
        found = {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)}
    return found, tuple(notes)


def _is_safetensors(path: Path) -> bool:
    """By content: eight bytes of header length, then a JSON object."""
    with path.open("rb") as stream:
        head = stream.read(9)
    return path.suffix == ".safetensors" or (len(head) == 9 and head[8:] == b"{" and head[:2] != b"PK")


def _load_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            texts = file.metadata() or {}
            return {key: file.get_tensor(key) for key in file.keys()}, _decoded(texts)  # noqa: SIM118
    except (SafetensorError, *_LOAD_ERRORS) as problem:
        raise ModelError(
            f"{path}: is no complete safetensors file ({_plain(problem)}); expected one; write or copy it again"
        ) from problem


def _decoded(texts: Mapping[str, str]) -> dict[str, Any]:
    """The metadata of safetensors is all text: values that are JSON become what they mean."""
    meta: dict[str, Any] = {}
    for key, text in texts.items():
        try:
            meta[key] = json.loads(text)
        except ValueError:
            meta[key] = text
    return meta


def _load_pickled(path: Path) -> object:
    with path.open("rb") as stream:
        claim = find_false_claim(stream)
    if claim is not None:
        raise _damaged(path, claim)
    try:
        with warnings.catch_warnings():  # on old and odd forms, which are either read or refused below
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as problem:
        names = foreign_globals(path)
        if not names:
            raise _damaged(path, _plain(problem)) from problem
        raise ModelError(
            f"{path}: unpickling it would import {_some(names)}, which could run code, so nothing was loaded; "
            "expected tensors and plain values only; save model.state_dict() and load that"
        ) from problem
    except _LOAD_ERRORS as problem:
        if "TorchScript" in str(problem):
            raise ModelError(
                f"{path}: is a TorchScript archive, which holds code; expected a state dict; "
                "save module.state_dict() of it"
            ) from problem
        raise _damaged(path, _plain(problem)) from problem


def _damaged(path: Path, reason: str) -> ModelError:
    return ModelError(
        f"{path}: truncated, damaged or not a checkpoint ({reason}); expected a state dict saved by "
        "torch.save or as safetensors; write or copy it again"
    )


def _find_state(path: Path, content: object, meta: dict[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The dict of tensors, at the top or under one of the common names, and the plain values beside it."""
    if not isinstance(content, Mapping):
        raise ModelError(
            f"{path}: holds one {type(content).__name__}; expected a state dict, names to tensors; "
            "save model.state_dict()"
        )
    nested = next((content[key] for key in STATE_KEYS if isinstance(content.get(key), Mapping)), content)
    state = {str(key): value for key, value in nested.items() if isinstance(value, Tensor)}
    if not state:
        raise ModelError(
            f"{path}: holds no tensors by name, only {_some([str(key) for key in nested])}; expected a state dict, "
            f"at the top or as one of {', '.join(STATE_KEYS)}"
        )
    _check_plain(path, state)
    beside = {str(k): v for k, v in content.items() if k not in STATE_KEYS and not isinstance(v, Tensor | Mapping)}
    for key in META_KEYS:
        if isinstance(content.get(key), Mapping):
            beside |= {str(name): value for name, value in content[key].items()}
    return state, {**meta, **beside}


def _check_plain(path: Path, state: Mapping[str, Tensor]) -> None:
    """Refuse weights that are no real numbers in memory."""
    for key, value in state.items():
        odd = value.is_complex() or value.is_quantized or value.layout != torch.strided or value.device.type != "cpu"
        if odd:
            raise ModelError(
                f"{path}: {key[:80]!r} is {value.dtype}, {value.layout}, on {value.device}; expected plain real "
                "numbers; save model.state_dict() of a network in float32"
            )


def _some(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(repr(name[:80]) for name in names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")


def _plain(problem: BaseException) -> str:
    text = " ".join(str(problem).split())
    if text.startswith("Weights only load failed"):  # advice to load it unsafely, which we do not pass on
        text = "no pickle of tensors"
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:100] or type(problem).__name__

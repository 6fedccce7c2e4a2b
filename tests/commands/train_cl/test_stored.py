"""Checkpoints of a run: what is not one is said to be damaged, and a bug of ours stays a bug."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch

from pdac_cli.commands.train_cl.offline_memory import NoMemory
from pdac_cli.commands.train_cl.stored import restored
from pdac_cli.errors import ModelError
from pdac_cli.learning.learner import Learner
from pdac_cli.learning.loop import packed
from pdac_cli.learning.networks.heads import new_network
from pdac_cli.learning.progress import RunProgress
from pdac_cli.options.train_cl import LearningOptions
from tests.learning.samples import CPU, feature_samples

WHERE = Path("run/uniform/seed-0")


def new_learner() -> Learner:
    return Learner(new_network((6,), 4, 1, 0, None, seed=3), feature_samples(), LearningOptions(), CPU)


def contents() -> dict[str, Any]:
    place = RunProgress(task=1, losses=[[0.5]], accuracy=[[0.75]])
    return dict(torch.load(io.BytesIO(packed(new_learner(), NoMemory(), place)), weights_only=True))


def stored(found: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(found, stream)
    return stream.getvalue()


def test_a_checkpoint_is_read_back() -> None:
    progress = restored(stored(contents()), WHERE, new_learner(), NoMemory())
    assert (progress.task, progress.losses, progress.accuracy) == (1, [[0.5]], [[0.75]])


DAMAGES = {
    "not a table": lambda found: [found],
    "a part is missing": lambda found: {"learner": found["learner"], "memory": {}},
    "a place of other fields": lambda found: {**found, "progress": {"task": 1}},
    "a task that is no number": lambda found: {**found, "progress": {**found["progress"], "task": "1"}},
    "a task before the first": lambda found: {**found, "progress": {**found["progress"], "task": -1}},
    "a matrix that is not a triangle": lambda found: {
        **found, "progress": {**found["progress"], "accuracy": [[1.0, 1.0]]}
    },
    "a layer is missing": lambda found: {**found, "learner": {**found["learner"], "network": {}}},
    "a layer of another size": lambda found: {
        **found, "learner": {**found["learner"],
                             "network": {k: v[:1] for k, v in found["learner"]["network"].items()}}
    },
    "another scaler": lambda found: {**found, "learner": {**found["learner"], "scaler": {"scale": 1.0}}},
    "a learner that is no table": lambda found: {**found, "learner": [1]},
    "a memory of numbers": lambda found: {**found, "memory": {"seen": 3}},
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_not_a_checkpoint_is_refused(damage: str) -> None:
    with pytest.raises(ModelError, match=r"run/uniform/seed-0: damaged \(.*; remove it, and --resume begins"):
        restored(stored(DAMAGES[damage](contents())), WHERE, new_learner(), NoMemory())


@pytest.mark.parametrize("place", ["pdac_cli.learning.loop.RunProgress", "pdac_cli.learning.learner.Learner.restore"])
def test_a_bug_in_restoring_is_not_taken_for_damage(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = stored(contents())

    def wrong(*_: object, **__: object) -> object:
        return {}["no such key"]

    monkeypatch.setattr(place, wrong)
    with pytest.raises(KeyError, match="no such key"):
        restored(data, WHERE, new_learner(), NoMemory())

"""The lines for other frameworks run: with those that are installed, with their published interfaces elsewhere."""

import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import TensorDataset

from tests.documents import ROOT, blocks

README = ROOT / "pdac_cli" / "api" / "README.md"
RECIPES = [block.text for block in blocks(README.read_text("utf-8")) if block.kind == "py"]


class MammothBuffer:
    """As of Mammoth's `utils.buffer`."""

    def __init__(self, buffer_size, device="cpu"):
        self.buffer_size, self.num_seen_examples = buffer_size, 0

    def get_data(self, size):
        chosen = np.random.default_rng(0).choice(min(self.num_seen_examples, len(self.examples)), size, replace=False)
        return self.examples[chosen], self.labels[chosen]


class HuggingFace:
    """As of `datasets.Dataset`."""

    def __init__(self, columns):
        self.columns = columns

    from_dict = classmethod(lambda cls, columns: cls(columns))

    def __getitem__(self, name):
        return self.columns[name]

    def __len__(self):
        return len(self.columns["label"])

    def select(self, rows):
        return HuggingFace({name: [column[row] for row in rows] for name, column in self.columns.items()})


class Cells:
    """As of `anndata.AnnData`."""

    def __init__(self, X, obs, obsm):
        self.X, self.obs, self.obsm = X, obs, obsm

    def __getitem__(self, rows):
        return Cells(self.X[rows], self.obs.iloc[rows], {name: part[rows] for name, part in self.obsm.items()})

    def copy(self):
        return self


STAND_INS = {"utils.buffer": {"Buffer": MammothBuffer}, "datasets": {"Dataset": HuggingFace},
             "anndata": {"AnnData": Cells}}  # fmt: skip


@pytest.fixture
def run(monkeypatch, avalanche):
    """Run the recipe that holds a text; return its names."""
    for name, content in STAND_INS.items():
        if importlib.util.find_spec(name.partition(".")[0]) is not None:
            continue
        for part in {name.partition(".")[0], name}:
            monkeypatch.setitem(sys.modules, part, ModuleType(part))
        vars(sys.modules[name]).update(content)

    def recipe(text):
        (found,) = [one for one in RECIPES if text in one]
        assert len(found.splitlines()) <= 13
        names = {}
        exec(compile(found, str(README), "exec"), names)
        return names

    return recipe


def test_every_recipe_is_tested():
    assert len(RECIPES) == 5


def test_avalanche(run):
    names = run("AvalancheStorage")
    assert names["plugins"][0].storage_policy is names["storage"]


def test_mammoth(run):
    buffer = run("utils.buffer")["DensityBuffer"](20, lambda x: x.flatten(1))
    x, y = torch.randn(96, 1, 3, 3), torch.arange(96) % 4
    for at in range(0, 96, 32):
        buffer.add_data(examples=x[at : at + 32], labels=y[at : at + 32])
    samples, labels = buffer.get_data(8)
    assert samples.shape == (8, 1, 3, 3)
    assert labels.shape == (8,)
    assert buffer.num_seen_examples == len(buffer.examples) == 20


def test_pilot(run):
    construct = run("_construct_exemplar")["_construct_exemplar"]
    data, targets = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32), np.arange(120) % 6

    class Learner:
        _known_classes, _total_classes = 0, 2
        _data_memory = _targets_memory = np.array([])

        def _extract_vectors(self, loader):
            return np.concatenate([x.numpy() for x, _ in loader]), np.concatenate([y.numpy() for _, y in loader])

    def get_dataset(classes, source, mode, ret_data):
        own = np.isin(targets, classes)
        rows = TensorDataset(torch.from_numpy(data[own]), torch.from_numpy(targets[own]))
        return data[own], targets[own], rows

    learner, manager = Learner(), SimpleNamespace(get_dataset=get_dataset)
    construct(learner, manager, 5)
    learner._known_classes, learner._total_classes = 2, 4
    construct(learner, manager, 5)
    assert np.bincount(learner._targets_memory.astype(int)).tolist() == [5, 5, 5, 5]
    assert learner._data_memory.shape == (20, 6)


def test_hugging_face(run):
    names = run("from datasets")
    assert sorted(names["small"]["label"][:]) == [0] * 4 + [1] * 4 + [2] * 4


def test_anndata(run):
    names = run("import anndata")
    kept = names["small"].obs["cell_type"].value_counts().to_dict()
    assert kept == {"B": 4, "NK": 4, "T": 4}

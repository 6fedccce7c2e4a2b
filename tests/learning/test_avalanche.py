"""Avalanche's buffers with our selectors: its own library where that is installed, else its published interface."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from pdac_cli import CoresetSelector
from pdac_cli.errors import UsageError
from tests.conftest import STAND_INS

WIDTH, CLASSES = 6, 6


class Rows:
    """A data set that knows Avalanche's `subset`, `concat` and `eval`."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        return self.x[row], int(self.y[row]), 0

    def subset(self, rows):
        return Rows(self.x[list(rows)], self.y[list(rows)])

    def concat(self, other):
        return Rows(torch.cat([self.x, other.x]), torch.cat([self.y, other.y]))

    def eval(self):
        return self


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, WIDTH), nn.Dropout(0.5), nn.ReLU())
        self.unused = nn.Linear(1, 1)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.head(self.features(x))


@pytest.fixture
def adapters(avalanche):
    import pdac_cli

    return pdac_cli.AvalancheExemplars, pdac_cli.AvalancheStorage


@pytest.fixture
def tasks():
    generator = torch.Generator().manual_seed(0)
    y = [torch.arange(60) % 2 + 2 * k for k in range(3)]
    return [Rows(torch.randn(60, 4, generator=generator) + labels[:, None], labels) for labels in y]


@pytest.fixture
def strategy():
    torch.manual_seed(0)
    return SimpleNamespace(model=Net().train(), device="cpu", experience=None)


def seen(strategy, data):
    """What the model makes of the rows, without dropout."""
    strategy.model.eval()
    with torch.no_grad():
        found = strategy.model.features(data.x).numpy()
    strategy.model.train()
    return found


def test_the_storage_keeps_what_the_selector_keeps_task_by_task(adapters, tasks, strategy):
    storage = adapters[1](CoresetSelector(budget=30), "features", batch_size=7)
    alone = CoresetSelector(budget=30)
    for count, data in enumerate(tasks, 1):
        strategy.experience = SimpleNamespace(dataset=data)
        storage.update(strategy)
        alone.partial_fit(seen(strategy, data), data.y.numpy())
        kept = alone.buffer_
        told = torch.cat([tasks[t - 1].x[int(row)][None] for t, row in zip(kept.task, kept.ids, strict=True)])
        assert torch.equal(torch.stack([row[0] for row in storage.buffer]), told)
        assert [row[1] for row in storage.buffer] == kept.labels.tolist()
        assert np.unique(kept.task).tolist() == list(range(1, count + 1))
    assert strategy.model.training


def test_a_storage_that_shrinks_gives_up_the_last_rows_of_every_task(adapters, tasks, strategy):
    storage = adapters[1](CoresetSelector(budget=30), lambda model, x: model.features(x))
    for data in tasks:
        strategy.experience = SimpleNamespace(dataset=data)
        storage.update(strategy)
    before = storage.selector.buffer_
    storage.resize(strategy, 12)
    after = storage.selector.buffer_
    assert len(storage.buffer) == storage.max_size == 12
    assert np.unique(after.task, return_counts=True)[1].tolist() == [4, 4, 4]
    for task in (1, 2, 3):
        for label in np.unique(before.labels[before.task == task]):
            of = [kept.ids[(kept.task == task) & (kept.labels == label)].tolist() for kept in (before, after)]
            assert of[0][: len(of[1])] == of[1]
            assert len(of[1]) == 2
    strategy.experience = SimpleNamespace(dataset=Rows(tasks[0].x + 9, tasks[0].y))
    storage.update(strategy)
    assert len(storage.buffer) == 12


def test_exemplars_are_sorted_by_the_selector_and_those_beyond_its_budget_come_last(adapters, tasks, strategy):
    selector = CoresetSelector(budget=10)
    order = adapters[0](selector, "features").make_sorted_indices(strategy, tasks[0])
    told = CoresetSelector(budget=10).fit(seen(strategy, tasks[0]), tasks[0].y.numpy()).ranking_
    assert order[:10] == told.tolist()
    assert sorted(order) == list(range(60))
    assert not hasattr(selector, "ranking_")  # it is a pattern, and stays as it is


@pytest.mark.parametrize(("layer", "why"), [("feature", "one of: features, "), ("unused", "does not use")])
def test_a_layer_that_is_not_there_is_named(adapters, tasks, strategy, layer, why):
    with pytest.raises(UsageError, match=why):
        adapters[0](CoresetSelector(budget=10), layer).make_sorted_indices(strategy, tasks[0])
    assert strategy.model.training


def test_without_avalanche_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(STAND_INS)])
    for name in [name for name in sys.modules if name.split(".")[0] == "avalanche"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "pdac_cli.learning.avalanche", raising=False)
    monkeypatch.setitem(sys.modules, "avalanche", None)
    import pdac_cli

    monkeypatch.delitem(vars(pdac_cli), "AvalancheStorage", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'pdac-cli\[avalanche\]'"):
        pdac_cli.AvalancheStorage  # noqa: B018


@pytest.mark.slow
def test_the_real_library_trains_with_both_adapters(adapters):
    pytest.importorskip("avalanche.benchmarks")  # not in the stand-in
    from avalanche.benchmarks import nc_benchmark
    from avalanche.training import Naive
    from avalanche.training.plugins import ReplayPlugin
    from avalanche.training.storage_policy import ParametricBuffer
    from torch.utils.data import Dataset

    class Labelled(Dataset):
        def __init__(self, x, y):
            self.x, self.targets = x, y.tolist()

        def __len__(self):
            return len(self.x)

        def __getitem__(self, row):
            return self.x[row], self.targets[row]

    y = torch.arange(240) % CLASSES
    data = Labelled(torch.randn(240, 4) + 3 * y[:, None], y)
    exemplars, storage = adapters
    for policy in (
        storage(CoresetSelector(budget=30), "features"),
        ParametricBuffer(30, groupby="class", selection_strategy=exemplars(CoresetSelector(budget=30), "features")),
    ):
        benchmark, model = nc_benchmark(data, data, n_experiences=3, task_labels=False, seed=0), Net()
        trainer = Naive(
            model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), criterion=nn.CrossEntropyLoss(),
            train_mb_size=16, evaluator=None, plugins=[ReplayPlugin(mem_size=30, storage_policy=policy)],
        )  # fmt: skip
        for experience in benchmark.train_stream:
            trainer.train(experience)
        labels, counts = np.unique([int(label) for label in policy.buffer.targets], return_counts=True)
        assert labels.tolist() == list(range(CLASSES))
        assert counts.tolist() == [5] * CLASSES

"""Replay in a training loop: what is stored is what the selector keeps, whatever happens on the way."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from pdac_cli import (
    CoresetSelector,
    InputError,
    PdacError,
    ReplayBatchSampler,
    ReplayBuffer,
    StreamingSelector,
    coreset_subset,
)
from pdac_cli.errors import DataError, ModelError, UsageError

BUDGET = 20


@pytest.fixture(scope="module")
def stream():
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(320) % 4
    return torch.randn(320, 1, 3, 3, generator=generator) + y[:, None, None, None], y


def fed(buffer, stream, start=0, stop=320):
    x, y = stream
    for at in range(start, stop, 32):
        part = slice(at, at + 32)
        buffer.add(x[part], y[part], torch.arange(at, at + 32), features=x[part].flatten(1) * 2)
    return buffer


def test_what_is_stored_is_what_the_selector_keeps(stream):
    x, y = stream
    buffer = fed(ReplayBuffer(StreamingSelector(BUDGET)), stream)
    kept = StreamingSelector(BUDGET).partial_fit(x.flatten(1) * 2, y).buffer_
    samples, labels, rows = buffer.all()
    assert rows.tolist() == sorted(kept.ids.tolist())
    assert torch.equal(samples, x[rows])
    assert torch.equal(labels, y[rows])
    assert len(buffer) == BUDGET


def test_samples_are_drawn_evenly_and_each_at_most_once(stream):
    buffer = fed(ReplayBuffer(StreamingSelector(BUDGET), seed=3), stream)
    counts = np.zeros(320)
    for _ in range(2000):
        *_, rows = buffer.sample(5)
        assert len(set(rows.tolist())) == 5
        counts[rows.numpy()] += 1
    drawn = counts[counts > 0]
    assert len(drawn) == BUDGET
    assert abs(drawn - 500).max() < 5 * np.sqrt(500)
    assert len(buffer.sample(1000)[0]) == BUDGET


def test_a_buffer_goes_on_from_its_state(stream, tmp_path):
    buffer = fed(ReplayBuffer(StreamingSelector(BUDGET)), stream, 0, 160)
    torch.save(buffer.state_dict(), tmp_path / "buffer.pt")
    again = ReplayBuffer(StreamingSelector(BUDGET), seed=9)
    again.load_state_dict(torch.load(tmp_path / "buffer.pt", weights_only=True))
    for one in (buffer, again):
        fed(one, stream, 160)
    for mine, theirs in zip(buffer.sample(9), again.sample(9), strict=True):
        assert torch.equal(mine, theirs)
    state = buffer.state_dict()
    for damage in ({"ids": state["ids"][:-1]}, {"columns": 3}, {"selector": {}}):
        with pytest.raises(PdacError, match="the state cannot be read"):
            ReplayBuffer(StreamingSelector(BUDGET)).load_state_dict({**state, **damage})
    with pytest.raises(ModelError, match="the state cannot be read"):
        again.load_state_dict({})


def test_gradients_are_let_go_and_devices_are_kept(stream):
    x, y = stream
    x = x.clone().requires_grad_()
    buffer = ReplayBuffer(StreamingSelector(BUDGET), device="cpu")
    buffer.add(x[:64] * 2, y[:64])  # features are the samples, flattened
    samples, _ = buffer.sample(5)
    assert not samples.requires_grad
    assert buffer.to("meta").all()[0].device.type == "meta"


def test_batches_that_do_not_fit_are_refused(stream):
    x, y = stream
    buffer = ReplayBuffer(StreamingSelector(BUDGET))
    with pytest.raises(UsageError, match="holds no row yet"):
        buffer.sample(3)
    with pytest.raises(DataError, match=r"columns of \[31, 32\] rows"):
        buffer.add(x[:32], y[:31])
    buffer.add(x[:32], y[:32])
    with pytest.raises(DataError, match="has 3 columns, the buffer 2"):
        buffer.add(x[:32], y[:32], y[:32])
    with pytest.raises(InputError, match="NaN"):
        buffer.add(x[:32] * float("nan"), y[:32])
    assert len(buffer) == BUDGET


def test_batches_have_every_new_row_once_and_stored_rows_beside_them():
    sampler = ReplayBatchSampler(new=range(40, 100), stored=range(10), batch_size=8, n_stored=4, seed=1)
    data = TensorDataset(torch.arange(100))
    epochs = [[batch.tolist() for (batch,) in DataLoader(data, batch_sampler=sampler)] for _ in range(2)]
    for batches in epochs:
        assert len(batches) == len(sampler) == 8
        assert sorted(row for batch in batches for row in batch if row >= 40) == list(range(40, 100))
        assert all(len({row for row in batch if row < 10}) == 4 for batch in batches)
    assert epochs[0] != epochs[1]
    again = ReplayBatchSampler(new=range(40, 100), stored=range(10), batch_size=8, n_stored=4, seed=1)
    assert next(batch for (batch,) in DataLoader(data, batch_sampler=again)).tolist() == epochs[0][0]
    assert [len(batch) for batch in ReplayBatchSampler([1, 2, 3], [], batch_size=2, n_stored=4)] == [2, 1]
    with pytest.raises(UsageError, match="batch_size is 0; expected at least 1"):
        ReplayBatchSampler([1], [], batch_size=0, n_stored=1)


@pytest.mark.parametrize("suffix", [".json", ".h5", ".npy", ".txt"])
def test_a_subset_is_the_rows_of_the_index(stream, tmp_path, suffix):
    x, y = stream
    selector = CoresetSelector(budget=BUDGET).fit(x.flatten(1), y)
    path = tmp_path / f"coreset{suffix}"
    selector.to_file(path)
    subset = coreset_subset(TensorDataset(x, y), path)
    assert list(subset.indices) == selector.ranking_.tolist()
    assert torch.equal(subset[3][0], x[selector.ranking_[3]])
    short = TensorDataset(x[:300], y[:300])
    if suffix in (".json", ".h5"):
        with pytest.raises(InputError, match="was chosen from 320 rows, the data set has 300; expected as many"):
            coreset_subset(short, path)
    else:
        with pytest.raises(InputError, match="out of range"):
            coreset_subset(TensorDataset(x[:5], y[:5]), path)


def test_a_subset_of_one_of_several_tasks(stream, tmp_path):
    x, y = stream
    selector, path = CoresetSelector(budget=BUDGET), tmp_path / "buffer.json"
    for part in (slice(0, 100), slice(100, 320)):
        selector.partial_fit(x[part].flatten(1), y[part])
    selector.to_file(path)
    second = TensorDataset(x[100:], y[100:])
    assert list(coreset_subset(second, path, task=2).indices) == selector.ranking_.tolist()
    with pytest.raises(InputError, match=r"rows of tasks \[1, 2\]; expected those of one; choose it with task"):
        coreset_subset(second, path)
    with pytest.raises(InputError, match="has no task 3"):
        coreset_subset(second, path, task=3)

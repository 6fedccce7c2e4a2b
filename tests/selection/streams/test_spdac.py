"""SPDAC in a stream: against a transcription that takes every sum afresh, and by what it is for."""

import pathlib

import numpy as np
import pytest

from pdac_cli.density.relative import calibrate
from pdac_cli.engine.stream.packing import pack, unpack
from pdac_cli.engine.stream.running import Stream
from pdac_cli.options.methods import StreamMethod
from pdac_cli.options.stream import StreamOptions
from pdac_cli.rng import Purpose, row_uniforms
from pdac_cli.selection.streams import running_density
from pdac_cli.selection.streams.er import ER
from pdac_cli.selection.streams.spdac import SPDAC


def rows(n=300, dim=4, classes=3, seed=0, apart=1.5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return (rng.standard_normal((n, dim)) + apart * np.eye(dim)[y % dim]).astype("f4"), y


def options(budget, **more):
    return StreamOptions(budget=budget, output=pathlib.Path("out.json"), **more)


def streamed(h, y, budget, batch=32, stream=None, start=0, method=SPDAC, **more):
    stream = stream or Stream.begin(options(budget, **more), method, h.shape[1])
    for at in range(start, len(y), batch):
        part = slice(at, at + batch)
        stream.take(0, np.arange(len(y))[part], h[part], y[part])
    return stream


OF_METHOD = ("buffer/", "memo/", "seen")  # the engine numbers classes batch by batch


def assert_same(one, two, parts=("",)):
    """Hold all that two streams know, or some parts of it, to be the same to the bit."""
    found, expected = ({name: a for name, a in pack(of).items() if name.startswith(parts)} for of in (one, two))
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_array_equal(found[name], array, err_msg=name)


class Plainly:
    """The rule on lists: every mean and covariance from all rows seen so far, rows left out one by one."""

    def __init__(self, h, y, budget, sample, beta):
        self.u = h.astype("f8") / np.linalg.norm(h.astype("f8"), axis=1, keepdims=True)
        self.y, self.budget, self.beta = y, budget, beta
        self.kept, self.log_r, self.weight, self.model = [], {}, {}, None
        self.sample, self.room, self.last, self.known = [], sample, 0, 0

    def rows(self):
        for i in range(len(self.y)):
            self.offer(i)
        return self.kept

    def offer(self, i):
        self.log_r[i] = 0.0
        if self.model is not None and self.model["counts"].get(self.y[i], 0) >= 8:
            self.log_r[i] = self.judge(self.scores(i), self.y[i])
        self.weight[i] = max(np.exp(self.log_r[i]), 1e-6)
        if i < self.room:
            self.sample.append(i)
        else:
            slot = int(row_uniforms(0, Purpose.CALIBRATE, np.array([i]))[0] * (i + 1))
            self.sample[slot : slot + 1] = [i] if slot < self.room else self.sample[slot : slot + 1]
        self.take(i)
        settled = np.count_nonzero(np.unique(self.y[: i + 1], return_counts=True)[1] >= 8)
        if i + 1 >= 1.2 * self.last + 50 or (i + 1 >= self.last + 100 and settled > self.known):
            self.last, self.known = i + 1, settled
            if settled >= 2:
                self.renew(i + 1)

    def take(self, i):
        mine = [k for k in self.kept if self.y[k] == self.y[i]]
        if len(self.kept) < self.budget:
            self.kept.append(i)
            return
        classes = list(dict.fromkeys(self.y[: i + 1].tolist()))
        if len(mine) < self.budget // len(classes):
            most = max(classes, key=lambda label: sum(self.y[k] == label for k in self.kept))
            gone = self.given_up(most, [k for k in self.kept if self.y[k] == most], i)
        elif mine:
            gone = self.given_up(self.y[i], [i, *mine], i)
        else:
            return
        if gone != i:
            self.kept[self.kept.index(gone)] = i

    def given_up(self, label, of, i):
        seen = [k for k in range(i + 1) if self.y[k] == label]
        weight = np.array([self.weight[k] for k in seen])
        mean = weight @ self.u[seen] / weight.sum()

        def ease(row):
            left = (len(of) - 1) * mean - sum(self.u[k] for k in of if k != row)
            return -self.log_r[row] - self.beta * (left @ left) / max(1 - mean @ mean, 1e-6)

        return max(of, key=ease)

    def renew(self, seen):
        u, y = self.u[:seen], self.y[:seen]
        labels = list(dict.fromkeys(y.tolist()))
        mean = {label: u[y == label].mean(axis=0) for label in labels}
        v = np.array([u[k] - mean[y[k]] for k in range(seen)])
        counts = {label: int((y == label).sum()) for label in labels}
        self.model = {"labels": labels, "mean": mean, "counts": counts, "S": v.T @ v / seen, "N": seen}
        rows = [k for k in self.sample if counts[y[k]] >= 8]
        found = calibrate(
            np.array([self.scores(k, counted=True) for k in rows]), np.array([labels.index(y[k]) for k in rows])
        )
        self.model["tau"] = found.tau
        for k in self.kept:
            if counts[y[k]] >= 8:
                self.log_r[k] = self.judge(self.scores(k, counted=True), y[k])

    def scores(self, k, counted=False):
        """−½ (d − p/n) of every class; a counted row is taken out of its mean and of S."""
        model, u, own = self.model, self.u[k], self.y[k]
        S, mean, counts = model["S"], dict(model["mean"]), dict(model["counts"])
        level = np.trace(S) / len(S) * np.eye(len(S))
        p = np.trace(np.linalg.inv(0.7 * S + 0.3 * level) @ S)
        if counted:
            n, v = counts[own], u - mean[own]
            mean[own] = (n * mean[own] - u) / (n - 1)
            S = S - n / (n - 1) * np.outer(v, v) / model["N"]
            counts[own] -= 1
        inverse = np.linalg.inv(0.7 * S + 0.3 * level)
        return [-0.5 * ((u - mean[c]) @ inverse @ (u - mean[c]) - p / counts[c]) for c in model["labels"]]

    def judge(self, scores, label):
        s = self.model["tau"] * np.array(scores)
        return s[self.model["labels"].index(label)] - np.logaddexp.reduce(s)


@pytest.mark.parametrize(("budget", "sort", "sample", "steer"), [
    (12, False, 1000, 10.0), (12, True, 1000, 10.0), (2, False, 1000, 10.0), (30, True, 100, 30.0), (9, False, 70, 0.0),
])  # fmt: skip
def test_it_is_the_rule_whatever_the_batches(monkeypatch, budget, sort, sample, steer):
    monkeypatch.setattr(running_density, "_SAMPLE", sample)
    h, y = rows()
    if sort:
        y = np.sort(y)
    expected = Plainly(h, y, budget, sample, steer).rows()
    found = streamed(h, y, budget, steer=steer)
    np.testing.assert_array_equal(found.buffer.columns["row"], expected)
    assert found.buffer.replaced >= 12
    for batch in (1, 7, 64, 300):
        assert_same(streamed(h, y, budget, batch, steer=steer), found, OF_METHOD)


def test_the_density_and_the_steering_both_decide():
    h, y = rows(1000)
    kept = {(t, b): set(streamed(h, y, 30, temperature=t, steer=b).buffer.columns["row"].tolist())
            for t in (0.0, 1.0) for b in (0.0, 10.0)}  # fmt: skip
    assert len({frozenset(one) for one in kept.values()}) == 4


@pytest.mark.parametrize("cut", [1, 31, 50, 150, 256, 260, 777])
def test_it_goes_on_from_a_state_as_if_never_stopped(cut):
    h, y = rows(1400)
    half = streamed(h[:cut], y[:cut], 12)
    again = streamed(h, y, 12, stream=unpack(pack(half), options(12), SPDAC, h.shape[1]), start=cut)
    assert_same(again, streamed(h, y, 12), OF_METHOD)


def test_classes_have_equal_shares_whenever_they_come():
    h, y = rows(900)
    rare = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:40], np.flatnonzero(y == 2)[:25]])
    for order in (np.arange(900), np.argsort(y, kind="stable"), rare, rare[::-1]):
        kept = streamed(h[order], y[order], 30).buffer.columns["row"]
        assert np.bincount(y[order][kept]).tolist() == [10, 10, 10]


@pytest.mark.parametrize("sort", [False, True])
def test_rows_with_wrong_labels_are_given_up(sort):
    """40 % of the labels replaced at random; sorted, the first class has nothing to be compared with at first."""
    h, truth = rows(3000, 16, 5, apart=3)
    rng = np.random.default_rng(1)
    y = np.where(rng.random(3000) < 0.4, rng.integers(0, 5, 3000), truth)
    order = np.argsort(y, kind="stable") if sort else np.arange(3000)
    wrong = {
        method: np.mean(truth[order][kept] != y[order][kept])
        for method, rule in ((StreamMethod.SPDAC, SPDAC), (StreamMethod.ER, ER))
        for kept in [streamed(h[order], y[order], 50, method=rule).buffer.columns["row"]]
    }
    assert wrong[StreamMethod.ER] > 0.2
    assert wrong[StreamMethod.SPDAC] < (0.12 if sort else 0.05)


def test_what_is_said_of_stored_rows_is_their_relative_density():
    h, y = rows(1200)
    stream = streamed(h, y, 30)
    known = ~np.isnan(stream.buffer.columns["log_density"])  # judged when the model was renewed last
    assert known.mean() > 0.5
    assert np.all((stream.score > 0) & (stream.score <= 1))
    assert stream.score.mean() > 1 / 3
    first = streamed(h[:40], y[:40], 30)
    assert np.isnan(first.buffer.columns["log_density"]).all()
    np.testing.assert_array_equal(first.score, 1)


def test_memory_is_bounded():
    h, y = rows(4200)
    sizes = [
        sum(array.nbytes for array in pack(streamed(h[:n], y[:n], 20, batch=64)).values()) for n in (1400, 2100, 4200)
    ]
    assert sizes[0] == sizes[1] == sizes[2]


@pytest.mark.parametrize("change", [
    lambda h, y: (h[:1], y[:1]),
    lambda h, y: (h[:9], y[:9]),
    lambda h, y: (h, np.zeros_like(y)),
    lambda h, y: (np.ones_like(h), y),
    lambda h, y: (np.zeros_like(h), y),
    lambda h, y: (h, np.arange(len(y))),
    lambda h, y: (h, np.arange(len(y)) // 8),
    lambda h, y: (h[:, :1], y),
    lambda h, y: (h * np.float32(1e37), y),
    lambda h, y: (np.eye(4, dtype="f4")[y], y),
])  # fmt: skip
@pytest.mark.parametrize("budget", [1, 5, 30])
def test_streams_with_little_to_tell_apart_work(change, budget):
    h, y = change(*rows())
    stream = streamed(h, y, budget)
    kept = stream.buffer.columns["row"]
    assert len(set(kept.tolist())) == len(kept) == min(budget, len(y))
    assert np.isfinite(stream.buffer.columns["log_r"]).all()


def test_rows_of_any_length_are_alike():
    h, y = rows()
    scaled = h * np.exp2(np.random.default_rng(0).integers(-40, 40, len(h)))[:, None].astype("f4")
    np.testing.assert_array_equal(streamed(h, y, 9).buffer.columns["row"], streamed(scaled, y, 9).buffer.columns["row"])

import csv
import itertools
import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from pdac_cli.commands.stream import runner as stream_run
from pdac_cli.engine.stream.running import Stream
from pdac_cli.files.formats.labels import LabelColumn
from pdac_cli.files.index.index_file import read_index
from pdac_cli.files.results.model import read_model
from tests.conftest import SAMPLE
from tests.oracles import clustered
from tests.processes import Killed, measured


def by_density(arguments):
    """The printed method, with densities of classes, where a test names none."""
    named = {"--method", "--preset"} & set(arguments)
    return arguments if named or "stream" not in arguments else (*arguments, "--density", "class")


@pytest.fixture
def pdac(pdac):
    def run(*arguments):
        return pdac(*by_density(arguments))

    run.plain = pdac  # the command line as it is
    return run


def start(*arguments, **options):
    command = [sys.executable, "-m", "pdac_cli", *map(str, by_density(("stream", *arguments)))]
    return subprocess.Popen(command, text=True, **{"stderr": subprocess.PIPE, **options})


def write_features(path, h, y):
    with h5py.File(path, "w") as file:
        file["features"], file["labels"] = h, y
    return path


def outcome(folder):
    return {name: (folder / name).read_bytes() for name in ("b.json", "s.h5", "m.h5")}


def test_the_buffer_is_an_ordinary_index_and_the_model_an_ordinary_model(pdac, tmp_path):
    result = pdac("stream", "--budget", 200, SAMPLE, "-o", tmp_path / "b.json", "--model", tmp_path / "m.h5", "--json")
    assert result.code == 0, result.err
    with h5py.File(SAMPLE) as file:
        h, y = file["features"][:].astype("f8"), file["labels"][:]
    index = read_index(tmp_path / "b.json")
    assert len(index.row) == len(set(index.row.tolist())) == result.json["kept"] == 200
    np.testing.assert_array_equal(index.label, y[index.row])
    assert index.sources[0].rows == result.json["rows"] == 1797
    model = read_model(tmp_path / "m.h5").model
    np.testing.assert_array_equal(model.counts, np.bincount(y))
    np.testing.assert_allclose(model.mean[4], h[y == 4].mean(axis=0), atol=1e-9)
    selected = pdac("select", "--budget", 30, SAMPLE, "--model", tmp_path / "m.h5", "--density", "class", "-q")
    assert len(selected.rows) == 30


def test_denser_rows_are_kept_and_less_dense_ones_by_the_printed_rule(pdac, tmp_path):
    """Measured by the offline fit: rows of the buffer against all rows."""
    h = np.random.default_rng(0).standard_normal((6000, 8)).astype("f4")
    path = write_features(tmp_path / "f.h5", h, np.zeros(6000, int))
    log_p = -0.5 * (h.astype("f8") ** 2).sum(axis=1)
    gaps = {}
    for rule in ("density", "paper"):
        out = tmp_path / f"{rule}.json"
        arguments = ("--budget", 300, path, "-o", out, "--acceptance", rule, "--components", 1, "--dim", 8)
        assert pdac("stream", *arguments).code == 0
        gaps[rule] = log_p[read_index(out).row].mean() - log_p.mean()
    assert gaps["density"] > 1
    assert gaps["paper"] < -0.1


def test_a_hundred_classes_in_small_batches_still_feel_the_density(pdac, tmp_path):
    rng = np.random.default_rng(1)
    h, y = rng.standard_normal((8000, 4)).astype("f4"), rng.integers(0, 100, 8000)
    path = write_features(tmp_path / "f.h5", h, y)
    log_p = -0.5 * (h.astype("f8") ** 2).sum(axis=1)
    gaps = []
    for window in (32, 0):
        out = tmp_path / f"{window}.json"
        arguments = ("--budget", 500, path, "-o", out, "--components", 1, "--dim", 4, "--window", window)
        assert pdac("stream", *arguments).code == 0
        gaps.append(log_p[read_index(out).row].mean() - log_p.mean())
    assert gaps[0] > 0.4
    assert gaps[0] > 3 * abs(gaps[1])


@pytest.mark.parametrize("options", [(), ("--allocation", "joint"), ("--window", 0), ("--method", "er")])
def test_every_way_keeps_exactly_the_budget_and_repeats_itself(pdac, tmp_path, feature_file, options):
    path = feature_file(n=900)
    outs = [tmp_path / "one.json", tmp_path / "two.json"]
    for out in outs:
        assert pdac("stream", "--budget", 64, path, "-o", out, "--seed", 3, *options).code == 0
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert len(read_index(outs[0]).row) == 64


def test_plain_reservoir_sampling_does_not_depend_on_the_batch(pdac, tmp_path, feature_file):
    path = feature_file(n=900)
    rows = []
    for batch in (1, 32, 1000):
        out = tmp_path / f"{batch}.txt"
        assert pdac("stream", "--budget", 50, path, "-o", out, "--method", "er", "--batch", batch).code == 0
        rows.append(out.read_text())
    assert rows[0] == rows[1] == rows[2]


def test_batches_of_one_row_work(pdac, tmp_path, feature_file):
    result = pdac("stream", "--budget", 20, feature_file(n=300), "-o", tmp_path / "b.json", "--batch", 1)
    assert result.code == 0, result.err


def test_a_late_class_and_a_class_seen_once(pdac, tmp_path):
    h = clustered(600, 16, 3, seed=0).astype("f4")
    y = np.zeros(600, int)
    y[400:] = 5
    y[500] = 9
    path = write_features(tmp_path / "f.h5", h, y)
    result = pdac("stream", "--budget", 60, path, "-o", tmp_path / "b.json", "--model", tmp_path / "m.h5", "--json")
    assert result.code == 0
    assert [line["rows"] for line in result.json["per_class"]] == [400, 199, 1]
    assert "no density yet for class 9: fewer than 11 rows" in result.err
    model = read_model(tmp_path / "m.h5").model
    assert (model.dims > 0).tolist() == [True, True, False]
    assert pdac("select", "--budget", 5, path, "--model", tmp_path / "m.h5", "--density", "class", "-q").code == 0


def test_the_same_stream_in_one_call_or_in_one_call_per_file(pdac, tmp_path, feature_file, monkeypatch):
    names = [feature_file(f"day{k}.h5", n=330, seed=k).name for k in range(3)]
    monkeypatch.chdir(tmp_path)
    assert pdac("stream", "--budget", 50, *names, "-o", "all.json", "--state", "all-s.h5").code == 0
    for name in names:
        assert pdac("stream", "--budget", 50, name, "-o", "b.json", "--state", "s.h5").code == 0
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "all.json").read_bytes()
    assert (tmp_path / "s.h5").read_bytes() == (tmp_path / "all-s.h5").read_bytes()
    index = read_index(tmp_path / "b.json")
    assert len(index.sources) == 3
    assert set(index.task.tolist()) == {1, 2, 3}
    again = pdac("stream", "--budget", 50, *names, "-o", "b.json", "--state", "s.h5", "--json")
    assert again.json["new_rows"] == 0
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "all.json").read_bytes()


def test_names_of_classes_are_joined_along_the_stream(pdac, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    h = clustered(80, 12, 2, seed=0)
    for name, classes in (("a.h5", [b"dog", b"cat"]), ("b.h5", [b"ant", b"dog"])):
        write_features(tmp_path / name, h, np.array(classes)[np.arange(80) % 2])
        assert pdac("stream", "--budget", 160, name, "-o", "b.json", "--state", "s.h5").code == 0
    index = read_index(tmp_path / "b.json")
    assert index.label_names == ("ant", "cat", "dog")  # sorted, as in every other file
    assert index.class_counts == {0: 40, 1: 40, 2: 80}


def named(n, names=("dog", "cat", "ant")):
    """Rows whose classes appear one after another, the names against their order."""
    h = clustered(n, 12, 3, seed=0)
    late = np.minimum(np.arange(n) % 3, np.arange(n) * 3 // n)
    return h, np.array(names, "S3")[late]


def test_names_that_come_late_do_not_change_what_came_before(pdac, tmp_path, monkeypatch):
    """A file that was streamed while it grew ends as one that was read whole."""
    monkeypatch.chdir(tmp_path)
    h, y = named(300)
    for rows in (96, 192, 300):
        write_features(tmp_path / "f.h5", h[:rows], y[:rows])
        outputs = ("-o", "b.json", "--state", "s.h5", "--model", "m.h5")
        assert pdac("stream", "--budget", 30, "f.h5", *outputs, "--dim", 3).code == 0
    assert pdac("stream", "--budget", 30, "f.h5", "-o", "w.json", "--model", "w.h5", "--dim", 3).code == 0
    assert (tmp_path / "b.json").read_bytes() == (tmp_path / "w.json").read_bytes()
    assert (tmp_path / "m.h5").read_bytes() == (tmp_path / "w.h5").read_bytes()
    summary = pdac("stream", "--budget", 30, "f.h5", "-o", "j.json", "--json").json
    expected = dict(zip(*np.unique(y.astype(str), return_counts=True), strict=True))
    assert {line["name"]: line["rows"] for line in summary["per_class"]} == expected
    assert [line["name"] for line in summary["per_class"]] == ["ant", "cat", "dog"]
    index = read_index(tmp_path / "b.json")
    np.testing.assert_array_equal(np.array(index.label_names)[index.label], y.astype(str)[index.row])
    model = read_model(tmp_path / "m.h5")
    assert model.label_names == ("ant", "cat", "dog")
    assert model.model.counts.tolist() == [expected[name] for name in model.label_names]
    assert pdac("select", "--budget", 5, "f.h5", "--model", "m.h5", "--density", "class", "-q").code == 0


def test_numbers_that_have_names_stay_as_they_are(pdac, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_features(tmp_path / "f.h5", clustered(60, 12, 3, seed=0), 2 - np.arange(60) % 3)
    with h5py.File(tmp_path / "f.h5", "a") as file:
        file["label_names"] = [b"dog", b"cat", b"ant"]
    assert pdac("stream", "--budget", 20, "f.h5", "-o", "b.json").code == 0
    index = read_index(tmp_path / "b.json")
    assert index.label_names == ("dog", "cat", "ant")
    np.testing.assert_array_equal(index.label, 2 - index.row % 3)


def test_rows_that_come_while_others_are_worked_on_are_news(pdac, tmp_path, monkeypatch):
    """A stream slower than its time-out does not take its own work for a writer's silence."""
    path = write_features(tmp_path / "f.h5", clustered(320, 12, 2, seed=0), np.arange(320) % 2)
    ready, now = iter(range(32, 320, 32)), [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda _: now.__setitem__(0, now[0] + 1))
    take = Stream.take

    def slowly(self, *arguments):
        now[0] += 5
        return take(self, *arguments)

    monkeypatch.setattr(stream_run, "time", clock)
    monkeypatch.setattr(Stream, "take", slowly)
    monkeypatch.setattr(stream_run, "growing_rows", lambda *_: next(ready, 320))
    result = pdac("stream", "--budget", 30, path, "-o", tmp_path / "b.json", "--follow", "--timeout", 3, "--json")
    assert result.json["rows"] == 320


def test_names_of_classes_are_looked_for_once(pdac, tmp_path, monkeypatch):
    """Not again in all rows for every new batch of a growing file, nor for every state."""
    h, y = named(1280)
    write_features(tmp_path / "f.h5", h, y)
    ready = iter(range(32, 1280, 32))  # the file seems to grow by a batch
    monkeypatch.setattr(stream_run, "growing_rows", lambda *_: next(ready, 1280))
    looked, names = [], LabelColumn.names

    def counted(self, first=0):
        looked.append(self.rows - first)
        return names(self, first)

    monkeypatch.setattr(LabelColumn, "names", counted)
    result = pdac(
        "stream", "--budget", 30, tmp_path / "f.h5", "-o", tmp_path / "b.json", "--follow", "--timeout", 0.3,
        "--state", tmp_path / "s.h5", "--state-every", 64, "--dim", 3,
    )  # fmt: skip
    assert result.code == 0, result.err
    assert len(looked) > 40
    assert sum(looked) < 1.2 * 1280


@pytest.mark.parametrize("solver", ["warm", "exact", "sketch"])
def test_stopping_anywhere_and_going_on_gives_the_same_bytes(pdac, tmp_path, feature_file, monkeypatch, solver):
    """In process: after every few batches the run is abandoned, as by a kill, and started again."""
    feature_file(n=700, dim=24)
    arguments = (
        "stream", "--budget", 40, "../feats.h5", "-o", "b.json", "--state", "s.h5", "--model", "m.h5",
        "--state-every", 64, "--solver", solver, "--dim", 4, "--step-rows", 40,
    )  # fmt: skip
    folders = [tmp_path / "whole", tmp_path / "cut"]
    for folder in folders:
        folder.mkdir()
    monkeypatch.chdir(folders[0])
    assert pdac(*arguments).code == 0
    monkeypatch.chdir(folders[1])
    saves, taken = 0, 0
    take, save = stream_run.Stream.take, stream_run.StreamRun.save

    def dying(self, *rest):
        nonlocal taken
        taken += 1
        if taken % 5 == 0:
            raise Killed
        take(self, *rest)

    def counting(self):
        nonlocal saves
        saves += 1
        save(self)

    monkeypatch.setattr(stream_run.Stream, "take", dying)
    monkeypatch.setattr(stream_run.StreamRun, "save", counting)
    for _ in range(50):
        with suppress(Killed):
            assert pdac(*arguments).code == 0
            break
    assert taken > 22
    assert saves > 5
    assert outcome(folders[1]) == outcome(folders[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_run_killed_at_any_moment_and_started_again_ends_with_the_same_bytes(tmp_path, seed):
    rng = np.random.default_rng(seed)
    h, y = clustered(12_000, 64, 4, seed=1).astype("f4"), rng.integers(0, 20, 12_000)
    write_features(tmp_path / "f.h5", h, y)
    arguments = (
        "--budget", 200, "../f.h5", "-o", "b.json", "--state", "s.h5", "--model", "m.h5", "--trace", "t.csv",
        "--state-every", 500, "-q",
    )  # fmt: skip
    folders = [tmp_path / "whole", tmp_path / "killed"]
    for folder in folders:
        folder.mkdir()
    begun = time.monotonic()
    assert start(*arguments, cwd=folders[0], stderr=None).wait() == 0
    whole = time.monotonic() - begun
    kills, code = 0, None
    while code != 0:
        running = start(*arguments, cwd=folders[1], stderr=None)
        try:
            code = running.wait(timeout=rng.uniform(0.2, 1.0) * whole if kills < 8 else None)
        except subprocess.TimeoutExpired:
            running.kill()
            code = running.wait()  # it may just have ended by itself
            kills += code != 0
            assert code in (0, -signal.SIGKILL)
        else:
            assert code == 0
    assert kills >= 1
    assert outcome(folders[1]) == outcome(folders[0])
    traces = [[line.split(",")[0] for line in (folder / "t.csv").read_text().splitlines()] for folder in folders]
    assert traces[0] == traces[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_the_state_and_exits_6(pdac, tmp_path, number, monkeypatch):
    h, y = clustered(12_000, 32, 4, seed=1).astype("f4"), np.arange(12_000) % 10
    write_features(tmp_path / "f.h5", h, y)
    arguments = (
        "--budget", 100, "../f.h5", "-o", "b.json", "--state", "s.h5", "--model", "m.h5", "--step-rows", 8,
        "--state-every", 500,
    )  # fmt: skip
    folders = [tmp_path / "whole", tmp_path / "stopped"]
    for folder in folders:
        folder.mkdir()
    running = start(*arguments, cwd=folders[1])
    while running.poll() is None and not (folders[1] / "s.h5").exists():
        time.sleep(0.02)
    running.send_signal(number)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 6, err
    assert "run the same command again to go on" in err.splitlines()[-1]
    assert len(err.splitlines()) == 1
    assert {entry.name for entry in folders[1].iterdir()} == {"s.h5"}
    for folder in folders:
        monkeypatch.chdir(folder)
        assert pdac("stream", *arguments).code == 0
    assert outcome(folders[0]) == outcome(folders[1])


def test_a_signal_without_a_state_is_an_interruption(tmp_path):
    h, y = clustered(60_000, 64, 4, seed=1).astype("f4"), np.arange(60_000) % 10
    write_features(tmp_path / "f.h5", h, y)
    running = start("--budget", 100, tmp_path / "f.h5", "-o", tmp_path / "b.json", "--step-rows", 1)
    time.sleep(2.5)
    running.send_signal(signal.SIGTERM)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 143
    assert "Traceback" not in err
    assert not (tmp_path / "b.json").exists()


WRITER = """
    import pathlib, sys, time
    import h5py, numpy as np
    path, source, done = sys.argv[1:4]
    with h5py.File(source) as file:
        h, y = file["features"][:], file["labels"][:]
    with h5py.File(path, "w", libver="latest") as file:
        features = file.create_dataset("features", (0, h.shape[1]), h.dtype, maxshape=(None, h.shape[1]))
        labels = file.create_dataset("labels", (0,), y.dtype, maxshape=(None,))
        file["settings"] = np.arange(7)  # what is no column does not count
        file.swmr_mode = True
        for start in range(0, len(h), 45):
            stop = min(start + 45, len(h))
            features.resize(stop, axis=0)
            features[start:stop] = h[start:stop]
            features.flush()
            time.sleep(0.02)  # a reader may see more features than labels
            labels.resize(stop, axis=0)
            labels[start:stop] = y[start:stop]
            labels.flush()
            time.sleep(0.03)
        if done == "yes":
            pathlib.Path(path + ".done").touch()
            time.sleep(1.0)
"""


@pytest.mark.parametrize("end", ["marker", "timeout"])
def test_a_growing_file_is_followed_to_the_same_buffer_as_the_finished_one(pdac, tmp_path, feature_file, end):
    source, growing = feature_file(n=600), tmp_path / "live.h5"
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(growing), str(source)]
    writer = subprocess.Popen([*command, "yes" if end == "marker" else "no"])
    timeout = ("--timeout", 30 if end == "marker" else 2)
    state = ("--state", tmp_path / "s.h5", "--state-every", 100)
    begun = time.monotonic()
    result = pdac("stream", "--budget", 50, growing, "-o", tmp_path / "live.json", "--follow", *timeout, *state)
    assert result.code == 0, result.err
    assert time.monotonic() - begun < 25
    assert writer.wait(timeout=30) == 0
    assert pdac("stream", "--budget", 50, source, "-o", tmp_path / "whole.json").code == 0
    live, whole = read_index(tmp_path / "live.json"), read_index(tmp_path / "whole.json")
    np.testing.assert_array_equal(live.row, whole.row)
    np.testing.assert_array_equal(live.log_density, whole.log_density)
    assert live.sources[0].fingerprint == whole.sources[0].fingerprint
    again = pdac(
        "stream", "--budget", 50, growing, "-o", tmp_path / "live.json", "--state", tmp_path / "s.h5", "--json"
    )
    assert again.json["new_rows"] == 0


def test_a_file_that_no_one_writes_ends_the_wait(pdac, tmp_path):
    result = pdac("stream", "--budget", 5, tmp_path / "no.h5", "-o", tmp_path / "b.json", "--follow", "--timeout", 0.2)
    assert result.code == 3
    assert "no row came in 0.2 s (not found)" in result.err
    with h5py.File(tmp_path / "empty.h5", "w") as file:
        file["other"] = np.zeros(3)
    result = pdac("stream", "--budget", 5, tmp_path / "empty.h5", "-o", tmp_path / "b.json", "--follow", "--timeout", 0)
    assert "(has no features)" in result.err


def test_a_file_that_has_grown_is_read_on(pdac, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    h, y = clustered(300, 12, 3, seed=0), np.arange(300) % 3
    arguments = ("stream", "--budget", 30, "f.h5", "-o", "b.json", "--state", "s.h5", "--json")
    write_features(tmp_path / "f.h5", h[:200], y[:200])
    assert pdac(*arguments).json["new_rows"] == 200
    write_features(tmp_path / "f.h5", h, y)
    assert pdac(*arguments).json["new_rows"] == 100
    index = read_index(tmp_path / "b.json")
    assert len(index.sources) == 1
    assert index.sources[0].rows == 300


def test_a_file_changed_in_the_middle_of_it_is_refused(pdac, tmp_path, feature_file, monkeypatch):
    path = feature_file(n=600)
    arguments = ("stream", "--budget", 30, path, "-o", tmp_path / "b.json", "--state", tmp_path / "s.h5")
    checks = iter([False] * 4 + [True] * 100)
    monkeypatch.setattr("pdac_cli.commands.stream.command.stop_requests", _asks(checks))
    stopped = pdac(*arguments)
    assert stopped.code == 6
    assert "stopped after 160 rows" in stopped.err
    monkeypatch.undo()
    other = feature_file("other.h5", n=600, seed=8)
    result = pdac("stream", "--budget", 30, other, "-o", tmp_path / "b.json", "--state", tmp_path / "s.h5")
    assert result.code == 3
    assert "the stream stands at row 160 of its 600" in result.err
    feature_file(n=600, seed=9)
    result = pdac(*arguments)
    assert result.code == 3
    assert "its first 160 rows are not those that the stream has read" in result.err


def _asks(answers):
    @contextmanager
    def requests(_resumable):
        yield lambda: next(answers)

    return requests


def test_a_stream_stopped_after_its_last_batch_still_ends_its_trace(pdac, tmp_path, monkeypatch):
    """All rows are in the state then, but the trace's last line is not written yet."""
    monkeypatch.chdir(tmp_path)
    options = ["--budget", 40, SAMPLE, "-o", "b.json", "--state", "s.h5", "--trace", "t.csv", "--batch", 100]
    assert pdac("stream", *options).code == 0
    whole = (tmp_path / "t.csv").read_text().splitlines()
    for path in ("b.json", "s.h5", "t.csv"):
        (tmp_path / path).unlink()
    batches = -(-int(whole[-1].split(",")[0]) // 100)
    with monkeypatch.context() as patched:
        patched.setattr(
            "pdac_cli.commands.stream.command.stop_requests", _asks(k == batches for k in itertools.count(1))
        )
        assert pdac("stream", *options).code == 6
    assert len((tmp_path / "t.csv").read_text().splitlines()) == len(whole) - 1
    assert pdac("stream", *options).code == 0
    again = (tmp_path / "t.csv").read_text().splitlines()
    assert [[line.split(",")[k] for k in (0, 3, 4, 5, 9)] for line in again] == [
        [line.split(",")[k] for k in (0, 3, 4, 5, 9)] for line in whole
    ]


def test_a_trace_records_the_stream(pdac, tmp_path):
    trace = tmp_path / "t.csv"
    assert pdac("stream", "--budget", 100, SAMPLE, "-o", tmp_path / "b.json", "--trace", trace).code == 0
    lines = list(csv.DictReader(trace.read_text().splitlines()))
    assert [int(line["rows"]) for line in lines] == [256, 512, 768, 1024, 1280, 1536, 1792, 1797]
    assert all(int(line["kept"]) == 100 for line in lines)
    final = dict(pair.split(":") for pair in lines[-1]["class_counts"].split())
    counts = read_index(tmp_path / "b.json").class_counts
    assert {int(label): int(count) for label, count in final.items()} == counts
    assert float(lines[-1]["mean_log_density"]) == pytest.approx(
        np.nanmean(read_index(tmp_path / "b.json").log_density), abs=1e-3
    )


def test_the_progress_line_is_for_terminals_only(tmp_path):
    arguments = ("--budget", 100, SAMPLE, "-o", tmp_path / "b.json", "--force", "--method", "spdac")
    plain = start(*arguments)
    assert "turnover" not in plain.communicate()[1]
    master, slave = pty.openpty()
    running = subprocess.Popen([sys.executable, "-m", "pdac_cli", "stream", *map(str, arguments)], stderr=slave)
    os.close(slave)
    seen = b""
    while True:
        try:
            part = os.read(master, 4096)
        except OSError:
            break
        if not part:
            break
        seen += part
    assert running.wait() == 0
    os.close(master)
    for word in (b"1,797 of 1,797, ", b"/s, ", b" left, ", b"turnover"):
        assert word in seen


@pytest.mark.parametrize(("options", "words"), [
    (("--beta", 0.4), "begun with beta 0.5 and not 0.4"),
    (("--budget", 31), "begun with budget 30 and not 31"),
    (("--method", "er"), "begun with method spdac and not er"),
    (("--seed", 1), "begun with seed 0 and not 1"),
])  # fmt: skip
def test_a_state_of_other_options_is_refused(pdac, tmp_path, feature_file, options, words):
    arguments = ("stream", "--budget", 30, feature_file(), "-o", tmp_path / "b.json", "--state", tmp_path / "s.h5")
    assert pdac(*arguments).code == 0
    before = (tmp_path / "s.h5").read_bytes()
    result = pdac(*arguments, *options)
    assert result.code == 2
    assert words in result.err
    assert (tmp_path / "s.h5").read_bytes() == before


@pytest.mark.parametrize(("options", "code", "words"), [
    (("--beta", 0), 2, "--beta is 0.0"),
    (("--batch", 0), 2, "--batch is 0"),
    (("--step-rows", 0), 2, "--step-rows is 0"),
    (("--window", -1), 2, "--window is -1"),
    (("--dim", 17), 2, "--dim is 17, the data has 16 features"),
    (("--state-every", 5), 2, "without --state"),
    (("--method", "er", "--model", "m.h5"), 2, "it belongs to the method spdac"),
    (("--state", "b.json"), 2, "are the same file"),
    (("--trace", "feats.h5"), 2, "are the same file"),
])  # fmt: skip
def test_bad_options_are_refused_before_any_work(pdac, tmp_path, feature_file, monkeypatch, options, code, words):
    monkeypatch.chdir(tmp_path)
    feature_file()
    result = pdac("stream", "--budget", 30, "feats.h5", "-o", "b.json", *options)
    assert result.code == code
    assert words in result.err
    assert len(result.err.splitlines()) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["feats.h5"]


def test_an_output_is_not_replaced_unasked(pdac, tmp_path, feature_file):
    path, out = feature_file(), tmp_path / "b.json"
    out.write_text("precious")
    assert pdac("stream", "--budget", 30, path, "-o", out).code == 5
    assert out.read_text() == "precious"
    assert pdac("stream", "--budget", 30, path, "-o", out, "--force").code == 0


def test_a_damaged_state_is_refused(pdac, tmp_path, feature_file):
    arguments = ("stream", "--budget", 30, feature_file(), "-o", tmp_path / "b.json", "--state", tmp_path / "s.h5")
    assert pdac(*arguments).code == 0
    with h5py.File(tmp_path / "s.h5", "r+") as file:
        del file["arrays/fitted/basis"]
    result = pdac(*arguments)
    assert result.code == 4
    assert "cannot be read as a state" in result.err


def test_bad_rows_are_left_out_or_refused(pdac, tmp_path):
    h, y = clustered(200, 12, 3, seed=0), np.arange(200) % 3
    h[17, 3] = np.nan
    y[40:50] = -1
    path = write_features(tmp_path / "f.h5", h, y)
    arguments = ("stream", "--budget", 250, path, "-o", tmp_path / "b.json", "--ignore-label", -1, "--json")
    assert "row 17" in pdac(*arguments).err
    result = pdac(*arguments, "--drop-nonfinite")
    assert (result.json["kept"], result.json["dropped"], result.json["ignored"]) == (189, 1, 10)
    assert "all are kept" in result.err


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path):
    peaks = []
    for n in (50_000, 100_000):  # both many times what is read at once
        path = tmp_path / f"{n}.h5"
        with h5py.File(path, "w") as file:
            rows = np.random.default_rng(0).standard_normal((n, 512), dtype="f4")
            file.create_dataset("features", data=rows, chunks=(1000, 512))
            file["labels"] = np.arange(n) % 10
        arguments = ["stream", "--budget", "100", str(path), "-o", str(tmp_path / f"{n}.json"), "-q"]
        peaks.append(measured([sys.executable, "-m", "pdac_cli", *arguments])[1])
    assert peaks[1] - peaks[0] < 16_000_000  # the larger file has 102 MB more


def test_the_default_is_steered_and_the_papers_rule_is_one_flag_away(pdac, tmp_path):
    def made(*options):
        out = tmp_path / "b.json"
        assert pdac.plain("stream", "--budget", 30, SAMPLE, "-o", out, "--force", *options).code == 0
        index = read_index(out)
        return index.method, index.row.tolist()

    default = made()
    assert default == made("--method", "spdac", "--density", "relative", "--steer", 10, "--temperature", 1)
    assert made("--steer", 0) != default
    by_class = made("--density", "class")
    assert by_class[0] == default[0]
    assert by_class != default
    printed = ("--density", "class", "--steer", 0, "--allocation", "joint", "--acceptance", "paper", "--step-rows", 1)
    as_printed = (*printed, "--units", "absolute", "--updates", "printed")
    assert made("--preset", "paper") == made(*as_printed) != made(*printed)
    assert made(*as_printed) != by_class
    assert made("--density", "class", "--model", tmp_path / "m.h5") == by_class


def test_the_default_does_not_depend_on_batches_and_resumes_to_the_byte(pdac, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    common = ("stream", "--budget", 30, SAMPLE, "-o", "b.json", "--state", "s.h5", "--state-every", 100)
    found = pdac.plain(*common)
    assert found.code == 0, found.err
    whole = [(tmp_path / name).read_bytes() for name in ("b.json", "s.h5")]
    index = read_index(tmp_path / "b.json")
    assert set(index.class_counts.values()) == {3}
    assert index.options["density"] == "relative"
    assert index.options["steer"] == 10
    assert np.all((index.score > 0) & (index.score <= 1))
    assert np.isfinite(index.log_density).any()
    for name in ("b.json", "s.h5"):
        (tmp_path / name).unlink()
    take, taken = Stream.take, []

    def dying(self, *rest):
        taken.append(1)
        if len(taken) % 7 == 0:
            raise Killed
        take(self, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(stream_run.Stream, "take", dying)
        for _ in range(60):
            with suppress(Killed):
                assert pdac.plain(*common).code == 0
                break
    assert len(taken) > 60
    assert [(tmp_path / name).read_bytes() for name in ("b.json", "s.h5")] == whole
    for batch in (1, 7, 64):
        assert pdac.plain("stream", "--budget", 30, SAMPLE, "-o", f"{batch}.json", "--batch", batch).code == 0
        other = read_index(tmp_path / f"{batch}.json")
        for column in ("row", "label", "log_density", "score"):
            np.testing.assert_array_equal(getattr(other, column), getattr(index, column))


@pytest.mark.parametrize(("options", "words"), [
    (("--window", 32), "--window has no effect on this run; it belongs to --density class; leave it out"),
    (("--step-rows", 5), "--step-rows has no effect"),
    (("--solver", "exact"), "--solver has no effect"),
    (("--model", "m.h5"), "--model has no effect on this run; it belongs to --density class"),
    (("--density", "class", "--steer", 3), "--steer has no effect on this run; it belongs to --density relative"),
    (("--steer", -1), "--steer is -1.0; expected 0 or more"),
])  # fmt: skip
def test_options_of_one_density_are_not_given_with_the_other(pdac, tmp_path, feature_file, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    feature_file()
    found = pdac.plain("stream", "--budget", 30, "feats.h5", "-o", "b.json", *options)
    assert (found.code, words in found.err) == (2, True), found.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["feats.h5"]

"""Algorithm 1 over a sequence of tasks, against a plain transcription of it."""

import itertools

import h5py
import numpy as np
import pytest

from pdac_cli.files.index.index_file import read_index
from pdac_cli.rng import Purpose, row_gumbels
from tests.oracles import clustered, largest_remainder

N = 60


@pytest.fixture
def tasks(tmp_path):
    """Five task files of two classes each, the fourth smaller than its share."""
    paths = []
    for t, n in enumerate([200, 140, 300, 7, 90], start=1):
        path = tmp_path / f"task{t}.h5"
        with h5py.File(path, "w") as file:
            file["features"] = clustered(n, 12, 4, seed=t)
            file["labels"] = np.arange(n) % 2 + 2 * t - 2
        paths.append(path)
    return paths


def run_loop(pdac, tasks, tmp_path, *options, eviction=()):
    """The shell loop of the README; returns the buffer after each task."""
    buffers = []
    for t, path in enumerate(tasks, start=1):
        out = tmp_path / f"buffer{t}.json"
        before = ["--buffer", tmp_path / f"buffer{t - 1}.json", *eviction] if t > 1 else []
        result = pdac("select", "--budget", N, path, "--task", t, *before, "-o", out, *options)
        assert result.code == 0, result.err
        buffers.append(read_index(out))
    return buffers


def algorithm_1(log_p_of_task, seed=0):
    """The paper's Algorithm 1 with one pool a task: all densities known, all noise given."""
    memory = {}  # task -> list of rows, in order of drawing
    history = []
    for t, log_p in enumerate(log_p_of_task, start=1):
        available = [len(memory[j]) for j in sorted(memory)] + [len(log_p)]
        budgets = [0] * t
        while sum(budgets) < min(N, sum(available)):  # N/t each, one after another, as far as a task's rows reach
            open_tasks = [j for j in range(t) if budgets[j] < available[j]]
            budgets[min(open_tasks, key=lambda j: (budgets[j], j))] += 1
        for j in sorted(memory):
            rows = np.array(memory[j])
            p = np.exp(log_p_of_task[j - 1][rows] - log_p_of_task[j - 1][rows].max())
            w = 1 - p
            noise = row_gumbels(seed, Purpose.EVICT, rows, t, j)
            with np.errstate(divide="ignore"):
                key = np.log(w) + noise
            leave = set(rows[np.argsort(-key)][: len(rows) - budgets[j - 1]].tolist())
            memory[j] = [row for row in memory[j] if row not in leave]
        key = log_p + row_gumbels(seed, Purpose.DRAW, np.arange(len(log_p)))
        memory[t] = np.argsort(-key)[: budgets[-1]].tolist()
        history.append({j: list(rows) for j, rows in memory.items()})
    return history


def test_the_loop_reproduces_the_papers_algorithm(pdac, tasks, tmp_path):
    printed = ("--allocation", "joint", "--density", "class", "--steer", "0", "--no-normalize", "--dim", "4")
    buffers = run_loop(pdac, tasks, tmp_path, *printed, eviction=("--eviction", "relative"))
    densities = []
    for t, path in enumerate(tasks, start=1):  # every row's log-density, from a selection that keeps all
        out = tmp_path / f"all{t}.json"
        pdac("select", "--budget", 1000, path, "-o", out, *printed)
        index = read_index(out)
        densities.append(index.log_density[np.argsort(index.row)])
    for t, expected in enumerate(algorithm_1(densities)):
        found = {int(j): buffers[t].row[buffers[t].task == j].tolist() for j in np.unique(buffers[t].task)}
        assert found == expected


@pytest.mark.parametrize("allocation", ["per-class", "balanced", "joint"])
@pytest.mark.parametrize("method", ["pdac", "uniform"])
def test_budgets_hold_after_every_task(pdac, tasks, tmp_path, allocation, method):
    sizes = [200, 140, 300, 7, 90]
    steer = ("--steer", "0") if allocation == "joint" and method == "pdac" else ()
    buffers = run_loop(pdac, tasks, tmp_path, "--allocation", allocation, "--method", method, *steer)
    for t, buffer in enumerate(buffers, start=1):
        assert len(buffer.row) == min(N, sum(sizes[:t]))
        assert len(set(zip(buffer.source.tolist(), buffer.row.tolist(), strict=True))) == len(buffer.row)
        stored = np.bincount(buffer.task, minlength=t + 1)[1:]
        if t <= 3:
            np.testing.assert_array_equal(stored, largest_remainder(N, [1] * t))
        else:
            assert stored[3] == 7
            others = np.delete(stored, 3)
            assert np.ptp(others) <= 1
        for source in range(t):
            assert set(buffer.label[buffer.source == source].tolist()) <= {2 * source, 2 * source + 1}
        if allocation != "joint":  # both classes of a task keep their share
            assert np.ptp(np.bincount(buffer.label)[: 2 * t].reshape(t, 2), axis=1).max() <= 1


def test_what_stays_was_there_before_and_keeps_its_density(pdac, tasks, tmp_path):
    buffers = run_loop(pdac, tasks, tmp_path)
    for before, after in itertools.pairwise(buffers):
        known = dict(
            zip(zip(before.source.tolist(), before.row.tolist(), strict=True), before.log_density, strict=True)
        )
        for source, row, log_density in zip(after.source.tolist(), after.row, after.log_density, strict=True):
            if source < len(before.sources):
                assert known[source, int(row)] == log_density


def test_a_steered_task_gives_up_the_rows_it_drew_last(pdac, tasks, tmp_path):
    """Eq. (25): the steered draw among the rows kept takes them in the same order, so the ends of the lists go."""
    for before, after in itertools.pairwise(run_loop(pdac, tasks, tmp_path)):
        for label in np.unique(before.label):
            mine, stayed = before.row[before.label == label], after.row[after.label == label]
            np.testing.assert_array_equal(stayed, mine[: len(stayed)])


def test_eviction_keeps_the_dense_rows(pdac, tasks, tmp_path):
    for rule in ("relative", "inverse"):
        cold = ("--temperature", "0", "--steer", "0", "--density", "class")
        buffers = run_loop(pdac, tasks[:2], tmp_path, *cold, "--force", eviction=("--eviction", rule))
        first = buffers[0].log_density
        stayed = buffers[1].log_density[buffers[1].task == 1]
        assert stayed.mean() > first.mean()


def test_the_task_number_is_counted_on_and_a_text_index_has_two_columns(pdac, tasks, tmp_path):
    one, two = tmp_path / "one.json", tmp_path / "two.txt"
    pdac("select", "--budget", N, tasks[0], "-o", one)
    assert pdac("select", "--budget", N, tasks[1], "--buffer", one, "-o", two).code == 0
    table = np.loadtxt(two, dtype=int)
    assert table.shape == (N, 2)
    assert set(table[:, 0].tolist()) == {1, 2}


def test_a_task_or_a_file_the_buffer_has_already_is_refused(pdac, tasks, tmp_path):
    one = tmp_path / "one.json"
    pdac("select", "--budget", N, tasks[0], "-o", one)
    again = pdac("select", "--budget", N, tasks[0], "--buffer", one)
    assert again.code == 2
    assert "has this feature file already, as task 1" in again.err
    other = pdac("select", "--budget", N, tasks[1], "--buffer", one, "--task", 1)
    assert other.code == 3
    assert "its task 1 comes from another feature file" in other.err
    assert "--task 2" in other.err


def test_class_names_are_one_numbering_over_all_tasks(pdac, tmp_path):
    for name, classes in (("a", ["cat", "ant"]), ("b", ["bee", "cat"])):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["features"] = clustered(40, 6, 2, seed=len(classes[0]))
            if name == "b":
                file["features"][0] += 1
            file["labels"] = classes * 20
    pdac("select", "--budget", 20, tmp_path / "a.h5", "-o", tmp_path / "1.json")
    result = pdac(
        "select",
        "--budget",
        20,
        tmp_path / "b.h5",
        "-o",
        tmp_path / "2.json",
        "--buffer",
        tmp_path / "1.json",
    )
    assert result.code == 0, result.err
    index = read_index(tmp_path / "2.json")
    assert index.label_names == ("ant", "cat", "bee")
    names = np.array(index.label_names)[index.label]
    for source, expected in ((0, ["cat", "ant"]), (1, ["bee", "cat"])):
        rows = index.source == source
        np.testing.assert_array_equal(names[rows], np.array(expected * 20)[index.row[rows]])

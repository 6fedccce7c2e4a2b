"""The answer of a cluster is that of one process, to the bit: files, summaries and warnings."""

import os
import signal
import threading

import pytest

from tests.engine.cluster.dask_processes import SLOWLY, UNIT, wait_for

pytestmark = pytest.mark.slow
BUDGET = ("--budget", "40", "--json")
METHODS = {
    "pdac": ("--method", "pdac"),
    "pdac by the mean": ("--steer-by", "mean"),
    "pdac alone": ("--steer", "0"),
    "paper": ("--preset", "paper"),
    "uniform": ("--method", "uniform"),
    "least-error": ("--method", "least-error"),
    "herding": ("--method", "herding"),
    "herding of all": ("--method", "herding", "--allocation", "joint"),
    "kcenter": ("--method", "kcenter"),
}


@pytest.fixture
def in_process(pdac, tmp_path):
    """The bytes of the answer of a run in one process, and what it says."""

    def run(verb, *arguments):
        answer = with_suffix(tmp_path / "answer", verb)
        result = pdac(verb, *arguments, "-o", answer, "--force")
        assert result.code == 0, result.err
        return answer.read_bytes(), result.out, result.err

    return run


@pytest.fixture
def on_cluster(dask, in_process, tmp_path):
    """The same of a run on a cluster."""

    def run(verb, *arguments):
        found = in_process(verb, *arguments, "--scheduler", dask.address, "--scratch", tmp_path, *UNIT)
        assert not list(tmp_path.glob("pdac-*")), "the scratch folder is left"
        return found

    return run


def with_suffix(path, verb):
    return path.with_suffix(".h5" if verb == "fit" else ".json")


def meanwhile(folder, answers, act):
    """Do something when so many units are done."""

    def watch():
        wait_for(lambda: len(list(folder.glob("pdac-*/*.answers*"))) >= answers)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_one_two_and_five_workers_give_the_bits_of_one_process(dask, features, in_process, on_cluster):
    whole, shards = features
    model = in_process("fit", whole, "--json")
    chosen = {name: in_process("select", whole, *BUDGET, *how) for name, how in METHODS.items()}
    dask.add(1)
    assert on_cluster("fit", whole, "--json") == model
    assert on_cluster("select", whole, *BUDGET) == chosen["pdac"]
    dask.add(1)
    for name, how in METHODS.items():
        assert on_cluster("select", whole, *BUDGET, *how) == chosen[name], name
    assert on_cluster("fit", *shards, "--json") == model
    dask.add(3)
    assert on_cluster("fit", whole, "--json") == model
    assert on_cluster("select", whole, *BUDGET, *METHODS["kcenter"]) == chosen["kcenter"]


def test_workers_of_this_machine_give_the_bits_of_one_process(features, in_process):
    whole, _ = features
    here = in_process("select", whole, *BUDGET, "--drop-nonfinite", "--ignore-label", "4")
    assert (
        in_process("select", whole, *BUDGET, "--drop-nonfinite", "--ignore-label", "4", "--workers", "2", *UNIT) == here
    )


@pytest.mark.parametrize(("method", "answers"), [("pdac", 13), ("kcenter", 16)])
def test_a_worker_that_is_killed_changes_nothing(dask, features, in_process, on_cluster, tmp_path, method, answers):
    whole, _ = features
    here = in_process("select", whole, *BUDGET, "--method", method)
    dask.add(2, preload=SLOWLY)
    thread = meanwhile(tmp_path, answers, dask.workers[0].kill)
    assert on_cluster("select", whole, *BUDGET, "--method", method) == here
    thread.join()


def test_a_worker_that_hangs_changes_nothing(dask, features, in_process, on_cluster, tmp_path):
    whole, _ = features
    here = in_process("fit", whole, "--json")
    dask.add(2, preload=SLOWLY)
    thread = meanwhile(tmp_path, 3, lambda: os.kill(dask.workers[1].pid, signal.SIGSTOP))
    assert on_cluster("fit", whole, "--json") == here
    thread.join()

"""What happens when something goes wrong, with a real scheduler and real workers."""

import signal
import time

import pytest

from tests.engine.cluster.dask_processes import SLOWLY, UNIT, finished, pdac, wait_for

pytestmark = pytest.mark.slow
DEADLY = """
import os
from pdac_cli.engine import fitting
def die(self, group, whole=fitting._Fit.__call__):  # of one class alone: others would end the workers it is to end
    if any(rows.label == 0 for rows in group):
        os._exit(9)
    return whole(self, group)
if fitting._Fit.__call__.__name__ != "die":  # preloads are run more than once
    fitting._Fit.__call__ = die
"""
FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))"
OTHER_VERSION = "import pdac_cli; pdac_cli.__version__ = '0.0.1'"


def fit(dask, path, folder, *options, cwd=None):
    place = ("--scheduler", dask.address, "--scratch", folder, *UNIT)
    return pdac("fit", path, "-o", folder / "model.h5", "--force", *place, *options, cwd=cwd)


def at_work(folder, answers):
    wait_for(lambda: len(list(folder.glob("pdac-*/*.answers"))) >= answers)


def left(folder):
    return list(folder.glob("pdac-*"))


def test_without_workers_it_waits_goes_on_when_one_joins_and_ends_after_the_timeout(dask, features, tmp_path):
    whole, _ = features
    dask.add(1, preload=SLOWLY)
    process = fit(dask, whole, tmp_path, "--worker-timeout", "30")
    at_work(tmp_path, 3)
    dask.workers[0].kill()
    time.sleep(2)
    assert process.poll() is None
    dask.add(1)
    finished(process)
    dask.workers[1].kill()
    _, said = finished(fit(dask, whole, tmp_path, "--worker-timeout", "2"), 5)
    assert "there has been no worker for 2 s (--worker-timeout); expected at least one" in said


def test_a_unit_that_ends_its_workers_is_named(dask, features, tmp_path):
    whole, _ = features
    dask.add(3, preload=DEADLY)
    _, said = finished(fit(dask, whole, tmp_path, "--worker-timeout", "30"), 5)
    assert "fitting classes, unit 1 of" in said
    assert "ended every worker that tried it, 2 of them" in said
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("preload", "message"),
    [
        (FULL, "larger than the file size limit"),
        (OTHER_VERSION, "this worker differs from the client: pdac"),
    ],
)
def test_a_worker_that_cannot_is_named(dask, features, tmp_path, preload, message):
    whole, _ = features
    dask.add(1, preload=preload)
    _, said = finished(fit(dask, whole, tmp_path), 5)
    assert message in said
    assert "(on worker tcp://127.0.0.1:" in said
    assert left(tmp_path) == []


def test_a_shard_that_one_worker_cannot_see_is_named_with_it(dask, features, tmp_path):
    whole, _ = features
    (tmp_path / "elsewhere").mkdir()
    dask.add(1, cwd=tmp_path / "elsewhere")
    _, said = finished(fit(dask, f"/proc/self/cwd/{whole.name}", tmp_path, cwd=whole.parent), 3)
    assert f"/proc/self/cwd/{whole.name}: not found; expected the file on every machine" in said
    assert "(on worker tcp://127.0.0.1:" in said


def test_ctrl_c_calls_the_work_off_and_leaves_nothing(dask, features, tmp_path):
    whole, _ = features
    dask.add(1, preload=SLOWLY)
    process = fit(dask, whole, tmp_path)
    at_work(tmp_path, 2)
    process.send_signal(signal.SIGINT)
    _, said = finished(process, 130)
    assert said == "error: interrupted; every output is as it was before, or complete\n"
    time.sleep(1)  # a unit that was under way has ended, and has written nothing
    assert left(tmp_path) == []
    assert not (tmp_path / "model.h5").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_stop_keeps_what_is_finished_and_a_rerun_goes_on(dask, features, tmp_path, number):
    whole, _ = features
    dask.add(1, preload=SLOWLY)
    process = fit(dask, whole, tmp_path)
    at_work(tmp_path, 5)
    process.send_signal(number)
    _, said = finished(process, 6)
    assert f"stopped by {number.name}; what is finished is kept in" in said
    (folder,) = left(tmp_path)
    assert len(list(folder.glob("*.answers"))) >= 5
    _, said = finished(fit(dask, whole, tmp_path))
    assert "going on from what an earlier run has finished" in said
    assert left(tmp_path) == []
    here = pdac("fit", whole, "-o", tmp_path / "here.h5")
    finished(here)
    assert (tmp_path / "here.h5").read_bytes() == (tmp_path / "model.h5").read_bytes()
